"""The known bugs: each one a small change of Rota's code that the simulator must notice.

Most are mistakes that trusted systems have really made. `rota simulate prove` applies them one at a time and shows
which invariant notices each. The product knows nothing of them: `mutated` changes functions from outside
(`code_edits.py`) and restores them. An edit of `simulate.world.database` stands for a wrong SQL statement.

To mend a mutation after a refactoring (a test names it): find the line that now makes the decision described by its
sentence, write that text as `old`, and write the wrong decision as `new`. Then run `rota simulate prove NAME`: the bug
must still be noticed, and by the same invariant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rota.cluster import leases
from rota.decide.core import Core
from rota.decide.grants import Grants
from rota.dispatch import agent_connection, concurrency_keys, cycle, settling, watch
from rota.dispatch.loader import Loader
from rota.dispatch.pool import Authorised
from rota.execute.connection import ControlConnection
from rota.model import fence
from rota.settle import settlement, verdict
from rota.simulate.world.api import Api
from rota.simulate.world.code_edits import DoesNotFit, Edit, Mutation, edited
from rota.simulate.world.database.connection import Store
from rota.simulate.world.database.contents import Contents
from rota.simulate.world.database.statements.leases import Leases
from rota.simulate.world.database.statements.places import Places
from rota.simulate.world.database.statements.settling import Settling
from rota.store import expiry, pausing
from rota.timetable import batch, due, occurrences


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Runs the body with this bug in the code; with None, as the code is."""
    if name is None:
        yield
        return
    mutation = BY_NAME[name]
    _forget_instants()
    try:
        with edited(mutation.edits):
            yield
    except DoesNotFit as error:
        raise DoesNotFit(f"rewrite the mutation {name} ({mutation.sentence}) in {__name__}: {error}") from None
    finally:
        _forget_instants()


def _forget_instants() -> None:
    """Instants are cached; those that a bug computed must not outlive it."""
    occurrences.next_after.cache_clear()


# ---- leases and fences ----------------------------------------------------------------------------------------------

_LEADERSHIP = (
    Mutation(
        "no-epoch-check",
        "batches of a leader that was replaced are written",
        Edit(Contents.fenced, "holds = self.fence_holds(pool, epoch, holder)", "holds = True"),
    ),
    Mutation(
        "epoch-checked-without-lock",
        "a take-over can come between check and write",
        Edit(
            Contents.fenced,
            "holds = self.fence_holds(pool, epoch, holder)",
            "holds = self.fence_holds(pool, epoch, holder) if self.fenced_before is None else self.fenced_before",
        ),
        Edit(Store._locked_until, "if lease is None:", "if True:"),
    ),
    Mutation(
        "app-clock-for-expiry",
        "leases expire by a server's own clock",
        Edit(
            Leases.acquire_lease,
            "if not (lease.expires_us < now or",
            "if not (lease.expires_us < self._tables.wall_us or",
        ),
        Edit(Leases.acquire_lease, "lease.expires_us = now", "lease.expires_us = self._tables.wall_us"),
        Edit(Leases.renew_lease, "lease.expires_us <= now", "lease.expires_us <= self._tables.wall_us"),
        Edit(Leases.renew_lease, "lease.expires_us = now", "lease.expires_us = self._tables.wall_us"),
    ),
    Mutation(
        "epoch-without-timeline",
        "the epoch only counts up from the row",
        Edit(Leases.acquire_lease, "max(last + 1, now, above + 1)", "max(last + 1, above + 1)"),
    ),
    Mutation(
        "ttl-equals-renew-period",
        "a lease is renewed when it is over",
        Edit(
            leases.renew_pause, "return timings.renew_seconds / (1 if connected else 4)", "return timings.lease_seconds"
        ),
    ),
    Mutation(
        "leader-kept-on-error",
        "a failed renewal counts as one",
        Edit(leases.Lease.renewed, "if answer:", "if answer or answer is None:"),
    ),
    Mutation(
        "identity-is-host",
        "two processes of a host are one holder",
        Edit(leases.new_holder, "return UUID(int=random_bits)", "return UUID(int=1)"),
    ),
    Mutation(
        "worker-accepts-old-epoch",
        "agents obey a leader that was replaced",
        Edit(ControlConnection._is_old, "return epoch < self._floor", "return False"),
    ),
    Mutation(
        "no-self-fence",
        "a node that is cut off goes on",
        Edit(fence.hard_seconds, "return fence - min(0.5, fence / 10)", "return NEVER"),
    ),
)

# ---- admission ------------------------------------------------------------------------------------------------------

_ADMISSION = (
    Mutation(
        "ack-before-commit",
        "clients are answered before the flush",
        Edit(
            Api._commit_batch,
            "admitted: list[tuple[Submission, Answer, Admitted]] = []",
            """\
admitted: list[tuple[Submission, Answer, Admitted]] = []
for _, submission, answer in batch:
    self._answer(answer, "ok", [draft.id for draft in submission.drafts])""",
        ),
    ),
    Mutation(
        "idempotency-key-stored-after-task",
        "the idempotency key has a transaction of its own",
        Edit(
            Api._write,
            "earlier = _claim(tables, submission)",
            "earlier = {key: KeyClaim(*key, *tables.keys[key]) for key in submission.keys() if key in tables.keys}",
        ),
        Edit(
            Api._commit_batch,
            """\
async with connection.transaction():
    admitted = self._write(server.store.tables, commit_id, batch)""",
            """\
async with connection.transaction():
    admitted = self._write(server.store.tables, commit_id, batch)
async with server.connect().transaction():
    for submission, _, _ in admitted:
        _claim(server.store.tables, submission)""",
        ),
    ),
)

# ---- dispatch -------------------------------------------------------------------------------------------------------

_DISPATCH = (
    Mutation(
        "anyone-acknowledges",
        "heartbeats are acknowledged without a lease",
        Edit(agent_connection.listen, "if pool.lease.valid():", "if True:"),
    ),
    Mutation(
        "restart-not-noticed",
        "attempts of an earlier boot are waited for",
        Edit(agent_connection.enter, 'pool.give_up(attempt, Outcome.LOST, "its node restarted")', "pass"),
    ),
    Mutation(
        "lost-start-not-noticed",
        "attempts a node never got are waited for",
        Edit(agent_connection._reconcile, "_give_back(pool, session, task, attempt, Outcome.DISRUPTED)", "pass"),
    ),
    Mutation(
        "no-takeover-grace",
        "a new leader gives up silent nodes without their grace",
        Edit(watch.silent_since, "return max(heard_at, pool.began_at, attempt.at)", "return heard_at"),
    ),
    Mutation(
        "doubt-taken-for-refused",
        "a start without a reply is forgotten",
        Edit(cycle._authorise, "while pool.lease.valid():", "while False:"),
    ),
    Mutation(
        "limits-read-once",
        "a leader goes by the limits it began with",
        Edit(
            Loader._learn_tenants,
            "for tenant in await queue.active_tenants(connection, self._pool):",
            """\
for tenant in await queue.active_tenants(connection, self._pool):
    if self._reach(tenant.id).known:
        reaches.append(self._reach(tenant.id))
        continue""",
        ),
    ),
    Mutation(
        "tenant-pause-not-read",
        "a leader does not learn that a tenant was paused",
        Edit(Loader._learn_tenants, "tenant.paused,", "False,"),
    ),
    Mutation(
        "fifo-fill",
        "one budget of ready tasks for all tenants",
        Edit(
            Loader.wants,
            "low = self._share() // 2",
            """\
if self._limit <= sum(map(self._ready_count, self._reaches)):
    return False
low = self._share() // 2""",
        ),
        Edit(
            Loader.fill,
            "if not wanted:",
            """\
budget = self._limit - sum(map(self._ready_count, self._reaches))
unread = [reach for reach in self._reaches.values() if not reach.exhausted and budget > 0]
wanted = [Wanted(reach.tenant, reach.cursor, budget) for reach in unread[:1]]
if not wanted:""",
        ),
    ),
    Mutation(
        "paused-pool-goes-on",
        "a leader plans although it knows that its pool is paused",
        Edit(Core.plan, "if self.state.policy.paused:", "if False:"),
    ),
    Mutation(
        "limit-exceeded-after-failover",
        "adopted attempts count towards no limit",
        Edit(Grants.adopt, "attempt.concurrency_key,", "None,"),
    ),
    Mutation(
        "resources-freed-twice",
        "an end gives its resources back twice",
        Edit(
            Grants.end,
            "node_resources.give_back(state, node, need, running.devices)",
            """\
node_resources.give_back(state, node, need, running.devices)
node_resources.give_back(state, node, need, ())""",
        ),
    ),
    Mutation(
        "cancel-ignored-in-ready-set",
        "a cancelled task stays in memory",
        Edit(
            Grants.gone,
            "state = self._state",
            """\
return
state = self._state""",
        ),
    ),
)

# ---- settlement -----------------------------------------------------------------------------------------------------

_SETTLEMENT = (
    Mutation(
        "settlement-not-repeated",
        "a settlement without a reply is forgotten",
        Edit(
            settling._settle_some,
            """\
except BaseException:
    unsettled.reports.extendleft(reversed(batch))
    raise""",
            """\
except BaseException:
    raise""",
        ),
    ),
    Mutation(
        "late-result-accepted",
        "a result counts whichever attempt it is of",
        Edit(Authorised.is_of, "return self.attempt == attempt and self.boot == boot", "return True"),
        Edit(Settling._current, "return row if row.attempt == attempt and row.boot == boot else None", "return row"),
    ),
    Mutation(
        "retry-count-reset",
        "losses and fail-overs start the count anew",
        Edit(
            verdict._judge,
            "if outcome in FREE:",
            """\
if outcome in (Outcome.LOST, *FREE):
    attempted = replace(attempted, used=0)
if outcome in FREE:""",
        ),
    ),
    Mutation(
        "poison-without-limit",
        "a task may take its worker with it for ever",
        Edit(verdict._judge, "if losses >= MOST_LOSSES:", "if False:"),
    ),
    Mutation(
        "cancel-lost-on-retry",
        "a cancelled task is tried again",
        Edit(
            verdict._judge,
            "if outcome is Outcome.CANCELLED or attempted.cancel_requested:",
            "if outcome is Outcome.CANCELLED:",
        ),
    ),
    Mutation(
        "dependent-released-twice",
        "a dependent is released again by its second parent",
        Edit(Settling.read_fates, "or row.state != BLOCKED:", "or False:"),
        Edit(Settling.release_tasks, "or row.state != BLOCKED:", "or False:"),
        Edit(Settling.release_tasks, "self._tables.drop_edges(ids)", "pass"),
    ),
    Mutation(
        "place-never-given-back",
        "a concurrency key counted across pools stays taken",
        Edit(settlement.settle, "if settled.places:", "if False:"),
        Edit(
            concurrency_keys.follow_keys,
            "swept = await concurrency_keys.sweep_places(connection, pool.id)",
            "swept: list[int] = []",
        ),
    ),
    Mutation(
        "places-counted-per-pool",
        "a start counts its own pool's places only",
        Edit(Places.take_places, "self._count(key, None)", "self._count(key, pool)"),
    ),
)

# ---- owners and schedules -------------------------------------------------------------------------------------------

_OWNERS = (
    Mutation(
        "hold-claimed-of-all",
        "a hold is acknowledged for tasks that run",
        Edit(
            pausing.hold_tasks,
            'return [(row["id"], row["pool"]) for row in held]',
            "return [(task, 1) for task in tasks]",
        ),
    ),
    Mutation(
        "expiry-forgets-dependents",
        "dependents of a dropped task never learn of it",
        Edit(expiry.expire_tasks, "if rows:", "if False:"),
    ),
    Mutation(
        "cursor-before-runs",
        "a schedule's cursor moves on before its runs are stored",
        Edit(batch.run_batch, "made = await make(connection, wanted)", "made = Made()"),
        Edit(
            batch.run_batch,
            "if full or len(due) == BATCH:",
            """\
async with connection.transaction():
    made = await make(connection, wanted)
if full or len(due) == BATCH:""",
        ),
    ),
    Mutation(
        "missed-not-recorded",
        "instants missed while no ticker ran leave no trace",
        Edit(due.due_of, "if first_kept > cursor:", "if False:"),
    ),
    Mutation(
        "fold-fired-twice",
        "a time of day that comes twice is run twice",
        Edit(
            occurrences._next,
            "return _at_times_of_day(CronSim(expression, local), zone, after)",
            """\
at = _at_times_of_day(CronSim(expression, local), zone, after)
return at and min(at, _round_the_clock(expression, zone, after) or at)""",
        ),
    ),
    Mutation(
        "gap-lost",
        "a time of day inside the gap is not run that day",
        Edit(
            occurrences._at_times_of_day,
            "if at > after:",
            "if at > after and at.astimezone(zone).replace(tzinfo=None) == local:",
        ),
    ),
)

MUTATIONS = (*_LEADERSHIP, *_ADMISSION, *_DISPATCH, *_SETTLEMENT, *_OWNERS)
BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}
NAMES = tuple(BY_NAME)
