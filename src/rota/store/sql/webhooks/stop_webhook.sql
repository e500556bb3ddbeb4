update webhooks set stopped_reason = $2 where id = $1
