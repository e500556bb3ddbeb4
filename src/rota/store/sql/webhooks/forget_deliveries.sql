delete from deliveries where id in (
select id from deliveries where created_at < now() - make_interval(days => $1)
order by created_at limit $2 for update skip locked)
