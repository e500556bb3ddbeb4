-- A schedule that names the artifact, if there is one.
select schedules.name from schedules
where schedules.artifacts @> array[$2::bytea] and schedules.artifacts is not null and schedules.tenant = $1 limit 1
