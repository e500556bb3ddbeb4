insert into servers (holder, name, url, version) values ($1, $2, $3, $4)
on conflict (holder) do update set seen_at = now() returning id
