-- Those that ended long ago.
delete from sessions where id in (
    select id from sessions where ends_at < now() - interval '30 days' order by ends_at limit $1
)
