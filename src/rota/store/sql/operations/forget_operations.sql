delete from operations where id in (
select id from operations where state > {OperationState.RUNNING} and ended_at < now() - make_interval(days => $1)
order by ended_at limit $2 for update skip locked)
