"""The planted bugs: what each one breaks, where its switch is. `rota simulate prove` shows that each one is noticed.

Most are mistakes that trusted systems have really made (RELIABILITY.md, findings).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    where: str


BUGS = tuple(
    Bug(*row)
    for row in (
        ("no-epoch-check", "batches of a leader that was replaced are written", "the store"),
        ("epoch-checked-without-lock", "a take-over can come between check and write", "the store"),
        ("ack-before-commit", "clients are answered before the flush", "the API"),
        ("key-stored-after-task", "the idempotency key has a transaction of its own", "the API"),
        ("app-clock-for-expiry", "leases run out by a server's own clock", "the store"),
        ("token-without-timeline", "the epoch only counts up from the row", "the store"),
        ("child-released-twice", "a child is released again by its second parent", "the store"),
        ("ttl-equals-renew-period", "a lease is renewed when it is over", "cluster/leases.py"),
        ("leader-kept-on-error", "a failed renewal counts as one", "cluster/leases.py"),
        ("identity-is-host", "two processes of a host are one holder", "cluster/leases.py"),
        ("anyone-acknowledges", "heartbeats are acknowledged without a lease", "dispatch/agent_connection.py"),
        ("restart-not-noticed", "attempts of an earlier boot are waited for", "dispatch/agent_connection.py"),
        ("lost-start-not-noticed", "attempts a node never got are waited for", "dispatch/agent_connection.py"),
        ("no-takeover-grace", "a new leader gives up nodes it has not heard of", "dispatch/watch.py"),
        ("doubt-taken-for-refused", "a start without a reply is forgotten", "dispatch/cycle.py"),
        ("settlement-not-repeated", "a settlement without a reply is forgotten", "dispatch/settling.py"),
        ("limits-read-once", "a leader goes by the limits it began with", "dispatch/loader.py"),
        ("tenant-pause-not-read", "a leader does not hear that a tenant was paused", "dispatch/loader.py"),
        ("paused-pool-goes-on", "a leader plans although it knows that its pool is paused", "decide/core.py"),
        ("hold-claimed-of-all", "a hold is acknowledged for tasks that run", "store/pausing.py"),
        ("expiry-forgets-children", "dependents of a dropped task hear nothing", "store/expiry.py"),
        ("fifo-fill", "one budget of ready tasks for all tenants", "dispatch/loader.py"),
        (
            "place-never-given-back",
            "a key counted across pools stays taken",
            "settle/settlement.py, dispatch/concurrency_keys.py",
        ),
        ("places-counted-per-pool", "a start counts its own pool's places only", "the store"),
        ("late-result-accepted", "a result counts whichever attempt it is of", "dispatch/pool.py, the store"),
        ("retry-count-reset", "losses and fail-overs start the count anew", "settle/verdict.py"),
        ("poison-without-cap", "a task may take its worker with it for ever", "settle/verdict.py"),
        ("cancel-lost-on-retry", "a cancelled task is tried again", "settle/verdict.py"),
        ("worker-accepts-old-epoch", "agents obey a leader that was replaced", "execute/connection.py"),
        ("no-self-fence", "a node that is cut off goes on", "model/fence.py"),
        ("resources-freed-twice", "an end gives its room back twice", "decide/grants.py"),
        ("cancel-ignored-in-ready-set", "a cancelled task stays in memory", "decide/grants.py"),
        ("cursor-before-runs", "a schedule's cursor moves on before its runs are stored", "timetable/batch.py"),
        ("missed-not-recorded", "instants missed while nobody ticked leave no trace", "timetable/due.py"),
        ("fold-fired-twice", "a time of day that comes twice is run twice", "timetable/occurrences.py"),
        ("gap-lost", "a time of day inside the gap is not run that day", "timetable/occurrences.py"),
        ("cap-exceeded-after-failover", "adopted attempts count towards no limit", "decide/grants.py"),
    )
)
NAMES = tuple(bug.name for bug in BUGS)
