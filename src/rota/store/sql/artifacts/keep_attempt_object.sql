-- The latest object of a name counts; the object it replaces becomes loose in the same statement.
with replaced as (
    insert into loose_objects (object_key, remove_at)
    select object_key, now() from attempt_objects
    where task = $2 and attempt = $3 and purpose = $4 and name = $5 and object_key is not null
    returning object_key
)
insert into attempt_objects (tenant, task, attempt, purpose, name, sha256, size_bytes, object_key)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (task, attempt, purpose, name) do update
    set sha256 = excluded.sha256, size_bytes = excluded.size_bytes, object_key = excluded.object_key,
        created_at = now()
returning {attempt_columns},
    (select object_key from replaced) as replaced_key
