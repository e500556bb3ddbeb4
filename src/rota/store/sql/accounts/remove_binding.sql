delete from bindings
where principal = $1 and role = $2 and tenant is not distinct from $3::integer and pool is not distinct from $4::text
    and source = $5 returning id
