-- Once, also if it is opened twice at the same moment.
update sign_in_links set used_at = now() where id = $1 and used_at is null and ends_at > now() returning id
