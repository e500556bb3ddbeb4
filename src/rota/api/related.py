"""The filters `ancestors_of` and `descendants_of` of lists: the ids of the tasks on either side of a task.

An array's or a graph's id stands for all of its tasks. A task of a graph also goes by its name there: `12/extract`, or
`extract` beside the filter `graph=12`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.api.requests import digits, number_of
from rota.model.errors import Fault, invalid
from rota.store import dependents, graphs, reading
from rota.store.database import AnyConnection
from rota.store.dependents import MOST_RELATED

RELATIONS = {"ancestors_of": dependents.ancestors, "descendants_of": dependents.descendants}


@dataclass(frozen=True, slots=True)
class RelatedIds:
    ids: frozenset[int] | None  # None: nothing of the kind was asked for
    more: bool = False  # a walk stopped at its bound


async def related_ids(connection: AnyConnection, query: Mapping[str, str], tenant: int) -> RelatedIds:
    """With both filters: the tasks between the two."""
    found = RelatedIds(None)
    for name, walk in RELATIONS.items():
        text = query.get(name)
        if text is None:
            continue
        tasks = await _meant(connection, name, text, number_of(query, "graph"), tenant)
        related = await walk(connection, tasks, tenant, most=MOST_RELATED)
        ids = related.tasks if found.ids is None else found.ids & related.tasks
        found = RelatedIds(ids, found.more or related.more)
    return found


async def _meant(connection: AnyConnection, field: str, text: str, graph: int | None, tenant: int) -> list[int]:
    """The tasks that an id or a name in a graph means: at least one."""
    number = digits(text)
    if number is not None:
        tasks = sorted(await reading.known_tasks(connection, [number], tenant))
        tasks = tasks or await graphs.members_of(connection, number, tenant)
        if not tasks:
            raise invalid([Fault(f"/{field}", "invalid-filter", f"there is no task, array or graph {number}")])
        return tasks
    shown, name = text[:80], text.replace("\0", "\ufffd")
    tasks = [] if graph is None else await graphs.members_called(connection, graph, name, tenant)
    before, slash, rest = name.partition("/")
    own = digits(before) if slash else None
    if not tasks and own is not None:
        tasks = await graphs.members_called(connection, own, rest, tenant)
    if tasks:
        return tasks
    if graph is None and own is None:
        detail = f"{shown!r} is no task's id; a task of a graph is named 12/extract, or extract with the filter graph"
    else:
        detail = f"graph {graph if own is None else own} has no task {(shown if own is None else rest[:80])!r}"
    raise invalid([Fault(f"/{field}", "invalid-filter", detail)])
