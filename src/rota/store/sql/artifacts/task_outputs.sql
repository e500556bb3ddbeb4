select attempt_objects.task, {attempt_columns} from attempt_objects
join artifacts on artifacts.tenant = attempt_objects.tenant and artifacts.sha256 = attempt_objects.sha256
where (attempt_objects.task, attempt_objects.attempt) in (select * from unnest($1::bigint[], $2::integer[]))
    and attempt_objects.tenant = $3 and attempt_objects.purpose = 'output'
order by attempt_objects.task, attempt_objects.name
