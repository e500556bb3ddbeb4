-- How much a tenant has of what its plan limits in number, and the bytes it stores.
select ({tenants/count_schedules}) as schedules, ({tenants/count_webhooks}) as webhooks, ({tenants/count_tokens}) as tokens,
    ({tenants/count_secrets}) as secrets,
    coalesce((select graph_counts.graphs from graph_counts where graph_counts.tenant = $1), 0) as graphs,
    ({artifacts/storage_used})::bigint as storage_bytes
