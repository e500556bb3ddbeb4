-- All ($1), or those of the tenant $2 and those that the principal $3 owns. Of these the one with the id $4, those with
-- the name $5, or all. Those that people use first.
select {tenants/token_columns} from tokens join tenants on tenants.id = tokens.tenant
where ($1::boolean or tokens.tenant = $2 or tokens.owner = $3)
    and ($4::integer is null or tokens.id = $4) and ($5::text is null or tokens.name = $5)
order by tokens.id
