id, kind, challenge, machine, lasts, tenant_name, host(address) as address, agent, created_at, allowed, principal, token,
used_at is not null as used, expires_at <= now() as expired, poll_seconds,
coalesce(polled_at > now() - make_interval(secs => poll_seconds - 1), false) as too_soon
