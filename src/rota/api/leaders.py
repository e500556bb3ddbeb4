"""Questions to pool leaders: the load of nodes, the running tasks, why tasks wait. Others are asked by HTTP.

Without the answer of a leader, callers show its part as unknown, or read the database instead.
"""

from __future__ import annotations

from typing import TypeVar

import httpx
import msgspec

from rota import tls
from rota.api.services import Services
from rota.decide.explain import Explanation, Probe
from rota.dispatch.frozen_attempts import frozen_by_node
from rota.dispatch.pool_questions import PoolLoad
from rota.model.resources import Resources

ASK_SECONDS = 1.0
MOST_RUNNING = 10_000

T = TypeVar("T")


class Load(msgspec.Struct, frozen=True):
    """A node as its leader sees it."""

    free: Resources | None  # None: it is away
    attempts: int
    frozen: int  # attempts that stand still


Loads = dict[int, Load]


def local_loads(services: Services) -> Loads:
    loads: Loads = {}
    for leader in services.leadership.leaders.values():
        pool = leader.pool
        frozen = frozen_by_node(pool)
        for node in pool.core.state.nodes.values():
            is_here = node.id in pool.sessions
            if is_here or frozen[node.id]:
                free = node.free_resources if is_here else None
                loads[node.id] = Load(free, len(node.held) + len(node.behind), frozen[node.id])
    return loads


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
    """As `local_running`, over all pools; None if a leader is unreachable."""
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


async def explained(services: Services, pool: int, asked: list[int | Probe]) -> list[Explanation | None] | None:
    """Why each task waits, from the pool's leader: None for an unknown task; None alone if it is unreachable."""
    here = services.leadership.insight(pool)
    if here is not None:
        return here.explain(asked)
    return await _ask_leader(
        services, pool, f"/internal/pools/{pool}/explain", list[Explanation | None], msgspec.json.encode(asked)
    )


async def pool_load(services: Services, pool: int) -> PoolLoad | None:
    here = services.leadership.insight(pool)
    if here is not None:
        return here.load()
    return await _ask_leader(services, pool, f"/internal/pools/{pool}/load", PoolLoad, b"")


class ReloadAnswer(msgspec.Struct, frozen=True):
    told: bool | None  # False: the agent is too old; None: the node is away


async def tell_to_reload(services: Services, pool: int, node: int) -> ReloadAnswer | None:
    """None: the pool's leader is unreachable."""
    here = services.leadership.leader(pool)
    if here is not None:
        return ReloadAnswer(here.reload(node))
    return await _ask_leader(services, pool, f"/internal/pools/{pool}/nodes/{node}/reload", ReloadAnswer, b"")


async def _ask_leader(services: Services, pool: int, path: str, kind: type[T], body: bytes) -> T | None:
    leader = services.membership.leaders.get(pool)
    if leader is None or leader.holder == services.membership.holder:
        return None  # no leader, or this node is becoming the leader
    return await _call(services, "POST", leader.url + path, kind, body)


async def _ask(services: Services, path: str, kind: type[T]) -> tuple[list[T], bool]:
    """The answers of the other leaders, and whether all answered."""
    others = {
        leader.url for leader in services.membership.leaders.values() if leader.holder != services.membership.holder
    }
    answers = [await _call(services, "GET", url + path, kind) for url in sorted(others)]
    return [answer for answer in answers if answer is not None], None not in answers


async def _call(services: Services, method: str, url: str, kind: type[T], body: bytes | None = None) -> T | None:
    """The answer of another server node; None if it is unreachable."""
    headers = {"authorization": f"Bearer {services.cluster.secret}", "content-type": "application/json"}
    try:
        async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False, verify=tls.trusted()) as client:
            answered = await client.request(method, url, headers=headers, content=body)
        answered.raise_for_status()
        return msgspec.json.decode(answered.content, type=kind)
    except (httpx.HTTPError, msgspec.DecodeError):
        return None
