-- What new runs of ended tasks keep of them: their parents, whose results they read, and the rule for each.
select id, after_tasks, after_rules, upstream from tasks where id = any($1) and tenant = $2
