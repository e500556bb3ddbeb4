update principals set disabled_at = case when $2::boolean then coalesce(disabled_at, now()) end where id = $1 returning id
