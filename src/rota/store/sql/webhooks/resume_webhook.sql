update webhooks set stopped_reason = null,
    xid = case when stopped_reason is null then xid else $3 end,
    "row" = case when stopped_reason is null then "row" else 0 end,
    position = case when stopped_reason is null then position else 0 end
where tenant = $1 and id = $2 returning id
