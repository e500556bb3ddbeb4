select links.id, links.principal from sign_in_links as links
left join principals on principals.id = links.principal
where links.hash = $1 and links.used_at is null and links.ends_at > now()
    and principals.disabled_at is null
