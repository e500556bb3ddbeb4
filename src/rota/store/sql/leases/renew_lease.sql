-- Touches only expires_at, so it never waits for a batch that holds the fence.
update leases set expires_at = clock_timestamp() + $4::interval
where pool = $1 and epoch = $2 and holder = $3 and expires_at > clock_timestamp()
returning epoch
