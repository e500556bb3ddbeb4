-- Those that gave a token are kept for a day, so that a second use of their codes is noticed.
delete from cli_logins where id in (
    select id from cli_logins
    where expires_at < now() - case when token is null then interval '1 minute' else interval '1 day' end
    order by expires_at limit $1
)
