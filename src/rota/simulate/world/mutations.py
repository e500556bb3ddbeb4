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
from rota.decide import estimates, reservation
from rota.decide.core import Core
from rota.decide.grants import Grants
from rota.dispatch import agent_connection, concurrency_keys, cycle, recalls, settling, watch
from rota.dispatch.loader import Loader
from rota.dispatch.pool import Authorised
from rota.execute.attempts.frozen import TrustedAttempts
from rota.execute.connection import ControlConnection
from rota.model import fence
from rota.settle import settlement, verdict
from rota.simulate.world.api import Api
from rota.simulate.world.code_edits import DoesNotFit, Mutation, edited
from rota.simulate.world.database.connection import Store
from rota.simulate.world.database.contents import Contents
from rota.simulate.world.database.statements.leases import Leases
from rota.simulate.world.database.statements.places import Places
from rota.simulate.world.database.statements.queue import Queue
from rota.simulate.world.database.statements.settling import Settling
from rota.store import expiry, pausing
from rota.timetable import batch, due, occurrences

MUTATIONS: list[Mutation] = []


def _bug(name: str, sentence: str) -> Mutation:
    MUTATIONS.append(Mutation(name, sentence))
    return MUTATIONS[-1]


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Runs the body with this bug in the code; with None, as the code is."""
    if name is None:
        yield
        return
    mutation = BY_NAME[name]
    occurrences.next_after.cache_clear()  # instants that a bug computed must not outlive it
    try:
        with edited(mutation.edits):
            yield
    except DoesNotFit as error:
        raise DoesNotFit(f"rewrite the mutation {name} ({mutation.sentence}) in {__name__}: {error}") from None
    finally:
        occurrences.next_after.cache_clear()


# ---- leases and fences ----------------------------------------------------------------------------------------------

bug = _bug("no-epoch-check", "batches of a leader that was replaced are written")
bug.edit(Contents.fenced, "holds = self.fence_holds(pool, epoch, holder)", "holds = True")
bug = _bug("epoch-checked-without-lock", "a take-over can come between check and write")
bug.edit(
    Contents.fenced,
    "holds = self.fence_holds(pool, epoch, holder)",
    "holds = self.fence_holds(pool, epoch, holder) if self.fenced_before is None else self.fenced_before",
)
bug.edit(Store._locked_until, "if lease is None:", "if True:")
bug = _bug("app-clock-for-expiry", "leases expire by a server's own clock")
bug.edit(
    Leases.acquire_lease, "if not (lease.expires_us < now or", "if not (lease.expires_us < self._tables.wall_us or"
)
bug.edit(Leases.acquire_lease, "lease.expires_us = now", "lease.expires_us = self._tables.wall_us")
bug.edit(Leases.renew_lease, "lease.expires_us <= now", "lease.expires_us <= self._tables.wall_us")
bug.edit(Leases.renew_lease, "lease.expires_us = now", "lease.expires_us = self._tables.wall_us")
bug = _bug("epoch-without-timeline", "the epoch only counts up from the row")
bug.edit(Leases.acquire_lease, "max(lease.epoch + 1, now, above + 1)", "max(lease.epoch + 1, above + 1)")
bug = _bug("ttl-equals-renew-period", "a lease is renewed when it is over")
bug.edit(leases.renew_pause, "return timings.renew_seconds / (1 if connected else 4)", "return timings.lease_seconds")
bug = _bug("leader-kept-on-error", "a failed renewal counts as one")
bug.edit(leases.Lease.renewed, "if answer:", "if answer or answer is None:")
bug = _bug("identity-is-host", "two processes of a host are one holder")
bug.edit(leases.new_holder, "return UUID(int=random_bits)", "return UUID(int=1)")
bug = _bug("worker-accepts-old-epoch", "agents obey a leader that was replaced")
bug.edit(ControlConnection._is_old, "return epoch < self._floor", "return False")
bug = _bug("no-self-fence", "a node that is cut off goes on")
bug.edit(fence.freeze_seconds, "return fence - min(0.5, fence / 10)", "return NEVER")
bug = _bug("thaw-without-adoption", "what a leader does not name when a node is back goes on there")
bug.edit(
    TrustedAttempts.given_up, "return [attempt for attempt in self._frozen if attempt.key not in held]", "return []"
)
bug = _bug("adoption-after-give-up", "a leader names attempts that it has given up")
bug.edit(agent_connection.enter, "if attempt.node == node and not attempt.reported:", "if attempt.node == node:")
bug.edit(settling._acknowledge, "del pool.attempts[result.task]", "attempt.reported = True")

# ---- admission ------------------------------------------------------------------------------------------------------

bug = _bug("ack-before-commit", "clients are answered before the flush")
bug.edit(
    Api._commit_batch,
    "admitted: list[tuple[Submission, Answer, Admitted]] = []",
    """\
admitted: list[tuple[Submission, Answer, Admitted]] = []
for _, submission, answer in batch:
    self._answer(answer, "ok", [draft.id for draft in submission.drafts])""",
)
bug = _bug("idempotency-key-stored-after-task", "the idempotency key has a transaction of its own")
bug.edit(
    Api._write,
    "earlier = _claim(tables, submission)",
    "earlier = {key: KeyClaim(*key, *tables.keys[key]) for key in submission.keys() if key in tables.keys}",
)
bug.edit(
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
)

# ---- dispatch -------------------------------------------------------------------------------------------------------

bug = _bug("anyone-acknowledges", "heartbeats are acknowledged without a lease")
bug.edit(agent_connection.listen, "if pool.lease.valid():", "if True:")
bug = _bug("restart-not-noticed", "attempts of an earlier boot are waited for")
bug.edit(agent_connection.enter, 'pool.give_up(attempt, Outcome.LOST, "its node restarted")', "pass")
bug = _bug("lost-start-not-noticed", "attempts a node never got are waited for")
bug.edit(agent_connection._reconcile, "_give_back(pool, session, task, attempt, Outcome.DISRUPTED)", "pass")
bug = _bug("no-takeover-grace", "a new leader gives up silent nodes without their grace")
bug.edit(watch.silent_since, "return max(heard_at, pool.began_at, attempt.at)", "return heard_at")
bug = _bug("doubt-taken-for-refused", "a start without a reply is forgotten")
bug.edit(cycle._authorise, "while pool.lease.valid():", "while False:")
bug = _bug("limits-read-once", "a leader goes by the limits it began with")
bug.edit(
    Loader._learn_tenants,
    "for tenant in await queue.active_tenants(connection, self._pool, also):",
    """\
for tenant in await queue.active_tenants(connection, self._pool, also):
    if self._reach(tenant.id).known:
        reaches.append(self._reach(tenant.id))
        continue""",
)
bug = _bug("pause-left-to-memory", "only leaders that have learned of a pause or a drain keep it")
bug.edit(Queue.start_attempts, "if self._tables.rules[pool] != rules:", "if False:")
bug.edit(
    Queue.start_attempts,
    'if row.too_late(now) or paused & {("pool", pool),',
    'if row.too_late(now) or set() & {("pool", pool),',
)
bug = _bug("pause-checked-without-lock", "a pause can come between the check and the start")
bug.edit(Queue.start_attempts, "if self._tables.rules[pool] != rules:", "if False:")
bug = _bug("recall-not-confirmed", "a pause is answered before the nodes have given back what has not begun")
bug.edit(recalls.recall_paused, "return left if pool.lease.valid() else None", "return 0")
bug = _bug("fifo-fill", "one budget of ready tasks for all tenants")
bug.edit(
    Loader.wants,
    "low = self._share() // 2",
    """\
if self._limit <= sum(map(self._ready_count, self._reaches)):
    return False
low = self._share() // 2""",
)
bug.edit(
    Loader.fill,
    "if not wanted:",
    """\
budget = self._limit - sum(map(self._ready_count, self._reaches))
unread = [reach for reach in self._reaches.values() if not reach.exhausted and budget > 0]
wanted = [Wanted(reach.tenant, reach.cursor, budget) for reach in unread[:1]]
if not wanted:""",
)
bug = _bug("paused-pool-goes-on", "a leader plans although it knows that its pool is paused")
bug.edit(Core.plan, "if self.state.policy.paused:", "if False:")
bug = _bug("limit-exceeded-after-failover", "adopted attempts count towards no limit")
bug.edit(Grants.adopt, "attempt.concurrency_key,", "None,")
bug = _bug("backfill-without-end", "small tasks go before a big one as long as a cap that nobody gave has not passed")
bug.edit(reservation.note_time, "kept.firm = blocked.by_us <= now_us", "kept.firm = False")
bug.edit(estimates.end_us, "length_us = 2 * (now_us - since_us)", "length_us = cap_us")
bug = _bug("resources-freed-twice", "an end gives its resources back twice")
given_back = "node_resources.give_back(state, node, need, running.devices)"
bug.edit(Grants.end, given_back, f"{given_back}\nnode_resources.give_back(state, node, need, ())")
bug = _bug("cancel-ignored-in-ready-set", "a cancelled task stays in memory")
bug.edit(Grants.gone, "state = self._state", "return\nstate = self._state")

# ---- settlement -----------------------------------------------------------------------------------------------------

bug = _bug("settlement-not-repeated", "a settlement without a reply is forgotten")
bug.edit(settling._settle_some, "unsettled.reports.extendleft(reversed(batch))\nraise", "raise")
bug = _bug("late-result-accepted", "a result counts whichever attempt it is of")
bug.edit(Authorised.is_of, "return self.attempt == attempt and self.boot == boot", "return True")
bug.edit(Settling._current, "return row if row.attempt == attempt and row.boot == boot else None", "return row")
bug = _bug("retry-count-reset", "losses and fail-overs start the count anew")
bug.edit(
    verdict._judge,
    "if outcome in FREE:",
    """\
if outcome in (Outcome.LOST, *FREE):
    attempted = replace(attempted, used=0)
if outcome in FREE:""",
)
bug = _bug("poison-without-limit", "a task may take its worker with it for ever")
bug.edit(verdict._judge, "if losses >= MOST_LOSSES:", "if False:")
bug = _bug("cancel-lost-on-retry", "a cancelled task is tried again")
bug.edit(
    verdict._judge, "if outcome is Outcome.CANCELLED or attempted.cancel_requested:", "if outcome is Outcome.CANCELLED:"
)
bug = _bug("dependent-released-twice", "a dependent is released again by its second parent")
bug.edit(Settling.read_fates, "or row.state != BLOCKED:", "or False:")
bug.edit(Settling.release_tasks, "or row.state != BLOCKED:", "or False:")
bug.edit(Settling.release_tasks, "self._tables.drop_edges(ids)", "pass")
bug = _bug("place-never-given-back", "a concurrency key counted across pools stays taken")
bug.edit(settlement.settle, "if settled.places:", "if False:")
bug.edit(
    concurrency_keys.follow_keys,
    "swept = await concurrency_keys.sweep_places(connection, pool.id)",
    "swept: list[int] = []",
)
bug = _bug("places-counted-per-pool", "a start counts its own pool's places only")
bug.edit(Places.take_places, "self._count(key, None)", "self._count(key, pool)")

# ---- owners and schedules -------------------------------------------------------------------------------------------

bug = _bug("hold-claimed-of-all", "a hold is acknowledged for tasks that run")
bug.edit(
    pausing.hold_tasks, 'return [(row["id"], row["pool"]) for row in held]', "return [(task, 1) for task in tasks]"
)
bug = _bug("expiry-forgets-dependents", "dependents of a dropped task never learn of it")
bug.edit(expiry.expire_tasks, "if rows:", "if False:")
bug = _bug("cursor-before-runs", "a schedule's cursor moves on before its runs are stored")
bug.edit(batch.run_batch, "made = await make(connection, wanted)", "made = Made()")
bug.edit(
    batch.run_batch,
    "if full or len(due) == BATCH:",
    """\
async with connection.transaction():
    made = await make(connection, wanted)
if full or len(due) == BATCH:""",
)
bug = _bug("missed-not-recorded", "instants missed while no ticker ran leave no trace")
bug.edit(due.due_of, "if first_kept > cursor:", "if False:")
bug = _bug("fold-fired-twice", "a time of day that comes twice is run twice")
bug.edit(
    occurrences._next,
    "return _at_times_of_day(CronSim(expression, local), zone, after)",
    """\
at = _at_times_of_day(CronSim(expression, local), zone, after)
return at and min(at, _round_the_clock(expression, zone, after) or at)""",
)
bug = _bug("gap-lost", "a time of day inside the gap is not run that day")
bug.edit(
    occurrences._at_times_of_day,
    "if at > after:",
    "if at > after and at.astimezone(zone).replace(tzinfo=None) == local:",
)

BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}
NAMES = tuple(BY_NAME)
