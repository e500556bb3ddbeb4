"""Changes a task's cap after admission. The cap of the queue row holds; the spec keeps the submitted one."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.clock import to_us
from rota.model.event import Kind
from rota.model.queue import OrderKey
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.edits import record_edits
from rota.store.statements import sql


class CapTooLong(ValueError):
    """The new cap, `cap_ms`, is longer than allowed."""

    def __init__(self, cap_ms: int) -> None:
        super().__init__(cap_ms)
        self.cap_ms = cap_ms


class CapTooShort(ValueError):
    """The cap of a running task can only be extended; `cap_ms` is the present one."""

    def __init__(self, cap_ms: int) -> None:
        super().__init__(cap_ms)
        self.cap_ms = cap_ms


@dataclass(frozen=True, slots=True)
class NewCap:
    task: int
    pool: int
    tenant: int
    state: State
    attempt: int
    cap_ms: int
    order: OrderKey  # the position of a waiting task in its tenant's order
    cap_ms_before: int = 0


async def change_cap(
    connection: AnyConnection,
    task: int,
    tenant: int,
    *,
    by_ms: int | None,
    to_ms: int | None,
    longest_ms: int,
    user: str,
) -> NewCap | None:
    """Extends or sets the cap. None: the task is not live. The version rises, so a start of a stale copy is refused."""
    async with connection.transaction():
        row = await connection.fetchrow(sql("caps/lock_cap"), task, tenant)
        if row is None:
            return None
        before = row["cap_ms"]
        cap_ms = row["cap_ms"] + by_ms if by_ms is not None else to_ms
        assert cap_ms is not None
        if cap_ms > longest_ms:
            raise CapTooLong(cap_ms)
        if row["state"] == State.RUNNING and cap_ms < row["cap_ms"]:
            raise CapTooShort(row["cap_ms"])
        if cap_ms != row["cap_ms"]:
            changes = {"cap_seconds": (row["cap_ms"] / 1000, cap_ms / 1000)}
            attempt = row["attempt"] if row["state"] == State.RUNNING else 0
            await record_edits(connection, [(task, changes)], tenant, Kind.EXTENDED, user=user, attempt=attempt)
        row = await connection.fetchrow(sql("caps/change_cap"), task, cap_ms)
    assert row is not None
    order = (row["lane"], row["urgency"], to_us(row["start_by"]), row["cap_ms"], row["id"])
    state = State(row["state"])
    return NewCap(row["id"], row["pool"], row["tenant"], state, row["attempt"], row["cap_ms"], order, before)


async def load_changed_caps(connection: AnyConnection, pool: int) -> list[tuple[int, int, int]]:
    """(task, attempt, cap in ms) of running attempts whose cap was changed."""
    rows = await connection.fetch(sql("caps/load_changed_caps"), pool)
    return [(row["id"], row["attempt"], row["cap_ms"]) for row in rows]
