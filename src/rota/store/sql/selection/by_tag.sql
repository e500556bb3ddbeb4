select task_tags.task as id from task_tags
    where task_tags.tenant = $1 and task_tags.task < $2 and task_tags.name = ($5::text[])[1] and task_tags.value = ($5::text[])[2]
    order by task_tags.task desc limit $3
