update nodes set state = 'removed', drain_by = null
where id = $1 and state <> 'removed' and (left_at >= seen_at or seen_at < now() - interval '1 minute')
returning id
