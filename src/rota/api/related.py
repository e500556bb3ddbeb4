"""The filters `ancestors_of` and `descendants_of` of lists: the ids of the tasks on either side of a task.

An array's or a graph's id stands for all of its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.api.requests import number_of
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
        number = number_of(query, name)
        if number is None:
            continue
        tasks = sorted(await reading.known_tasks(connection, [number], tenant))
        tasks = tasks or await graphs.members_of(connection, number, tenant)
        if not tasks:
            raise invalid([Fault(f"/{name}", "invalid-filter", f"there is no task, array or graph {number}")])
        related = await walk(connection, tasks, tenant, most=MOST_RELATED)
        ids = related.tasks if found.ids is None else found.ids & related.tasks
        found = RelatedIds(ids, found.more or related.more)
    return found
