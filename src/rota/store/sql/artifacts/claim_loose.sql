update loose_objects set remove_at = now() + make_interval(secs => $2) where object_key in (
select object_key from loose_objects where remove_at <= now()
order by remove_at limit $1 for update skip locked)
returning object_key
