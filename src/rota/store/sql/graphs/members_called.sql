select task from graph_tasks
where graph = $1 and tenant = $3 and (name = $2 or (right(name, 1) = ']' and starts_with(name, $2 || '[')))
order by task
