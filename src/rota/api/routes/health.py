"""Health, readiness, metrics, and the calls between server nodes."""

from __future__ import annotations

import asyncio
import hmac

from fastapi import APIRouter, Request, Response

from rota.admit.authenticate import unauthorized
from rota.api.answers import answer
from rota.api.described import PLAIN_TEXT, described
from rota.api.leaders import local_loads, local_running
from rota.api.requests import read_json
from rota.api.services import Services, authorise, services
from rota.cluster.hints import Hint
from rota.dispatch.frozen_attempts import frozen_by_node
from rota.dispatch.leader import PoolLeader
from rota.model.answers.cluster import Health, Readiness
from rota.model.errors import Problem, unavailable
from rota.observe.metrics import ClusterFigures, NodeFigures, PoolFigures, ResourceFigures
from rota.store.reading import LISTED_DAYS, check_reachable, count_nodes, row_counts

router = APIRouter(tags=["health"])
internal = APIRouter(prefix="/internal", include_in_schema=False)

READY_SECONDS = 3.0


@router.get("/healthz")
@described(Health)
async def get_health() -> Response:
    """This process answers."""
    return answer(Health(status="ok"))


@router.get("/readyz")
@described(Readiness)
async def get_readiness(request: Request) -> Response:
    """This server node can admit tasks: it reaches the database."""
    found = services(request)
    try:
        async with asyncio.timeout(READY_SECONDS), found.database.engine() as connection:
            await check_reachable(connection)
    except (Problem, TimeoutError) as error:
        raise unavailable("the database can't be reached") from error
    leads = sorted(leader.pool.name for leader in found.leadership.leaders.values() if leader.ready.is_set())
    return answer(Readiness(status="ready", leads=leads))


@router.get("/metrics")
@described(PLAIN_TEXT)
async def get_metrics(request: Request) -> Response:
    """Metrics for Prometheus, without names of tenants or tasks. They need no token, unless the operator says so.

    Every gauge is as of the request. One that can't be read, because the database is away or this server node does not
    lead the pool, is absent.
    """
    found = services(request)
    if found.settings.metrics_private:
        await authorise(request)
    cluster = await _cluster_figures(found)
    leading = [one for one in found.leadership.leaders.values() if one.ready.is_set() and one.pool.lease.valid()]
    figures = NodeFigures(found.admission.admitted, cluster, [_pool_figures(leader) for leader in leading])
    return Response(request.app.state.metrics.text(figures), media_type="text/plain; version=0.0.4")


async def _cluster_figures(found: Services) -> ClusterFigures:
    silent_seconds = found.settings.timings.silent_seconds
    try:
        async with asyncio.timeout(READY_SECONDS), found.database.engine() as connection:
            counts = await row_counts(connection)
            nodes = await count_nodes(connection, silent_seconds=silent_seconds, seen_within_days=LISTED_DAYS)
    except (Problem, TimeoutError):
        return ClusterFigures()
    return ClusterFigures(counts.get("queue"), counts.get("dead_letters"), nodes)


def _pool_figures(leader: PoolLeader) -> PoolFigures:
    pool, demand = leader.pool, leader.insight.load().demand
    counters = pool.counters
    return PoolFigures(
        pool=pool.name,
        epoch=pool.lease.epoch,
        nodes=len(pool.sessions),
        ready_in_memory=len(pool.core.state.ready),
        running=len(pool.attempts),
        started=counters.started,
        settled=counters.settled,
        superseded=counters.superseded,
        thawed=counters.thawed,
        frozen=frozen_by_node(pool).total(),
        unsettled=len(pool.unsettled.reports),
        missing_nodes=sum(one.nodes for one in demand.missing),
        late_tasks=demand.late,
        unplaceable_tasks=sum(one.tasks for one in demand.unplaceable),
        idle_nodes=len(demand.idle),
        resources=tuple(
            ResourceFigures(
                one.name,
                one.utilisation_ppm / 1e6,
                None if one.asked_of_total_ppm is None else one.asked_of_total_ppm / 1e6,
            )
            for one in demand.resources
        ),
    )


def from_a_server(request: Request) -> Services:
    found = services(request)
    given = request.headers.get("authorization", "").encode()
    if not hmac.compare_digest(given, f"Bearer {found.cluster.secret}".encode()):
        raise unauthorized()
    return found


@internal.post("/hint")
async def receive_hint(request: Request) -> Response:
    found = from_a_server(request)
    found.leadership.receive(await read_json(request, Hint, limit=4 * 1024 * 1024))
    return Response(status_code=204)


@internal.get("/loads")
async def read_loads(request: Request) -> Response:
    return answer(local_loads(from_a_server(request)))


@internal.get("/running/{tenant}")
async def read_running(request: Request, tenant: int) -> Response:
    return answer(local_running(from_a_server(request), tenant))
