delete from sign_in_links where id in (
    select id from sign_in_links where ends_at < now() - interval '30 days' order by id limit $1
)
