select id, user_name from tasks where id = any($1::bigint[]) and tenant = $2
union all
select id, user_name from graphs where id = any($1::bigint[]) and tenant = $2
