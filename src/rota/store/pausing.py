"""Pauses, holds and resumes tasks for their owners. One short transaction each, harmless if repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import asyncpg

from rota.model.queue import ReadyTask
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.queue import ready_task
from rota.store.statements import sql

Done = TypeVar("Done")

MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class Paused:
    held_back: list[tuple[int, int]]  # (task, pool) of tasks that waited
    stopping: list[tuple[int, int, int]]  # (task, pool, attempt) of running tasks


@dataclass(frozen=True, slots=True)
class Resumed:
    """A task that was resumed or edited, as it is now."""

    task: ReadyTask
    pool: int
    state: State
    wakes_in_seconds: float | None  # until it is due, or becomes urgent


@dataclass(frozen=True, slots=True)
class LiveTask:
    state: State
    pausing: bool
    cancelling: bool


async def pause_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int, *, user: str) -> Paused:
    """Pauses waiting tasks and requests a stop of running ones. Leaves other tasks alone."""

    async def pause() -> Paused:
        held_back = await connection.fetch(sql("pausing/pause_waiting"), tasks, tenant, None, user)
        stopping = await connection.fetch(sql("pausing/pause_running"), tasks, tenant)
        return Paused(
            [(row["id"], row["pool"]) for row in held_back],
            [(row["id"], row["pool"], row["attempt"]) for row in stopping],
        )

    return await on_locked(connection, tasks, tenant, pause)


def held_reason(user: str, reason: str) -> str:
    """The sentence that a held task shows."""
    return f"held by {user}" + (f": {reason}" if reason else "")


async def hold_tasks(
    connection: AnyConnection,
    tasks: Sequence[int],
    tenant: int,
    reason: str,
    *,
    user: str,
    also: list[int] | None = None,
) -> list[tuple[int, int]]:
    """Holds waiting tasks and returns (task, pool) of each. `also`: paused ones, which get the new reason."""

    async def hold() -> list[tuple[int, int]]:
        held = await connection.fetch(sql("pausing/pause_waiting"), tasks, tenant, reason, user)
        paused = await connection.fetch(sql("pausing/set_held_reason"), tasks, tenant, reason, user)
        if also is not None:
            also[:] = [row["id"] for row in paused]
        return [(row["id"], row["pool"]) for row in held]

    return await on_locked(connection, tasks, tenant, hold)


async def resume_tasks(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, *, user: str, also: list[int] | None = None
) -> list[Resumed]:
    """Resumes paused tasks; a task that is being stopped becomes ready when it has stopped, and is added to `also`.

    The ids are sorted.
    """

    async def resume() -> list[Resumed]:
        stopping = await connection.fetch(sql("pausing/resume_running"), tasks, tenant)
        if also is not None:
            also[:] = [row["id"] for row in stopping]
        rows = await connection.fetch(sql("pausing/resume_paused"), tasks, tenant, user)
        return [Resumed(ready_task(row), row["pool"], State(row["state"]), row["wakes_in"]) for row in rows]

    return await on_locked(connection, tasks, tenant, resume)


async def on_locked(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, work: Callable[[], Awaitable[Done]]
) -> Done:
    """Runs `work` in a transaction, and again after a deadlock with a settlement.

    The rows are locked first: a task that starts between two statements would escape both.
    """
    for tries_left in reversed(range(MOST_TRIES)):
        try:
            async with connection.transaction():
                await connection.execute(sql("pausing/lock_tasks"), tasks, tenant)
                return await work()
        except asyncpg.TransactionRollbackError:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


async def live_task(connection: AnyConnection, task: int, tenant: int) -> LiveTask | None:
    row = await connection.fetchrow(sql("pausing/live_task"), task, tenant)
    if row is None:
        return None
    return LiveTask(State(row["state"]), row["pause_requested"], row["cancel_requested"])
