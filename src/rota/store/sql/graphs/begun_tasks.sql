-- Those of the tasks that have ended or begun an attempt.
select given.id from unnest($1::bigint[]) as given (id)
where not exists (select from queue where queue.id = given.id and queue.attempt = 0)
