-- Since when an attempt ran, and for how long. Its leader speaks for a lost one: it ran from its start at least until its
-- node was last heard of, by this leader or (epoch) by an earlier one.
select
    case when given.heard_at is null
        then coalesce(given.ended_at, now()) - (given.run_us + given.saving_us + given.frozen_us) * interval '1 microsecond'
        else found.started_at
    end as began_at,
    case when given.heard_at is null then given.run_us
        else (1000000 * extract(epoch from greatest(found.started_at,
            case when given.heard_at > timestamptz 'epoch' then given.heard_at else (
                select nodes.seen_at from nodes where nodes.id = found.node and nodes.boot = found.boot
            ) end) - found.started_at))::bigint
    end as ran_us
