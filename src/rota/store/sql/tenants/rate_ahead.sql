-- How far the tenant is ahead of the rate $2, at most $3. What was used counts in tasks: after a change of plan, each
-- takes as long as under the new one, and no more were used than the new plan allows at once.
least($3::interval, (greatest(arrival, clock_timestamp()) - clock_timestamp())
    * (extract(epoch from $2::interval) / extract(epoch from coalesce(per_task, $2::interval)))::float8)
