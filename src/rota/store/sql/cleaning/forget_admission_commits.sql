delete from admission_commits where id in (
select id from admission_commits where created_at < now() - interval '1 hour'
limit $1 for update skip locked)
