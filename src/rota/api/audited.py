"""Writes the audit log, on the connection of the change: both are there, or neither.

`audit` is for what a caller does, `audit_anonymous` for events without one. Where a request comes from is found here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec

from rota.api.origin import origin
from rota.model.audit import ActorKind, Entry, Outcome
from rota.model.tenant import Caller
from rota.store.audit import link_tasks, record
from rota.store.database import AnyConnection

LONGEST_VALUE = 4_000  # bytes of a field before or after a change
MOST_NAMED = 100  # ids of the tasks that were changed together; each of them shows the row

# What no tenant owns: only those who oversee the cluster see what happens to it.
_OF_CLUSTER = frozenset(
    {"node", "pool", "plan", "tier", "category", "lane", "retention", "sign-in-rules", "worker-key"}
)


async def audit(
    connection: AnyConnection,
    caller: Caller,
    action: str,
    target: str | int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
    outcome: Outcome = "done",
    tenant_id: int | None = None,
    selection: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> int:
    """Returns the id of the row.

    `action`: `kind.verb`. `target`: the name or id of the object. `before`, `after`: what changed, as JSON values.
    `tenant_id`: whose affair it is, if it is not the caller's tenant's. `selection`, `count`: of a change of many.
    """
    [row] = await record(
        connection,
        entry_of(
            caller,
            action,
            target,
            before=before,
            after=after,
            reason=reason,
            outcome=outcome,
            tenant_id=tenant_id,
            selection=selection,
            count=count,
        ),
    )
    return row


def entry_of(
    caller: Caller,
    action: str,
    target: str | int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
    outcome: Outcome = "done",
    tenant_id: int | None = None,
    selection: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> Entry:
    """As `audit`, for statements that write the entry themselves."""
    kind = action.partition(".")[0]
    found = origin()
    is_task = caller.task is not None
    return Entry(
        tenant=tenant_id if tenant_id is not None else None if kind in _OF_CLUSTER else caller.tenant_id,
        actor_kind=caller.kind.value,
        actor=caller.credential if is_task else caller.user,
        credential=caller.credential,
        on_behalf_of=caller.user if is_task else "",
        via="ui" if caller.session_id and found.via == "api" else found.via,
        action=action,
        object_kind=kind,
        object_id=str(target),
        outcome=outcome,
        reason=reason,
        before=before,
        after=after,
        selection=selection,
        count=count,
        address=found.address,
        agent=found.agent,
        request_id=found.request_id,
        server=found.server,
    )


async def audit_anonymous(
    connection: AnyConnection,
    name: str,
    action: str,
    target: str | int,
    *,
    outcome: Outcome,
    reason: str = "",
    tenant_id: int | None = None,
) -> None:
    """An event without a caller, such as a failed sign-in. `name`: whom they say they are."""
    found = origin()
    await record(
        connection,
        Entry(
            tenant=tenant_id,
            actor_kind="anonymous",
            actor=name[:200],
            via=found.via,
            action=action,
            object_kind=action.partition(".")[0],
            object_id=str(target)[:200],
            outcome=outcome,
            reason=reason,
            address=found.address,
            agent=found.agent,
            request_id=found.request_id,
            server=found.server,
        ),
    )


def named_entry(
    kind: ActorKind, name: str, action: str, target: str, *, credential: str = "", tenant_id: int | None = None
) -> Entry:
    """Of somebody who is known by name, though no caller was made of them."""
    found = origin()
    return Entry(
        tenant=tenant_id,
        actor_kind=kind,
        actor=name,
        credential=credential,
        via=found.via,
        action=action,
        object_kind=action.partition(".")[0],
        object_id=target,
        address=found.address,
        agent=found.agent,
        request_id=found.request_id,
        server=found.server,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What a request does to tasks: the row that tells of it, but for the tasks that it turns out to change.

    `target`: the object that it names if that is no single task: a graph. `selection`: what it selects by besides ids.
    """

    action: str
    reason: str = ""
    target: str | int | None = None
    selection: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] | None = None


async def audit_tasks(
    connection: AnyConnection, caller: Caller, change: Change, tasks: Sequence[int], *, many: bool = False
) -> None:
    """In the transaction that changed these tasks: one row, and each of several tasks shows it. Without tasks, none.

    `many`: the request names a list, though it may have changed one task only.
    """
    if not tasks:
        return
    if change.target is None and len(tasks) == 1:
        count = 1 if many else None
        await audit(connection, caller, change.action, tasks[0], reason=change.reason, after=change.after, count=count)
        return
    entry = entry_of(
        caller,
        change.action,
        "" if change.target is None else change.target,
        reason=change.reason,
        after=change.after,
        selection={**change.selection, "ids": sorted(tasks)[:MOST_NAMED]},
        count=len(tasks),
    )
    [row] = await record(connection, entry)
    await link_tasks(connection, tasks, row)


class Differences(TypedDict):
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def differences(before: object | None, after: object | None) -> Differences:
    """What a change of a structure changed, as JSON values. None: there was none before, or there is none any more."""
    old, new = _plain(before), _plain(after)
    if old is None or new is None:
        return {"before": old, "after": new}
    changed = [name for name in new if old.get(name) != new[name]]
    if not changed:
        return {"before": None, "after": None}
    return {"before": {name: old.get(name) for name in changed}, "after": {name: new[name] for name in changed}}


def _plain(value: object | None) -> dict[str, Any] | None:
    if value is None:
        return None
    plain: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    return {name: _short(part) for name, part in plain.items()}


def _short(value: object) -> object:
    """A long value, such as the tasks of a large graph, is named by its length and its hash."""
    encoded = msgspec.json.encode(value)
    if len(encoded) <= LONGEST_VALUE:
        return value
    return f"{len(encoded):,} bytes, SHA-256 {hashlib.sha256(encoded).hexdigest()}"
