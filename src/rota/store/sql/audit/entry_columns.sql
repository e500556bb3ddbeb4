entry.tenant, entry.actor_kind, entry.actor, entry.credential, entry.on_behalf_of, entry.via, entry.action,
    entry.object_kind, entry.object_id, entry.outcome, entry.reason, entry.before, entry.after, entry.selection, entry.count,
    entry.address, entry.agent, entry.request_id, entry.server
