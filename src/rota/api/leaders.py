"""Questions to pool leaders: the load of nodes, the running tasks, why tasks wait. Others are asked by HTTP.

Without the answer of a leader, callers show its part as unknown, or read the database instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import httpx
import msgspec

from rota import tls
from rota.api.services import Services
from rota.dispatch.frozen_attempts import frozen_by_node
from rota.dispatch.pool_questions import Answer, PoolLoad, Question
from rota.dispatch.recalls import CONFIRM_SECONDS, recall_paused
from rota.model.resources import Resources
from rota.store.queue import count_running

ASK_SECONDS = 1.0
RECALL_SECONDS = 2.0  # how long to look for a leader that answers
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


async def asked_of_leader(services: Services, pool: int, question: Question) -> Answer | None:
    """Why tasks wait and when they start, from the pool's leader; None: it is unreachable."""
    here = services.leadership.insight(pool)
    if here is not None:
        return await here.answer(question)
    return await _ask_leader(services, pool, f"/internal/pools/{pool}/waiting", Answer, msgspec.json.encode(question))


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


class RecallOrder(msgspec.Struct, frozen=True):
    """Of this tenant, or on this node; of the whole pool if neither is named."""

    tenant: int | None = None
    node: int | None = None


class RecallAnswer(msgspec.Struct, frozen=True):
    may_still_start: int | None  # None: the lease is over


async def take_back(services: Services, pools: Iterable[int], order: RecallOrder) -> int:
    """After a pause: takes back what nodes have not begun. Returns how many attempts may begin all the same.

    Leaders answer when their nodes have, or after a second. A leader that can't be asked is no reason to refuse the
    pause, which holds already for everything that is not authorised: then every running task counts.
    """
    left = await asyncio.gather(*(_take_back_in(services, pool, order) for pool in pools))
    return sum(left)


async def _take_back_in(services: Services, pool: int, order: RecallOrder) -> int:
    deadline = asyncio.get_running_loop().time() + RECALL_SECONDS
    while True:
        answer = await _ask_to_recall(services, pool, order)
        if answer is not None and answer.may_still_start is not None:
            return answer.may_still_start
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(0.1)
        await services.membership.refresh()  # perhaps another node leads now
    async with services.database.engine() as connection:
        return await count_running(connection, pool, tenant=order.tenant, node=order.node)


async def _ask_to_recall(services: Services, pool: int, order: RecallOrder) -> RecallAnswer | None:
    here = services.leadership.leader(pool)
    if here is not None:
        return RecallAnswer(await recall_paused(here.pool, tenant=order.tenant, node=order.node))
    path, seconds = f"/internal/pools/{pool}/recall", CONFIRM_SECONDS + ASK_SECONDS
    return await _ask_leader(services, pool, path, RecallAnswer, msgspec.json.encode(order), seconds)


async def _ask_leader(
    services: Services, pool: int, path: str, kind: type[T], body: bytes, seconds: float = ASK_SECONDS
) -> T | None:
    leader = services.membership.leaders.get(pool)
    if leader is None or leader.holder == services.membership.holder:
        return None  # no leader, or this node is becoming the leader
    return await _call(services, "POST", leader.url + path, kind, body, seconds)


async def _ask(services: Services, path: str, kind: type[T]) -> tuple[list[T], bool]:
    """The answers of the other leaders, and whether all answered."""
    others = {
        leader.url for leader in services.membership.leaders.values() if leader.holder != services.membership.holder
    }
    answers = [await _call(services, "GET", url + path, kind) for url in sorted(others)]
    return [answer for answer in answers if answer is not None], None not in answers


async def _call(
    services: Services, method: str, url: str, kind: type[T], body: bytes | None = None, seconds: float = ASK_SECONDS
) -> T | None:
    """The answer of another server node; None if it is unreachable."""
    headers = {"authorization": f"Bearer {services.cluster.secret}", "content-type": "application/json"}
    try:
        async with httpx.AsyncClient(timeout=seconds, trust_env=False, verify=tls.trusted()) as client:
            answered = await client.request(method, url, headers=headers, content=body)
        answered.raise_for_status()
        return msgspec.json.decode(answered.content, type=kind)
    except (httpx.HTTPError, msgspec.DecodeError):
        return None
