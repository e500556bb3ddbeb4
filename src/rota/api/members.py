"""Pages of the tasks of an array or a graph, for routes that take such an id in place of a task's."""

from __future__ import annotations

from dataclasses import dataclass

from rota.api.requests import existing
from rota.api.services import Services
from rota.model.tenant import Caller
from rota.store import graphs
from rota.store.graphs import GraphMember


@dataclass(frozen=True, slots=True)
class MemberPage:
    members: list[GraphMember]
    next: str | None  # the cursor of the next page


async def read_members(services: Services, caller: Caller, graph: int, *, after: int, limit: int) -> MemberPage:
    """One page in topological order. 404 if there is no such array or graph."""
    async with services.database.tenant(caller.tenant_id) as connection:
        existing(await graphs.read_graph(connection, graph, caller.tenant_id))
        found = await graphs.members_page(connection, graph, caller.tenant_id, after=after, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    return MemberPage(found[:limit], services.cursors.make(more))
