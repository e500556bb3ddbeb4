"""Waiting tasks with the tasks before them in their graph, as estimates need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.clock import to_us
from rota.model.queue import ReadyTask
from rota.model.resources import Shape
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.queue import ready_task
from rota.store.shapes import shape_of
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class LiveTask:
    task: ReadyTask
    shape: Shape
    state: State
    pool: int
    parents: tuple[int, ...]  # live ones
    wake_us: int | None


async def read_waiting_chain(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, *, limit: int
) -> dict[int, LiveTask]:
    """These tasks and the live tasks that they wait for, directly or not; at most so many."""
    rows = await connection.fetch(sql("reading/waiting_chain"), tasks, tenant, limit)
    return {
        row["id"]: LiveTask(
            ready_task(row),
            shape_of(row),
            State(row["state"]),
            row["pool"],
            tuple(row["parents"]),
            None if row["wake_at"] is None else to_us(row["wake_at"]),
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Pauses:
    pool: bool
    tenant: bool


async def read_pauses(connection: AnyConnection, pool: int, tenant: int) -> Pauses:
    row = await connection.fetchrow(sql("reading/pauses"), pool, tenant)
    return Pauses(False, False) if row is None else Pauses(row["pool"], row["tenant"])
