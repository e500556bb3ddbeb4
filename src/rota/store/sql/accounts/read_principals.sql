-- Of kind $1: all, or those with a role at the tenant $2, or that belong to it. By name, after the name $3.
select {principal_columns} from principals
where principals.kind = $1 and lower(principals.name) > lower($3)
    and ($2::integer is null or principals.tenant = $2
        or exists (select from bindings where bindings.principal = principals.id and bindings.tenant = $2))
order by lower(principals.name), principals.id limit $4
