insert into sessions (hash, principal, tenant, via, ends_at, address, agent)
values ($1, $2, $3, $4, now() + $5::interval, $6, $7) returning id
