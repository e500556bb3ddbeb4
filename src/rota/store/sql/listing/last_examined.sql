select id from tasks where tenant = $1 and id < $2 and id > $3 and {chosen}
    and not ($6 and exists (
        select from graph_tasks where graph_tasks.task = tasks.id and graph_tasks.item is not null))
order by id desc offset $4 limit 1
