"""What only leaders know at this moment: free room of nodes, and which tasks run. Asked of those elsewhere over HTTP.

A leader that can't be asked leaves its part out; callers show it as unknown or look in the database instead.
"""

from __future__ import annotations

from typing import TypeVar

import httpx
import msgspec

from rota.api.services import Services
from rota.model.resources import Resources

ASK_SECONDS = 1.0
MOST_RUNNING = 10_000

Loads = dict[int, tuple[Resources, int]]  # node → free, attempts held
T = TypeVar("T")


def local_loads(services: Services) -> Loads:
    return {
        node.id: (node.free, len(node.held) + len(node.behind))
        for leader in services.leadership.leaders.values()
        for node in leader.pool.core.state.nodes.values()
        if node.id in leader.pool.sessions
    }


def local_running(services: Services, tenant: int) -> list[int]:
    """The tenant's running tasks in the pools led here, newest first."""
    found = [
        task
        for leader in services.leadership.leaders.values()
        for task, running in leader.pool.core.state.running.items()
        if running.tenant == tenant
    ]
    return sorted(found, reverse=True)[:MOST_RUNNING]


async def all_loads(services: Services) -> Loads:
    loads = local_loads(services)
    answers, _ = await _ask(services, "/internal/loads", Loads)
    for answer in answers:
        loads.update(answer)
    return loads


async def all_running(services: Services, tenant: int) -> list[int] | None:
    """As `local_running`, over all pools; None when some leader can't be asked."""
    found = local_running(services, tenant)
    answers, complete = await _ask(services, f"/internal/running/{tenant}", list[int])
    led = {leader.pool.id for leader in services.leadership.leaders.values() if leader.ready.is_set()}
    if not complete or not {pool.id for pool in services.membership.pools.values()} <= led | set(
        services.membership.leaders
    ):
        return None
    for answer in answers:
        found += answer
    return sorted(set(found), reverse=True)[:MOST_RUNNING]


async def _ask(services: Services, path: str, kind: type[T]) -> tuple[list[T], bool]:
    """What the other leaders answer, and whether all did."""
    others = {
        leader.url for leader in services.membership.leaders.values() if leader.holder != services.membership.holder
    }
    answers: list[T] = []
    complete = True
    headers = {"authorization": f"Bearer {services.cluster.secret}"}
    for url in sorted(others):
        try:
            async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
                answered = await client.get(url + path, headers=headers)
            answered.raise_for_status()
            answers.append(msgspec.json.decode(answered.content, type=kind))
        except (httpx.HTTPError, msgspec.DecodeError):
            complete = False
    return answers, complete
