-- The same bytes of a tenant are one artifact: a second upload renames it and keeps it at least as long.
insert into artifacts (tenant, sha256, size_bytes, name, object_key, created_by, kept_until)
values ($1, $2, $3, $4, $5, $6, now() + $7::interval)
on conflict (tenant, sha256) do update
    set name = case when excluded.name = '' then artifacts.name else excluded.name end,
        kept_until = case
            when artifacts.kept_until is null or excluded.kept_until is null then null
            else greatest(artifacts.kept_until, excluded.kept_until)
        end
returning {columns}
