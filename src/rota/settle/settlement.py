"""Settlement: one fenced batch that writes how attempts ended and everything that follows from it.

Each statement is driven by the rows the one before returned, so a repeated or superseded result changes nothing.
Order matters: lock in id order, delete, *then* read edges, so that a child admitted meanwhile is seen. Only the pool's
own leader calls this; the caller owns the connection and decides what a lost reply to COMMIT means (settle again).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg
import msgspec

from rota.model.attempt import Outcome
from rota.model.clock import from_us, to_us
from rota.model.queue import ReadyTask
from rota.model.request import retry_rules
from rota.model.task import State
from rota.settle.verdict import Again, Attempted, End, judge
from rota.store.concurrency_keys import KeyName, give_back
from rota.store.database import AnyConnection
from rota.store.logs import store_inline
from rota.store.queue import Fence, ready_task
from rota.store.statements import sql
from rota.wire import Failure, Result

MOST_RELEASED_AT_ONCE = 1_000  # children released in their parents' own transaction; more follow in the next

_json = msgspec.json.Encoder()


class NotLeader(RuntimeError):
    """The fence refused: another leader has taken over. Nothing was written."""


class Reported(msgspec.Struct, frozen=True):
    """A result, the boot of the agent it came from (or was lost with), and when it came by the database's clock."""

    result: Result
    boot: int
    at_us: int | None = None  # None: now


@dataclass(slots=True)
class Settled:
    """What the batch changed, for the leader's memory and for those who wait."""

    ended: list[tuple[int, State]] = field(default_factory=list)
    ready: list[ReadyTask] = field(default_factory=list)  # requeued at once, or released
    timed: list[ReadyTask] = field(default_factory=list)  # due later
    paused: list[int] = field(default_factory=list)  # held back by their owners
    elsewhere: set[int] = field(default_factory=set)  # pools that have children to release, or wait for a key
    more_children: list[int] = field(default_factory=list)  # the next level of a cascade
    places: list[int] = field(default_factory=list)  # tasks that held a place of a key counted across pools
    freed: list[KeyName] = field(default_factory=list)  # those keys


async def settle(connection: AnyConnection, fence: Fence, reports: Sequence[Reported]) -> Settled:
    """Writes a batch of results in one transaction. Raises NotLeader when the fence refuses."""
    settled = Settled()
    done = sorted((r for r in reports if r.result.outcome is Outcome.OK), key=_task)
    other = [r for r in reports if r.result.outcome is not Outcome.OK]
    async with connection.transaction():
        other += await _settle_done(connection, fence, done, settled)
        if other:
            await _settle_other(connection, sorted(other, key=_task), settled)
        chunks = [chunk for r in reports for chunk in r.result.log]
        if chunks:
            await store_inline(connection, chunks)
        await _resolve(connection, fence.pool, settled)
        if settled.places:
            freed = await give_back(connection, fence.pool, settled.places)
            settled.freed = freed.keys
            settled.elsewhere |= freed.pools
    return settled


async def release(connection: AnyConnection, fence: Fence, children: Sequence[int]) -> Settled:
    """One level of a cascade: children of this pool whose parents have ended, released or skipped."""
    settled = Settled()
    async with connection.transaction():
        await _check_fence(connection, fence)
        await _release(connection, fence.pool, sorted(children), settled)
    return settled


def _task(report: Reported) -> int:
    return report.result.task


async def _settle_done(
    connection: AnyConnection, fence: Fence, reports: list[Reported], settled: Settled
) -> list[Reported]:
    """Returns what did not come back: repeated, superseded, or edited at that very moment.

    Also holds the fence for the whole transaction, so it runs even when nothing succeeded.
    """
    results = [r.result for r in reports]
    row = await connection.fetchrow(
        sql("settle_done"), fence.pool, fence.epoch, fence.holder, [r.task for r in results],
        [r.attempt for r in results], [r.boot for r in reports], [r.run_us for r in results],
        _or_empty([r.cpu_ms for r in results]), _or_empty([r.peak_memory_bytes for r in results]),
        [] if not any(r.exit_code is not None for r in results) else [r.exit_code for r in results],
        [_result_json(r) for r in results], _or_empty([r.log_bytes for r in results]),
        _or_empty([r.log_dropped_bytes for r in results]), [r.at_us for r in reports],
        _or_empty([r.written_bytes for r in results]),
    )  # fmt: skip
    assert row is not None
    if row["fenced"] == 0:
        raise NotLeader
    ended: list[int] = row["tasks"]
    settled.ended += [(task, State.DONE) for task in ended]
    settled.places += row["places"]
    if len(ended) == len(reports):
        return []
    came_back = set(ended)
    return [r for r in reports if r.result.task not in came_back]


def _instant(report: Reported) -> datetime | None:
    return None if report.at_us is None else from_us(report.at_us)


def _or_empty(values: list[int]) -> list[int]:
    """A column of noughts is not worth sending."""
    return values if any(values) else []


def _result_json(result: Result) -> str | None:
    return None if result.result is None else result.result.decode()


async def _check_fence(connection: AnyConnection, fence: Fence) -> None:
    held = await connection.fetchval(
        "select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share",
        fence.pool, fence.epoch, fence.holder,
    )  # fmt: skip
    if held is None:
        raise NotLeader


async def _settle_other(connection: AnyConnection, reports: list[Reported], settled: Settled) -> None:
    rows = await connection.fetch(
        sql("lock_attempts"), [r.result.task for r in reports], [r.result.attempt for r in reports],
        [r.boot for r in reports],
    )  # fmt: skip
    by_task = {r.result.task: r for r in reports}
    ends: list[tuple[Reported, End]] = []
    again: list[tuple[Reported, Again]] = []
    for row in rows:
        report = by_task[row["id"]]
        result = report.result
        verdict = judge(
            _attempted(row),
            result.outcome,
            _sentence(result),
            now_us=to_us(row["now"]),
            retry_in_ms=result.retry_in_ms,
            exit_code=result.exit_code,
            error=None if result.failure is None else result.failure.type,
        )
        if isinstance(verdict, End):
            ends.append((report, verdict))
        else:
            again.append((report, verdict))
    await _end(connection, ends, settled)
    await _requeue(connection, again, settled)


def _attempted(row: asyncpg.Record) -> Attempted:
    return Attempted(
        task=row["id"], number=row["attempt"], used=row["used"], losses=row["losses"], attempts=row["attempts"],
        cancel_requested=row["cancel_requested"], pause_requested=row["pause_requested"],
        lane=row["lane"], promotes=row["promotes"], start_by_us=to_us(row["start_by"]), backoff_ms=row["backoff_ms"],
        backoff_limit_ms=row["backoff_limit_ms"], rules=retry_rules.decode(row["retry_rules"]),
    )  # fmt: skip


def _sentence(result: Result) -> str:
    if result.failure is not None:
        # PostgreSQL's text takes no NUL either, and the words are whatever the task said.
        return f"{result.failure.type}: {result.failure.message}".replace("\0", "\ufffd")
    return f"ended {result.outcome.label}"


def _failure_json(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    document = {"type": failure.type, "message": failure.message, "traceback": failure.traceback}
    # PostgreSQL's json takes no NUL, not even escaped.
    return _json.encode(document).decode().replace("\\u0000", "\\ufffd")


async def _end(connection: AnyConnection, ends: list[tuple[Reported, End]], settled: Settled) -> None:
    if not ends:
        return
    results = [report.result for report, _ in ends]
    rows = await connection.fetch(
        sql("end_tasks"), [r.task for r in results], [r.attempt for r in results], [end.state for _, end in ends],
        [r.outcome for r in results], [r.run_us for r in results], [r.cpu_ms for r in results],
        [r.peak_memory_bytes for r in results], [r.exit_code for r in results],
        [_failure_json(r.failure) for r in results], [end.reason or None for _, end in ends],
        [r.log_bytes for r in results], [r.log_dropped_bytes for r in results], [_result_json(r) for r in results],
        [_instant(report) for report, _ in ends], [r.written_bytes for r in results],
    )  # fmt: skip
    states = {report.result.task: end.state for report, end in ends}
    settled.ended += [(row["id"], states[row["id"]]) for row in rows]
    settled.places += [row["id"] for row in rows if row["place"]]


async def _requeue(connection: AnyConnection, again: list[tuple[Reported, Again]], settled: Settled) -> None:
    if not again:
        return
    results = [report.result for report, _ in again]
    verdicts = [verdict for _, verdict in again]
    rows = await connection.fetch(
        sql("requeue_tasks"), [r.task for r in results], [r.attempt for r in results],
        [r.outcome for r in results], [v.used for v in verdicts], [v.losses for v in verdicts],
        [None if v.wake_us is None else from_us(v.wake_us) for v in verdicts], [v.lane for v in verdicts],
        [r.run_us for r in results], [r.cpu_ms for r in results], [r.peak_memory_bytes for r in results],
        [r.exit_code for r in results], [_failure_json(r.failure) for r in results],
        [r.log_bytes for r in results], [r.log_dropped_bytes for r in results],
        [_instant(report) for report, _ in again], [r.written_bytes for r in results],
        [v.paused for v in verdicts],
    )  # fmt: skip
    settled.places += [row["id"] for row in rows if row["concurrency_global"]]
    _sort_by_time(rows, settled)


def _sort_by_time(rows: Sequence[asyncpg.Record], settled: Settled) -> None:
    for row in rows:
        if row["state"] == State.PAUSED:
            settled.paused.append(row["id"])
            continue
        (settled.ready if row["state"] == State.READY else settled.timed).append(ready_task(row))


async def _resolve(connection: AnyConnection, pool: int, settled: Settled) -> None:
    """Tells the edges of everything that ended. Children of this pool are released here, one level deep."""
    children = await _tell_edges(connection, pool, settled.ended, settled)
    if len(children) <= MOST_RELEASED_AT_ONCE:
        await _release(connection, pool, children, settled)
    else:
        settled.more_children += children


async def _tell_edges(
    connection: AnyConnection, pool: int, ended: Sequence[tuple[int, State]], settled: Settled
) -> list[int]:
    """Marks the edges of ended parents; the children of this pool, sorted. Other pools are noted."""
    children: set[int] = set()
    for state in sorted({state for _, state in ended}):
        parents = [task for task, own in ended if own is state]
        for row in await connection.fetch(sql("resolve_edges"), parents, state):
            if row["child_pool"] == pool:
                children.add(row["child"])
            else:
                settled.elsewhere.add(row["child_pool"])
    return sorted(children)


async def _release(connection: AnyConnection, pool: int, children: list[int], settled: Settled) -> None:
    if not children:
        return
    fates = await connection.fetch(sql("read_fates"), children, pool)
    skip = [row for row in fates if row["culprit"] is not None]
    free = [row["id"] for row in fates if row["culprit"] is None and not row["waits"]]
    if skip:
        ends = [
            (
                Reported(Result(row["id"], 0, Outcome.NEVER, 0), 0),
                End(State.SKIPPED, f"task {row['culprit']} ended {State(row['culprit_state']).label}"),
            )
            for row in skip
        ]
        before = len(settled.ended)
        await _end(connection, ends, settled)
        skipped = settled.ended[before:]
        await connection.execute(sql("drop_edges"), [task for task, _ in skipped])
        settled.more_children += await _tell_edges(connection, pool, skipped, settled)
    if free:
        _sort_by_time(await connection.fetch(sql("release_tasks"), free), settled)
