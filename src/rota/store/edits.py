"""Edits of waiting tasks by their owners, and the record of these edits. One short transaction each.

The row is locked before it is checked, and every edit raises its version: a start that was planned on the old version
is refused, and an edit after a start finds a running task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import asyncpg
import msgspec

from rota.model.event import Kind
from rota.model.request.edit import Edit
from rota.model.resources import Shape
from rota.model.task import State
from rota.model.tolerance import whole_ms
from rota.store.database import AnyConnection
from rota.store.pausing import MOST_TRIES, Resumed, on_locked
from rota.store.queue import ready_task
from rota.store.shapes import read_shapes
from rota.store.statements import sql


class NotWaiting(RuntimeError):
    """The task runs or is being cancelled."""

    def __init__(self, state: State, *, cancelling: bool) -> None:
        super().__init__(state)
        self.state = state
        self.cancelling = cancelling


class VersionChanged(RuntimeError):
    """The task changed since it was read; `version` is the present one."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@dataclass(frozen=True, slots=True)
class Edited:
    """The edited task, and the pool it was in before."""

    now: Resumed
    version: int
    pool_before: int
    changes: Mapping[str, tuple[object, object]] = field(default_factory=dict)  # for each field, old and new value


@dataclass(frozen=True, slots=True)
class Movable:
    """The facts that decide whether a task fits another pool."""

    shape: Shape
    isolation: str
    unplaceable_waits: bool


async def known_task(connection: AnyConnection, task: int, tenant: int) -> Movable | None:
    return (await known_tasks(connection, [task], tenant)).get(task)


async def known_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, Movable]:
    rows = await connection.fetch(sql("edits/known_tasks"), tasks, tenant)
    shapes = await read_shapes(connection, list({row["shape"] for row in rows}))
    return {row["id"]: Movable(shapes[row["shape"]], row["isolation"], row["unplaceable_waits"]) for row in rows}


async def edit_task(
    connection: AnyConnection, task: int, tenant: int, edit: Edit, *, version: int, user: str
) -> Edited | None:
    """None: the task is not live. Raises NotWaiting or VersionChanged before it changes anything."""
    for _ in range(MOST_TRIES - 1):
        try:
            return await _edit_task(connection, task, tenant, edit, version=version, user=user)
        except asyncpg.TransactionRollbackError:  # a deadlock with a settlement that releases the task
            continue
    return await _edit_task(connection, task, tenant, edit, version=version, user=user)


async def _edit_task(
    connection: AnyConnection, task: int, tenant: int, edit: Edit, *, version: int, user: str
) -> Edited | None:
    async with connection.transaction():
        locked = await connection.fetchval(sql("edits/lock_task"), task, tenant)
        if locked is None:
            return None
        [before] = await connection.fetch(sql("edits/read_editable"), [task])
        if before["state"] == State.RUNNING:
            raise NotWaiting(State.RUNNING, cancelling=before["cancel_requested"])
        if before["version"] != version:
            raise VersionChanged(before["version"])
        [edited] = await _edit_locked(connection, [before], tenant, edit, user=user)
    return edited


async def edit_tasks(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, edit: Edit, *, user: str
) -> tuple[list[Edited], list[int]]:
    """Edits those that wait, whatever their versions; returns them, and those that run. The ids are sorted."""

    async def change() -> tuple[list[Edited], list[int]]:
        rows = await connection.fetch(sql("edits/read_editable"), tasks)
        waiting = [row for row in rows if row["state"] != State.RUNNING]
        edited = await _edit_locked(connection, waiting, tenant, edit, user=user) if waiting else []
        return edited, [row["id"] for row in rows if row["state"] == State.RUNNING]

    return await on_locked(connection, tasks, tenant, change)


async def _edit_locked(
    connection: AnyConnection, before: Sequence[asyncpg.Record], tenant: int, edit: Edit, *, user: str
) -> list[Edited]:
    """Edits waiting tasks whose rows are locked; `before` is what was read of them since."""
    if edit.at_once:
        edit = replace(edit, not_before=before[0]["now"])  # by the clock that the statement goes by
    tolerances = [_tolerance(row, edit) for row in before]
    given = [
        (edit.tolerance_ms is not None or row["tolerance_given"])
        and (row["promotes"] if edit.lane is None else edit.lane.promotes)
        for row in before
    ]
    rows = await connection.fetch(
        sql("edits/edit_waiting"),
        [row["id"] for row in before],
        None if edit.pool is None else edit.pool[0],
        None if edit.lane is None else edit.lane.number,
        edit.priority,
        edit.cap_ms,
        edit.tolerance_ms,
        given,
        [start_by for _, start_by in tolerances],
        [tolerance_ms for tolerance_ms, _ in tolerances],
        edit.not_before,
    )
    pools = {row["id"]: row["pool"] for row in before}
    moved = [row["id"] for row in rows if row["pool"] != pools[row["id"]]]
    if moved and edit.pool is not None:
        await connection.execute(sql("edits/move_edges"), moved, edit.pool[0])
    changes = {row["id"]: _changes(row, edit) for row in before}
    await record_edits(
        connection,
        list(changes.items()),
        tenant,
        Kind.EDITED,
        user=user,
        tolerance=edit.tolerance_ms is not None,
    )
    return [
        Edited(
            Resumed(ready_task(row), row["pool"], State(row["state"]), row["wakes_in"]),
            row["version"],
            pools[row["id"]],
            changes[row["id"]],
        )
        for row in rows
    ]


async def record_edits(
    connection: AnyConnection,
    changes: Sequence[tuple[int, Mapping[str, tuple[object, object]]]],
    tenant: int,
    kind: Kind,
    *,
    user: str,
    tolerance: bool = False,
    attempt: int = 0,
) -> None:
    """Records the changes of tasks for people, also after the queue row is gone. In the transaction of the edit."""
    documents = [msgspec.json.encode(changed).decode() for _, changed in changes]
    tasks = [task for task, _ in changes]
    await connection.execute(sql("edits/record_edits"), tasks, tenant, user, documents, tolerance, kind, attempt)


def _tolerance(before: asyncpg.Record, edit: Edit) -> tuple[int, datetime]:
    """A new tolerance counts from the same time as the old one, or from the new start time."""
    old_ms: int = before["tolerance_ms"]
    if edit.not_before is not None:
        whole = old_ms if edit.tolerance_ms is None else edit.tolerance_ms
        return whole, edit.not_before + timedelta(milliseconds=whole)
    start_by: datetime = before["start_by"]
    if edit.tolerance_ms is None:
        return old_ms, start_by
    return edit.tolerance_ms, start_by + timedelta(milliseconds=edit.tolerance_ms - old_ms)


def moment_text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _changes(before: asyncpg.Record, edit: Edit) -> dict[str, tuple[object, object]]:
    """The changed fields as clients read them: old and new value."""
    fields: dict[str, tuple[object, object]] = {}
    if edit.priority is not None:
        fields["priority"] = (-before["urgency"], edit.priority)
    if edit.lane is not None:
        fields["lane"] = (before["lane_name"], edit.lane.name)
    if edit.cap_ms is not None:
        fields["cap_seconds"] = (before["cap_ms"] / 1000, edit.cap_ms / 1000)
    if edit.tolerance_ms is not None:
        old_ms = whole_ms(before["tolerance_ms"], before["leeway_ms"])
        fields["tolerance_seconds"] = (None if old_ms is None else old_ms / 1000, edit.tolerance_ms / 1000)
    if edit.not_before is not None:
        old = before["not_before"]
        fields["not_before"] = (None if old is None else moment_text(old), moment_text(edit.not_before))
    if edit.pool is not None:
        fields["pool"] = (before["pool_name"], edit.pool[1])
    return {name: change for name, change in fields.items() if change[0] != change[1]}
