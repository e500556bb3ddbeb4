-- What bounds nobody any more. $2: how long failures count.
delete from sign_in_attempts where key in (
    select key from sign_in_attempts where free_at < now() - make_interval(secs => $2) order by free_at limit $1
)
