"""Reads the filter of an operation: checks every field, names all faults at once, and resolves names to ids.

A list may filter by a name that nobody has; an operation that does is refused, because it is a slip of the pen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec

from rota.api.answers import instant
from rota.api.requests import time_of
from rota.api.routes.dead import dead_filter
from rota.api.routes.tasks import states_of, tag_of
from rota.model.errors import Fault, Problem, invalid
from rota.model.request.operation import APPLIES_TO, BY_DEFAULT, OperationWhere, Selection, Verb
from rota.store import graphs, listing
from rota.store.database import AnyConnection

Value = TypeVar("Value")

WHERE = "/where"
_OF_DEAD_LETTERS = ("reason", "over")
_OF_TASKS = ("state", "status", "worker")


@dataclass(frozen=True, slots=True)
class Selected:
    """A filter as its user wrote it, with moments instead of durations; and with its names resolved."""

    asked: dict[str, str | int]
    selection: Selection


async def select(
    connection: AnyConnection, tenant: int, verb: Verb, where: OperationWhere, *, until: datetime
) -> Selected:
    """What the filter selects of the tasks that were submitted, or of those that died, before `until`."""
    faults = _wrong_fields(verb, where)
    selection = await (_of_dead if verb.of_dead_letters else _of_tasks)(connection, tenant, verb, where, faults, until)
    faults += await _unknown(connection, tenant, where, selection)
    if faults or selection is None:
        raise invalid(faults)
    asked = {name: value for name, value in msgspec.structs.asdict(where).items() if value is not None}
    for name in ("since", "until"):
        if name in asked:
            asked[name] = instant(getattr(selection, name)) or ""
    return Selected(asked, selection)


def _wrong_fields(verb: Verb, where: OperationWhere) -> list[Fault]:
    """Fields that do not apply to what the verb takes."""
    names, what = (_OF_TASKS, "dead letters") if verb.of_dead_letters else (_OF_DEAD_LETTERS, "tasks")
    return [
        Fault(f"{WHERE}/{name}", "invalid-filter", f"{verb.value} takes {what}, which have no filter {name!r}")
        for name in names
        if getattr(where, name) is not None
    ]


async def _of_dead(
    connection: AnyConnection, tenant: int, verb: Verb, where: OperationWhere, faults: list[Fault], until: datetime
) -> Selection | None:
    try:
        wanted = await dead_filter(connection, tenant, where, WHERE)
    except Problem as problem:
        faults += problem.faults
        return None
    return Selection(
        states=BY_DEFAULT[verb],
        name=wanted.name,
        tag=wanted.tag,
        user=wanted.user,
        schedule=wanted.schedule,
        graph=wanted.graph,
        reason=wanted.reason,
        failure=wanted.failure,
        since=wanted.since,
        until=min(until, wanted.until or until),
    )


async def _of_tasks(
    connection: AnyConnection, tenant: int, verb: Verb, where: OperationWhere, faults: list[Fault], until: datetime
) -> Selection | None:
    def read(parse: Callable[[], Value]) -> Value | None:
        try:
            return parse()
        except Problem as problem:
            faults.extend(Fault(f"{WHERE}{fault.pointer}", fault.code, fault.detail) for fault in problem.faults)
            return None

    tag = read(lambda: tag_of(where.tag))
    since = read(lambda: time_of(where.since, "since"))
    latest = read(lambda: time_of(where.until, "until"))
    states = read(lambda: states_of(where.state, where.status))
    chosen = BY_DEFAULT[verb]
    if states is not None and (where.state is not None or where.status is not None):
        chosen = tuple(state for state in APPLIES_TO[verb] if state in states)
        if not chosen:
            field = "state" if where.state is not None else "status"
            right = ", ".join(state.label for state in APPLIES_TO[verb])
            given = f"{getattr(where, field)[:40]!r}"
            faults.append(
                Fault(f"{WHERE}/{field}", "invalid-filter", f"{verb.value} applies to {right}, not to {given}")
            )
    for field in ("name", "user", "schedule", "worker"):
        text: str | None = getattr(where, field)
        if text is not None and ("\0" in text or not text):
            faults.append(Fault(f"{WHERE}/{field}", "invalid-filter", f"{text[:40]!r} is nobody's name"))
    if where.graph is not None and not 0 < where.graph < 2**63:
        faults.append(Fault(f"{WHERE}/graph", "invalid-filter", f"{where.graph} is no graph's id"))
    if faults:
        return None
    return Selection(
        states=chosen,
        name=where.name,
        tag=tag,
        user=where.user,
        schedule=None
        if where.schedule is None
        else await listing.find_schedule(connection, tenant, where.schedule) or 0,
        graph=await graphs.graph_named(connection, where.graph, tenant),
        nodes=None if where.worker is None else tuple(await listing.find_nodes(connection, where.worker)),
        since=since,
        until=min(until, latest or until),
    )


async def _unknown(
    connection: AnyConnection, tenant: int, where: OperationWhere, selection: Selection | None
) -> list[Fault]:
    """Names of things that do not exist."""
    if selection is None:
        return []
    missing: list[tuple[str, str, str | int | None]] = []
    if selection.schedule == 0:
        missing.append(("schedule", "schedule", where.schedule))
    if selection.nodes == ():
        missing.append(("worker", "node", where.worker))
    if selection.graph is not None and await graphs.read_graph(connection, selection.graph, tenant) is None:
        missing.append(("graph", "graph or array", where.graph))
    return [
        Fault(f"{WHERE}/{field}", "invalid-filter", f"there is no {what} {str(value)[:80]}")
        for field, what, value in missing
    ]
