select {attempt_columns} from attempt_objects
join artifacts on artifacts.tenant = attempt_objects.tenant and artifacts.sha256 = attempt_objects.sha256
where attempt_objects.task = $1 and attempt_objects.tenant = $2 and attempt_objects.attempt = $3
    and attempt_objects.purpose = 'output'
order by attempt_objects.name
