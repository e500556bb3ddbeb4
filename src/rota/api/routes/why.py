"""Why a task waits: from its row, the tasks that it waits for, and the leader of its pool.

Only the leader knows the position of a ready task; the answer says if it is unreachable. Other tenants are counted.
"""

from __future__ import annotations

from datetime import UTC, datetime

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled, how_it_ended, instant, start_by_of, tolerance_of
from rota.api.described import described, read_query
from rota.api.leaders import asked_of_leader
from rota.api.requests import task_id
from rota.api.routes.tasks import task_row
from rota.api.services import Services, authorise
from rota.api.start_estimates import MOST_CHAIN, estimate_starts, planned_of, why_unknown
from rota.decide import wording
from rota.decide.explain import Explanation, Probe
from rota.decide.reason import OBSTACLES, Reason
from rota.dispatch.pool_questions import Question
from rota.model.answers import waiting
from rota.model.answers.waiting import BlockingTask, TaskExplanation
from rota.model.clock import from_us, to_us
from rota.model.task import STATUS, State, Status
from rota.model.tenant import Caller
from rota.store import reading
from rota.store.waiting_chain import Pauses, read_pauses, read_waiting_chain

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_COUNTED = 10_000
MOST_PARENTS = 10


@router.get("/{task}/why")
@described(TaskExplanation)
async def explain_task(request: Request, task: str) -> Response:
    """Why a task waits, its position in the queue, and when it will probably start; or how it runs or ended."""
    services, caller = await authorise(request)
    read_query(request)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        row = await task_row(connection, number, caller.tenant_id)
        parents: list[tuple[int, State | None]] = []
        waits = 0
        if row["live_state"] == State.BLOCKED:
            parents, waits = await reading.blocked_by(connection, number, limit=MOST_PARENTS)
    state = State(row["live_state"] if row["live_state"] is not None else row["final_state"])
    found = await _found(services, caller, row, state, parents, waits)
    explanation = await explanation_of(services, found, *tolerance_of(row))
    if row["live_expires"]:
        dropped = f"; it is dropped if it has not started by {instant(row['live_start_by'])}"
        explanation = msgspec.structs.replace(explanation, sentence=explanation.sentence + dropped)
    blocked_by = [BlockingTask(id=parent, state=known.label if known else "ended") for parent, known in parents]
    return answer(
        TaskExplanation(
            id=number,
            state=state.label,
            status=STATUS[state].value,
            blocked_by=blocked_by,
            blocked_by_count=waits,
            start_by=start_by_of(row),
            **msgspec.structs.asdict(explanation),
        )
    )


async def explanation_of(
    services: Services, found: Explanation, tolerance_ms: int | None, source: str
) -> waiting.Explanation:
    """As clients see it: a time instead of a number, and the name of a node."""
    node = None
    if found.likely_node is not None:
        async with services.database.engine() as connection:
            names = await reading.node_names(connection, [found.likely_node])
        node = names.get(found.likely_node)
    start = found.estimated_start_us
    return filled(
        waiting.Explanation,
        found,
        estimated_start=None if start is None else from_us(start),
        likely_node=node,
        tolerance_seconds=None if tolerance_ms is None else tolerance_ms / 1000,
        tolerance_source=source,
    )


async def _found(
    services: Services,
    caller: Caller,
    row: asyncpg.Record,
    state: State,
    parents: list[tuple[int, State | None]],
    waits: int,
) -> Explanation:
    if state in (State.READY, State.RUNNING, State.DELAYED):
        # The row says delayed until the task starts: only the leader knows why it waits after its time.
        answer = await asked_of_leader(services, row["pool_now"], Question([row["id"]]))
        known = answer.explanations[0] if answer is not None else None
        if known is not None:
            return known
    if state is State.RUNNING:
        since = instant(row["live_started_at"])
        return Explanation(
            reason=Reason.RUNNING, sentence=f"it runs on {row['live_node']} since {since}", basis="running"
        )
    if STATUS[state] is not Status.WAITING:
        return _ended(row, state)
    if state is State.PAUSED:
        found = _stopped(row)
    elif state is State.READY:
        found = await _in_database(services, caller, row)
    else:
        reason, sentence = _blocked(parents, waits) if state is State.BLOCKED else _delayed(row)
        found = await _later(services, caller, row, reason, sentence)
    async with services.database.engine() as connection:
        return while_paused(found, await read_pauses(connection, row["pool_now"], row["tenant"]))


def while_paused(found: Explanation, paused: Pauses) -> Explanation:
    """A paused pool or tenant is said wherever the task stands; a leader may not know it yet, or can't be asked."""
    if not paused.pool and not paused.tenant:
        return found
    what, whose = ("the pool", "nothing new") if paused.pool else ("your tenant", "nothing new of it")
    besides = f"an operator has paused {what}: {whose} starts until it is resumed"
    sentence = found.sentence if besides in found.sentence else f"{found.sentence}; besides, {besides}"
    return without_start(msgspec.structs.replace(found, sentence=sentence), f"nothing starts before {what} is resumed")


def without_start(found: Explanation, unknown: str) -> Explanation:
    return msgspec.structs.replace(
        found, estimated_start_us=None, basis="unknown", run_times=None, likely_node=None, start_unknown=unknown
    )


# ---- from the row alone -------------------------------------------------------------------------------------------


def _blocked(parents: list[tuple[int, State | None]], waits: int) -> tuple[Reason, str]:
    if not parents:
        return Reason.BLOCKED, "the tasks it waited for have ended; it is about to be released"
    shown = ", ".join(f"{parent} ({state.label})" if state else str(parent) for parent, state in parents)
    more = f" and {waits - len(parents):,} more" if waits > len(parents) else ""
    return Reason.BLOCKED, f"it waits for task{'s' if waits > 1 else ''} {shown}{more}"


def _delayed(row: asyncpg.Record) -> tuple[Reason, str]:
    failed = row["last_number"]
    why = (
        f"attempt {failed} {how_it_ended(row['last_failure'])}; the next starts" if failed else "it was asked to start"
    )
    return Reason.BACKING_OFF if failed else Reason.DELAYED, f"{why} not before {instant(row['live_wake_at'])}"


def _stopped(row: asyncpg.Record) -> Explanation:
    if row["held_reason"]:
        release = f"rota release {row['id']}"
        sentence = f"{row['held_reason']}; {release} lets it go on"
        return Explanation(reason=Reason.HELD, sentence=sentence, start_unknown=f"it does not start before {release}")
    resume = f"rota resume {row['id']}"
    sentence = f"paused by its owner; {resume} lets it go on"
    return Explanation(reason=Reason.PAUSED, sentence=sentence, start_unknown=f"it does not start before {resume}")


def _ended(row: asyncpg.Record, state: State) -> Explanation:
    because = f": {row['reason']}" if row["reason"] else ""
    sentence = f"it has ended {state.label} at {instant(row['ended_at'])}{because}"
    return Explanation(reason=Reason.ENDED, sentence=sentence, basis="ended")


# ---- with what the leaders estimate ---------------------------------------------------------------------------------


async def _later(services: Services, caller: Caller, row: asyncpg.Record, reason: Reason, sentence: str) -> Explanation:
    """A task that waits for others or for a time: the leaders tell when those end, and what else keeps it."""
    number = row["id"]
    async with services.database.tenant(caller.tenant_id) as connection:
        chain = await read_waiting_chain(connection, [number], caller.tenant_id, limit=MOST_CHAIN)
    own = planned_of(chain[number], caller) if number in chain else None
    if own is None:
        return Explanation(reason=reason, sentence=sentence, start_unknown="its state has just changed: ask again")
    others = {
        other: planned for other, live in chain.items() if other != number and (planned := planned_of(live, caller))
    }
    pools = {other: live.pool for other, live in chain.items()}
    probe = Probe(**msgspec.structs.asdict(own))
    estimated = await estimate_starts(services, {number: probe}, others, pools)
    known = estimated.explanations.get(number)
    if known is None:
        if reason is not Reason.BLOCKED:
            return Explanation(reason=reason, sentence=sentence, estimated_start_us=own.not_before_us, basis="its-time")
        unknown = f"the leader of pool {row['pool_name']} can't be asked right now"
        return Explanation(reason=reason, sentence=sentence, start_unknown=unknown)
    if known.sentence and known.reason in OBSTACLES:
        sentence = f"{sentence}; besides, {known.sentence}"
    elif known.estimated_start_us is None and reason is not Reason.BLOCKED:
        known = msgspec.structs.replace(
            known, estimated_start_us=own.not_before_us, basis="its-time", start_unknown=""
        )  # at least that is known
    elif known.estimated_start_us is None and (because := why_unknown(estimated, chain, number)) is not None:
        known = msgspec.structs.replace(known, start_unknown=because)
    return msgspec.structs.replace(
        known, reason=reason, sentence=sentence, position=None, ahead_of_mine=None, tenants_ahead=None
    )


async def _in_database(services: Services, caller: Caller, row: asyncpg.Record) -> Explanation:
    """A ready task that its leader does not have in memory: its position is counted in the database."""
    async with services.database.tenant(caller.tenant_id) as connection:
        ahead = await reading.queue_position(connection, row["id"], caller.tenant_id, up_to=MOST_COUNTED)
        chain = await read_waiting_chain(connection, [row["id"]], caller.tenant_id, limit=1)
    position = None if ahead is None else ahead + 1
    where = f"behind the first {MOST_COUNTED:,}" if position is None else f"number {position:,}"
    own = chain.get(row["id"])
    answer = None
    if own is not None:
        probe = Probe(task=own.task, shape=own.shape, in_database=MOST_COUNTED if ahead is None else ahead)
        answer = await asked_of_leader(services, row["pool_now"], Question([probe]))
    known = answer.explanations[0] if answer is not None else None
    if known is None:
        return Explanation(
            reason=Reason.LEADER_UNREACHABLE,
            position=position,
            ahead_of_mine=ahead,
            sentence=f"the leader of pool {row['pool_name']} can't be asked right now; "
            f"it is {where} of your tasks in the database",
            start_unknown="only the leader knows how fast the queue moves",
        )
    if known.reason is not Reason.IN_DATABASE:
        return msgspec.structs.replace(known, position=position, ahead_of_mine=ahead, tenants_ahead=None)
    if ahead is None and known.estimated_start_us is not None:
        least = wording.span(known.estimated_start_us - to_us(datetime.now(UTC)))
        unknown = f"{MOST_COUNTED:,} tasks of yours come before it, and these alone take about {least}"
        known = without_start(known, unknown)
    return msgspec.structs.replace(
        known,
        position=position,
        ahead_of_mine=ahead,
        tenants_ahead=None,
        sentence=f"it is {where} of your tasks in the queue in the database; the leader has not read that far yet",
    )
