select {columns} from tasks join artifacts on artifacts.tenant = tasks.tenant
where tasks.id = $1 and tasks.tenant = $2 and tasks.artifacts @> array[$3::bytea] and artifacts.sha256 = $3
