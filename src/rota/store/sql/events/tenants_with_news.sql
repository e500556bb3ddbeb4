select given.tenant from unnest($1::integer[]) as given (tenant)
where exists (
    select from events where events.tenant = given.tenant and events.xid >= $2::bigint::text::xid8)
