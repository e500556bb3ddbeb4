select {attempt_columns}, coalesce(attempt_objects.object_key, artifacts.object_key) as found
from attempt_objects
left join artifacts on artifacts.tenant = attempt_objects.tenant and artifacts.sha256 = attempt_objects.sha256
where attempt_objects.task = $1 and attempt_objects.tenant = $2 and attempt_objects.id = $3
