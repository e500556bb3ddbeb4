"""Why a task waits: from its row, the tasks that it waits for, and the leader of its pool.

Only the leader knows the position of a ready task; the answer says if it is unreachable. Other tenants are counted.
"""

from __future__ import annotations

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled, how_it_ended, instant, start_by_of, tolerance_of
from rota.api.described import described, read_query
from rota.api.leaders import explained
from rota.api.requests import task_id
from rota.api.routes.tasks import task_row
from rota.api.services import Services, authorise
from rota.decide.explain import Explanation
from rota.model.answers import waiting
from rota.model.answers.waiting import BlockingTask, TaskExplanation
from rota.model.clock import from_us
from rota.model.task import STATUS, State
from rota.model.tenant import Caller, Scope
from rota.store import reading

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_COUNTED = 10_000
MOST_PARENTS = 10


@router.get("/{task}/why")
@described(TaskExplanation)
async def explain_task(request: Request, task: str) -> Response:
    """Why a task waits, its position in the queue, and when it will probably start; or how it runs or ended."""
    services, caller = await authorise(request, Scope.READ)
    read_query(request)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        row = await task_row(connection, number, caller.tenant_id)
        parents: list[tuple[int, State | None]] = []
        waits = 0
        if row["live_state"] == State.BLOCKED:
            parents, waits = await reading.blocked_by(connection, number, limit=MOST_PARENTS)
    state = State(row["live_state"] if row["live_state"] is not None else row["final_state"])
    if state is State.BLOCKED:
        found = _blocked(parents, waits)
    elif state in (State.READY, State.RUNNING):
        found = await _asked(services, caller, row, state)
    else:
        # The row says delayed until the task starts: only the leader knows why it waits after its time.
        due = await explained(services, row["pool_now"], [number]) if state is State.DELAYED else None
        found = (due[0] if due else None) or _settled(row, state)
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


# ---- from the row alone -------------------------------------------------------------------------------------------


def _blocked(parents: list[tuple[int, State | None]], waits: int) -> Explanation:
    if not parents:
        return Explanation(reason="blocked", sentence="the tasks it waited for have ended; it is about to be released")
    shown = ", ".join(f"{parent} ({state.label})" if state else str(parent) for parent, state in parents)
    more = f" and {waits - len(parents):,} more" if waits > len(parents) else ""
    return Explanation(reason="blocked", sentence=f"it waits for task{'s' if waits > 1 else ''} {shown}{more}")


def _settled(row: asyncpg.Record, state: State) -> Explanation:
    """Paused, delayed, or ended."""
    if state is State.PAUSED:
        if row["held_reason"]:
            sentence = f"{row['held_reason']}; rota release {row['id']} lets it go on"
            return Explanation(reason="held", sentence=sentence)
        return Explanation(reason="paused", sentence=f"paused by its owner; rota resume {row['id']} lets it go on")
    if state is not State.DELAYED:
        because = f": {row['reason']}" if row["reason"] else ""
        return Explanation(
            reason="ended", sentence=f"it has ended {state.label} at {instant(row['ended_at'])}{because}", basis="ended"
        )
    at = row["live_wake_at"]
    failed = row["last_number"]
    why = (
        f"attempt {failed} {how_it_ended(row['last_failure'])}; the next starts" if failed else "it was asked to start"
    )
    microseconds = None if at is None else int(at.timestamp() * 1_000_000)
    return Explanation(
        reason="backing-off" if failed else "delayed",
        sentence=f"{why} not before {instant(at)}",
        estimated_start_us=microseconds,
        basis="its-time",
    )


# ---- from the leader ------------------------------------------------------------------------------------------------


async def _asked(services: Services, caller: Caller, row: asyncpg.Record, state: State) -> Explanation:
    answers = await explained(services, row["pool_now"], [row["id"]])
    known = answers[0] if answers else None
    if known is not None:
        return known
    if state is State.RUNNING:
        since = instant(row["live_started_at"])
        return Explanation(reason="running", sentence=f"it runs on {row['live_node']} since {since}", basis="running")
    async with services.database.tenant(caller.tenant_id) as connection:
        ahead = await reading.queue_position(connection, row["id"], caller.tenant_id, up_to=MOST_COUNTED)
    position = None if ahead is None else ahead + 1
    where = f"behind the first {MOST_COUNTED:,}" if position is None else f"number {position:,}"
    if answers is None:
        return Explanation(
            reason="leader-unreachable",
            position=position,
            ahead_of_mine=ahead,
            sentence=f"the leader of pool {row['pool_name']} can't be asked right now; "
            f"it is {where} of your tasks in the database",
        )
    return Explanation(
        reason="in-database",
        position=position,
        ahead_of_mine=ahead,
        sentence=f"it is {where} of your tasks in the queue in the database; the leader has not read that far yet",
    )
