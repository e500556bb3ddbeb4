select {attempt_columns} from attempt_objects
where task = $1 and tenant = $2 and ($3::text is null or purpose = $3)
order by created_at desc, id desc limit $4
