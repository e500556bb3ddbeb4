audit_log.at, audit_log.id, audit_log.xid::text as xid, audit_log.tenant, audit_log.actor_kind, audit_log.actor,
    audit_log.credential, audit_log.on_behalf_of, audit_log.via, audit_log.action, audit_log.object_kind,
    audit_log.object_id, audit_log.outcome, audit_log.reason, audit_log.before::text as before, audit_log.after::text as after,
    audit_log.selection::text as selection, audit_log.count, host(audit_log.address) as address, audit_log.agent,
    audit_log.request_id, audit_log.server
