operations.id, operations.tenant, operations.user_name, operations.verb, operations.asked, operations.selection,
    operations.changes, operations.edit, operations.before_id, operations.state, operations.expected, operations.or_more,
    operations.matched, operations.changed, operations.ended, operations.refused, operations.refusals, operations.trouble,
    operations.created_at, operations.ended_at, operations.audit
