-- $1: all, or those with a role at this tenant, or that belong to it. By name, after the name $2, at most $3.
select {principal_columns} from principals
where (lower(principals.name), principals.id) > (lower($2), $3)
    and ($1::integer is null or principals.tenant = $1
        or exists (select from bindings where bindings.principal = principals.id and bindings.tenant = $1))
order by lower(principals.name), principals.id limit $4
