-- A user has allowed a program in a browser: its code $1 is good for $9.
insert into cli_logins (kind, code_hash, challenge, machine, lasts, tenant_name, principal, address, agent,
    decided_at, allowed, expires_at)
values ('browser', $1, $2, $3, $4, $5, $6, $7, $8, now(), true, now() + $9::interval)
returning id
