"""Settlement: one fenced batch that writes how attempts ended and everything that follows.

Each statement works on the rows that the statement before it returned, so a repeated or superseded result changes
nothing. The order matters: lock by id, delete, then read edges, so that a dependent admitted meanwhile is seen. Only
the pool's leader calls this. The caller owns the connection, and settles again if the reply to COMMIT is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
from rota.store.leases import hold_fence
from rota.store.logs import store_inline
from rota.store.node_keys import ran_on
from rota.store.queue import Fence, ready_task
from rota.store.statements import columns, sql
from rota.wire import Failure, LogChunk, Result

MOST_RELEASED_AT_ONCE = 1_000  # dependents released in the transaction of the end; more follow in the next

# Mostly 0 on success.
_SELDOM = ("cpu_ms", "peak_memory_bytes", "log_bytes", "log_dropped_bytes", "written_bytes", "frozen_us", "saving_us")

_json = msgspec.json.Encoder()


class NotLeader(RuntimeError):
    """The fence refused: another leader has taken over. Nothing was written."""


class Reported(msgspec.Struct, frozen=True):
    """A result, the boot number of its agent, and when the attempt ended by the database's clock.

    `heard_us`: the leader gave the attempt up, so nobody knows how long it ran; its node was last heard of then. 0: not
    in this term. `late_from`: the leader does not know the attempt as one of the sender's; only if it ran on this node
    is its output stored.
    """

    result: Result
    boot: int
    at_us: int | None = None  # None: now
    heard_us: int | None = None
    late_from: int | None = None


@dataclass(slots=True)
class Settled:
    """The changes of a batch, for the leader's memory and for waiting clients."""

    ended: list[tuple[int, State]] = field(default_factory=list)
    ready: list[ReadyTask] = field(default_factory=list)  # requeued at once, or released
    timed: list[ReadyTask] = field(default_factory=list)  # due later
    paused: list[int] = field(default_factory=list)  # held back by their owners
    other_pools: set[int] = field(default_factory=set)  # with dependents to release, or tasks that wait for a key
    more_dependents: list[int] = field(default_factory=list)  # the next level of a cascade
    places: list[int] = field(default_factory=list)  # tasks that held a place of a key counted across pools
    freed: list[KeyName] = field(default_factory=list)  # the keys of these places


async def settle(connection: AnyConnection, fence: Fence, reports: Sequence[Reported]) -> Settled:
    """Writes a batch of results in one transaction. Raises NotLeader when the fence refuses."""
    settled = Settled()
    done = sorted((r for r in reports if r.result.outcome is Outcome.OK), key=_task)
    other = [r for r in reports if r.result.outcome is not Outcome.OK]
    async with connection.transaction():
        other += await _settle_done(connection, fence, done, settled)
        if other:
            await _settle_other(connection, sorted(other, key=_task), settled)
        chunks = [chunk for r in reports if r.late_from is None for chunk in r.result.log]
        chunks += await _late_output(connection, [r for r in reports if r.late_from is not None and r.result.log])
        if chunks:
            await store_inline(connection, chunks)
        await _resolve(connection, fence.pool, settled)
        if settled.places:
            freed = await give_back(connection, fence.pool, settled.places)
            settled.freed = freed.keys
            settled.other_pools |= freed.pools
    return settled


async def release(connection: AnyConnection, fence: Fence, dependents: Sequence[int]) -> Settled:
    """One level of a cascade: releases or skips dependents of this pool whose parents have ended."""
    settled = Settled()
    async with connection.transaction():
        if not await hold_fence(connection, fence):
            raise NotLeader
        await _release(connection, fence.pool, sorted(dependents), settled)
    return settled


async def _late_output(connection: AnyConnection, reports: Sequence[Reported]) -> list[LogChunk]:
    """The output of attempts that ended for the cluster before, such as lost ones: what their own nodes send of it."""
    if not reports:
        return []
    given = [(r.result.task, r.result.attempt, r.late_from or 0) for r in reports]
    own = await ran_on(connection, given)
    return [chunk for r in reports if (r.result.task, r.result.attempt) in own for chunk in r.result.log]


def _task(report: Reported) -> int:
    return report.result.task


async def _settle_done(
    connection: AnyConnection, fence: Fence, reports: list[Reported], settled: Settled
) -> list[Reported]:
    """Ends the tasks that succeeded. Returns the other reports: repeated, superseded, or edited at this moment.

    Also holds the fence for the whole transaction, so it runs even if no attempt succeeded.
    """
    results = [report.result for report in reports]
    row = await connection.fetchrow(
        sql("settlement/settle_done"),
        fence.pool,
        fence.epoch,
        fence.holder,
        *columns(reports, "result.task", "result.attempt", "boot", "result.run_us", "at_us"),
        [_result_json(result) for result in results],
        *(_or_empty(values, usual=None) for values in columns(results, "exit_code")),
        *(_or_empty(values, usual=0) for values in columns(results, *_SELDOM)),
    )
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


def _or_empty(values: list[int | None], *, usual: int | None) -> list[int | None]:
    """An array of nothing but the usual value is not worth sending."""
    return [] if values.count(usual) == len(values) else values


def _result_json(result: Result) -> str | None:
    return None if result.result is None else result.result.decode()


async def _settle_other(connection: AnyConnection, reports: list[Reported], settled: Settled) -> None:
    rows = await connection.fetch(
        sql("settlement/lock_attempts"), *columns(reports, "result.task", "result.attempt", "boot")
    )
    by_task = {r.result.task: r for r in reports}
    late = by_task.keys() - {row["id"] for row in rows}
    if late:
        await _correct_lost(connection, [by_task[task] for task in sorted(late)])
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


async def _correct_lost(connection: AnyConnection, reports: list[Reported]) -> None:
    """Late results change nothing, but of an attempt that was given up they tell how long it ran and what it used."""
    known = [report for report in reports if report.heard_us is None and report.result.run_us > 0]
    if known:
        await connection.execute(
            sql("settlement/correct_lost"),
            *columns(known, "result.task", "result.attempt", "boot", "result.run_us", "result.exit_code"),
            *columns([report.result for report in known], *_SELDOM[:-1]),
        )


def _attempted(row: asyncpg.Record) -> Attempted:
    return Attempted(
        task=row["id"],
        number=row["attempt"],
        used=row["used"],
        losses=row["losses"],
        attempts=row["attempts"],
        cancel_requested=row["cancel_requested"],
        pause_requested=row["pause_requested"],
        lane=row["lane"],
        promotes=row["promotes"],
        start_by_us=to_us(row["start_by"]),
        backoff_ms=row["backoff_ms"],
        backoff_limit_ms=row["backoff_limit_ms"],
        rules=retry_rules.decode(row["retry_rules"]),
    )


def _sentence(result: Result) -> str:
    if result.failure is not None:
        # PostgreSQL's text takes no NUL either, and the message is the task's own.
        return f"{result.failure.type}: {result.failure.message}".replace("\0", "\ufffd")
    return f"ended {result.outcome.label}"


def _failure_json(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    document = {"type": failure.type, "message": failure.message, "traceback": failure.traceback}
    # PostgreSQL's json takes no NUL, not even escaped.
    return _json.encode(document).decode().replace("\\u0000", "\\ufffd")


def _ended_columns(reports: list[Reported]) -> list[list[Any]]:
    """The arrays that `end_tasks` and `requeue_tasks` begin with."""
    results = [report.result for report in reports]
    return [
        *columns(results, "task", "attempt", "outcome", "run_us", "cpu_ms", "peak_memory_bytes", "exit_code"),
        *columns(results, "log_bytes", "log_dropped_bytes", "written_bytes", "saving_us", "frozen_us"),
        [_failure_json(result.failure) for result in results],
        [None if report.at_us is None else from_us(report.at_us) for report in reports],
        [None if report.heard_us is None else from_us(report.heard_us) for report in reports],
    ]


async def _end(connection: AnyConnection, ends: list[tuple[Reported, End]], settled: Settled) -> None:
    if not ends:
        return
    reports = [report for report, _ in ends]
    rows = await connection.fetch(
        sql("settlement/end_tasks"),
        *_ended_columns(reports),
        [_result_json(report.result) for report in reports],
        [end.state for _, end in ends],
        [end.reason or None for _, end in ends],
    )
    states = {report.result.task: end.state for report, end in ends}
    settled.ended += [(row["id"], states[row["id"]]) for row in rows]
    settled.places += [row["id"] for row in rows if row["place"]]


async def _requeue(connection: AnyConnection, again: list[tuple[Reported, Again]], settled: Settled) -> None:
    if not again:
        return
    verdicts = [verdict for _, verdict in again]
    rows = await connection.fetch(
        sql("settlement/requeue_tasks"),
        *_ended_columns([report for report, _ in again]),
        *columns(verdicts, "used", "losses", "lane", "paused"),
        [None if verdict.wake_us is None else from_us(verdict.wake_us) for verdict in verdicts],
    )
    settled.places += [row["id"] for row in rows if row["concurrency_global"]]
    _sort_by_time(rows, settled)


def _sort_by_time(rows: Sequence[asyncpg.Record], settled: Settled) -> None:
    for row in rows:
        if row["state"] == State.PAUSED:
            settled.paused.append(row["id"])
            continue
        (settled.ready if row["state"] == State.READY else settled.timed).append(ready_task(row))


async def _resolve(connection: AnyConnection, pool: int, settled: Settled) -> None:
    """Marks the edges of all ended tasks. Releases the dependents of this pool, one level deep."""
    dependents = await _mark_edges(connection, pool, settled.ended, settled)
    if len(dependents) <= MOST_RELEASED_AT_ONCE:
        await _release(connection, pool, dependents, settled)
    else:
        settled.more_dependents += dependents


async def _mark_edges(
    connection: AnyConnection, pool: int, ended: Sequence[tuple[int, State]], settled: Settled
) -> list[int]:
    """Writes the parents' final states into their edges. Returns the dependents of this pool, sorted."""
    dependents: set[int] = set()
    for state in sorted({state for _, state in ended}):
        parents = [task for task, own in ended if own is state]
        for row in await connection.fetch(sql("settlement/resolve_edges"), parents, state):
            if row["child_pool"] == pool:
                dependents.add(row["child"])
            else:
                settled.other_pools.add(row["child_pool"])
    return sorted(dependents)


async def _release(connection: AnyConnection, pool: int, dependents: list[int], settled: Settled) -> None:
    if not dependents:
        return
    fates = await connection.fetch(sql("settlement/read_fates"), dependents, pool)
    skip = [row for row in fates if row["culprit"] is not None]
    free = [row["id"] for row in fates if row["culprit"] is None and not row["waits"]]
    if skip:
        ends = [(Reported(Result(row["id"], 0, Outcome.NEVER, 0), 0), _skipped(row)) for row in skip]
        before = len(settled.ended)
        await _end(connection, ends, settled)
        skipped = settled.ended[before:]
        await connection.execute(sql("settlement/drop_edges"), [task for task, _ in skipped])
        settled.more_dependents += await _mark_edges(connection, pool, skipped, settled)
    if free:
        _sort_by_time(await connection.fetch(sql("settlement/release_tasks"), free), settled)


def _skipped(row: asyncpg.Record) -> End:
    return End(State.SKIPPED, f"task {row['culprit']} ended {State(row['culprit_state']).label}")
