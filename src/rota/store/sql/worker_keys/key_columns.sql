worker_keys.id, worker_keys.public_id, pools.name as pool, worker_keys.uses, worker_keys.used, worker_keys.created_at,
    worker_keys.created_by, worker_keys.expires_at, worker_keys.revoked_at, worker_keys.used_at, host(worker_keys.used_from) as used_from,
    case when worker_keys.revoked_at is not null then 'revoked' when worker_keys.expires_at <= now() then 'expired'
        when worker_keys.used >= worker_keys.uses then 'used up' else 'valid' end as state
