insert into tenants (name, plan, trusted) values ($1, $2, $3) on conflict (name) do nothing
returning id, name, plan, created_at, trusted, paused, support, share_control
