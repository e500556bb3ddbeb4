insert into passwords (principal, hash) values ($1, $2)
on conflict (principal) do update set hash = excluded.hash, changed_at = now()
