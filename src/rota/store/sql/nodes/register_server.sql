-- A server node with the same name and address is the one that this process replaces: it is not listed any more. Should it
-- run all the same, its next heartbeat lists it again.
with replaced as (
    update servers set seen_at = '-infinity'
    where name = $2 and url = $3 and holder <> $1 and seen_at > '-infinity'
)
insert into servers (holder, name, url, version) values ($1, $2, $3, $4)
on conflict (holder) do update set seen_at = now(), left_at = null returning id
