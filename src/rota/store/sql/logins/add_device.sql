insert into cli_logins (kind, code_hash, user_code_hash, machine, lasts, tenant_name, address, network, agent, poll_seconds,
    expires_at)
values ('device', $1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10::interval)
on conflict do nothing
returning id
