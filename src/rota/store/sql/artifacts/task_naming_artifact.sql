-- A live task that names the artifact, if there is one.
select tasks.id from tasks join queue on queue.id = tasks.id
where tasks.artifacts @> array[$2::bytea] and tasks.artifacts is not null and tasks.tenant = $1 limit 1
