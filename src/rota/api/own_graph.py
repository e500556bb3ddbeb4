"""The graph of a task that may submit: keeps the task's key to it, finds it by the task's id, cancels all of it.

A token may name everything of its tenant, the key of a running task only what is in the task's graph. What is outside
gets one answer, whether it exists or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rota.api.requests import beyond_key, beyond_restrictions, existing, task_id
from rota.api.services import Services
from rota.model.answers.task_changes import CancelManyAnswer
from rota.model.tenant import Caller
from rota.store import graphs, reading

Cancel = Callable[[Services, Caller, list[int]], Awaitable[CancelManyAnswer]]


async def check_tasks(services: Services, caller: Caller, ids: Sequence[int]) -> None:
    """Raises a Problem if the caller is a running task, or has a token for some tasks only, and an id is not of these.

    An id may also be that of the graph, or of a graph or array within it.
    """
    if caller.restrictions.of_tasks:
        await _check_restricted(services, caller, ids)
    task = caller.task
    if task is None:
        return
    async with services.database.tenant(caller.tenant_id) as connection:
        known = await graphs.members_among(connection, task.graph, caller.tenant_id, ids)
        for number in ids:
            if number not in known and not await graphs.is_within(connection, number, caller.tenant_id, task.graph):
                raise beyond_key(f"{number} is not in graph {task.graph}")


async def _check_restricted(services: Services, caller: Caller, ids: Sequence[int]) -> None:
    limits = caller.restrictions
    async with services.database.tenant(caller.tenant_id) as connection:
        found = await reading.read_restricted(connection, ids, caller.tenant_id)
    for number in ids:
        name, pool, user = found.get(number, ("", "", ""))
        own = user == caller.user or not limits.own
        if number not in found or not (limits.allows_name(name) and limits.allows_pool(pool) and own):
            raise beyond_restrictions(caller, f"not for task {number}")


async def graph_number(services: Services, caller: Caller, text: str) -> int:
    """The graph of a path: its own id, or that of the task that began it because it may submit others."""
    number = task_id(text, "graph")
    async with services.database.tenant(caller.tenant_id) as connection:
        if await graphs.read_graph(connection, number, caller.tenant_id) is None:
            number = existing(await graphs.begun_by(connection, number, caller.tenant_id), "graph")
    await check_tasks(services, caller, [number])
    return number


async def cancel_with_submitted(services: Services, caller: Caller, ids: list[int], cancel: Cancel) -> CancelManyAnswer:
    """Cancels tasks; of one that began a graph because it may submit others, also what is in that graph."""
    async with services.database.tenant(caller.tenant_id) as connection:
        begun = await graphs.begun_by_many(connection, ids, caller.tenant_id)
    if not begun:
        return await cancel(services, caller, ids)
    return await cancel_growing(services, caller, ids, sorted(set(begun.values())), cancel)


async def cancel_growing(
    services: Services, caller: Caller, ids: list[int], whole: Sequence[int], cancel: Cancel
) -> CancelManyAnswer:
    """Cancels tasks and all live members of graphs, those that join meanwhile included.

    A task that is being stopped submits nothing more, so that there is an end to it. Only `ids` are answered as
    refused.
    """
    live = await _live(services, caller, whole)
    document = await cancel(services, caller, sorted({*ids, *live}))
    refused = [one for one in document.refused if one.id in ids]
    cancelled, cancelling = set(document.cancelled), set(document.cancelling)
    while more := [task for task in await _live(services, caller, whole) if task not in cancelled | cancelling]:
        document = await cancel(services, caller, more)
        cancelled.update(document.cancelled)
        cancelling.update(document.cancelling)
        if len(document.refused) == len(more):
            break  # they have ended meanwhile
    return CancelManyAnswer(cancelled=sorted(cancelled), cancelling=sorted(cancelling), refused=refused)


async def _live(services: Services, caller: Caller, whole: Sequence[int]) -> list[int]:
    async with services.database.tenant(caller.tenant_id) as connection:
        return [task for graph in whole for task in await graphs.live_members(connection, graph, caller.tenant_id)]
