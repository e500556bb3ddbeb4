entry (tenant integer, actor_kind text, actor text, credential text, on_behalf_of text, via text, action text,
    object_kind text, object_id text, outcome text, reason text, before jsonb, after jsonb, selection jsonb, count bigint,
    address inet, agent text, request_id text, server text)
