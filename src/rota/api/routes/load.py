"""The load of a pool: for operators all of it, for others their own part.

Also the calls between server nodes, by which it comes from the pool's leader.
"""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import amounts_of, answer, filled
from rota.api.described import described, read_query
from rota.api.leaders import RecallAnswer, RecallOrder, ReloadAnswer, pool_load
from rota.api.requests import existing, read_body
from rota.api.routes.health import from_a_server
from rota.api.services import Services, authorise
from rota.decide import overview
from rota.decide.demand import Demand
from rota.decide.demand import ResourceLoad as ResourceDemand
from rota.dispatch.pool_questions import Insight, PoolLoad, Question
from rota.dispatch.recalls import recall_paused
from rota.model.accounts.permissions import Scope
from rota.model.answers.fields import only
from rota.model.answers.waiting import (
    DemandDocument,
    LaneLoad,
    MissingNodes,
    NodeLoad,
    PoolLoadDocument,
    Reservation,
    ResourceLoad,
    TenantLoad,
    UnplaceableTasks,
)
from rota.model.clock import from_us
from rota.model.errors import unavailable
from rota.model.node import Closed
from rota.model.tenant import Caller
from rota.store import reading

router = APIRouter(prefix="/v1/pools", tags=["pools"])
internal = APIRouter(prefix="/internal", include_in_schema=False)

MOST_TENANTS = 200
_LIMIT = 16 * 1024 * 1024


@router.get("/{name}/load")
@described(PoolLoadDocument)
async def get_pool_load(request: Request, name: str) -> Response:
    """Utilisation, peak state and the caller's share; for operators also lanes, tenants, nodes and missing nodes."""
    services, caller = await authorise(request)
    read_query(request)
    pool = existing(services.membership.pools.get(name), "pool")
    load = await pool_load(services, pool.id)
    if load is None:
        raise unavailable(f"the leader of pool {name} can't be asked right now; try again")
    everything = caller.may(Scope.METRICS_READ)
    async with services.database.engine() as connection:
        lanes = await reading.lane_names(connection)
        shown = [one.tenant for one in load.overview.tenants[:MOST_TENANTS]] if everything else []
        tenants = await reading.tenant_names(connection, shown)
        kept = [reservation.node for reservation in load.overview.reservations]
        nodes = await reading.node_names(connection, [*(one.node for one in load.overview.nodes), *kept])
        away = [one.node for one in load.overview.nodes if not one.here]
        silent_seconds = services.settings.timings.silent_seconds
        states = await reading.node_states(connection, away, silent_seconds=silent_seconds)
    return answer(
        load_of(load, caller, lanes=lanes, tenants=tenants, nodes=nodes, states=states, everything=everything)
    )


def load_of(
    load: PoolLoad,
    caller: Caller,
    *,
    lanes: dict[int, str],
    tenants: dict[int, str],
    nodes: dict[int, str],
    states: dict[int, str],
    everything: bool,
) -> PoolLoadDocument:
    over, demand = load.overview, load.demand
    own = next((one for one in over.tenants if one.tenant == caller.tenant_id), None)
    no_load = overview.TenantLoad(caller.tenant_id, caller.plan.weight, 0, 0, 0, 0, 0, 0)
    document = only(
        PoolLoadDocument,
        pool=load.pool,
        leader=load.leader,
        epoch=load.epoch,
        at=from_us(load.now_us),
        utilisation=over.utilisation_ppm / 1e6,
        paused=over.paused,
        peak=over.peak,
        peak_mark=over.peak_ppm / 1e6,
        resources=[_resource(one, everything=everything) for one in demand.resources],
        own=_tenant(own or no_load, caller.tenant),
    )
    if not everything:
        return document
    return msgspec.structs.replace(
        document,
        ready=over.ready,
        running=over.running,
        lanes=[
            LaneLoad(
                lanes=[lanes.get(lane, str(lane)) for lane in level.lanes],
                gated=level.gated,
                ready=level.ready,
                running=level.running,
            )
            for level in over.ranks
        ],
        tenants=[_tenant(one, tenants.get(one.tenant, str(one.tenant))) for one in over.tenants[:MOST_TENANTS]],
        tenants_in_all=over.tenants_in_all,
        nodes=[_node(one, nodes, states) for one in over.nodes],
        nodes_in_all=over.nodes_in_all,
        reservations=[
            Reservation(
                task=kept.task,
                node=nodes.get(kept.node, str(kept.node)),
                at=from_us(kept.at_us),
                preempting=kept.preempting,
            )
            for kept in over.reservations
        ],
        demand=_demand(demand, nodes),
    )


def _resource(one: ResourceDemand, *, everything: bool) -> ResourceLoad:
    utilisation = one.utilisation_ppm / 1e6
    if not everything:
        return only(ResourceLoad, name=one.name, utilisation=utilisation)
    return filled(
        ResourceLoad,
        one,
        utilisation=utilisation,
        asked_of_free=None if one.asked_of_free_ppm is None else one.asked_of_free_ppm / 1e6,
        asked_of_total=None if one.asked_of_total_ppm is None else one.asked_of_total_ppm / 1e6,
    )


def _tenant(one: overview.TenantLoad, name: str) -> TenantLoad:
    return filled(
        TenantLoad,
        one,
        tenant=name,
        share=one.held_ppm / 1e6,
        charged_share=one.charged_ppm / 1e6,
        cpu=one.cpu_milli / 1000,
    )


def _node(one: overview.NodeLoad, names: dict[int, str], states: dict[int, str]) -> NodeLoad:
    """`states` are those of nodes that are not connected."""
    connected = "up" if one.open else str(one.closed_for or Closed.DRAINING)
    return NodeLoad(
        id=one.node,
        name=names.get(one.node, str(one.node)),
        state=connected if one.here else states.get(one.node, "lost"),
        capacity=amounts_of(one.capacity),
        free=amounts_of(one.free),
        running=one.held,
        prefetched=one.behind,
    )


def _demand(demand: Demand, names: dict[int, str]) -> DemandDocument:
    return filled(
        DemandDocument,
        demand,
        missing=[
            MissingNodes(nodes=one.nodes, capacity=amounts_of(one.capacity), tasks=one.tasks, require=one.require)
            for one in demand.missing
        ],
        idle=[names.get(node, str(node)) for node in demand.idle],
        unplaceable=[
            UnplaceableTasks(tasks=one.tasks, asks=amounts_of(one.asks), require=dict(one.require))
            for one in demand.unplaceable
        ],
    )


# ---- between server nodes -------------------------------------------------------------------------------------------


@internal.post("/pools/{pool}/load")
async def tell_load(request: Request, pool: int) -> Response:
    return answer(_insight(from_a_server(request), pool).load())


@internal.post("/pools/{pool}/waiting")
async def tell_why(request: Request, pool: int) -> Response:
    found = from_a_server(request)
    question = msgspec.json.decode(await read_body(request, limit=_LIMIT), type=Question)
    return answer(await _insight(found, pool).answer(question))


@internal.post("/pools/{pool}/nodes/{node}/reload")
async def reload(request: Request, pool: int, node: int) -> Response:
    leader = from_a_server(request).leadership.leader(pool)
    if leader is None:
        raise unavailable("this node does not lead the pool")
    return answer(ReloadAnswer(leader.reload(node)))


@internal.post("/pools/{pool}/recall")
async def recall(request: Request, pool: int) -> Response:
    """Of what is paused: what nodes have not begun comes back."""
    leader = from_a_server(request).leadership.leader(pool)
    if leader is None:
        raise unavailable("this node does not lead the pool")
    order = msgspec.json.decode(await read_body(request, limit=_LIMIT), type=RecallOrder)
    return answer(RecallAnswer(await recall_paused(leader.pool, tenant=order.tenant, node=order.node)))


def _insight(services: Services, pool: int) -> Insight:
    insight = services.leadership.insight(pool)
    if insight is None:
        raise unavailable("this node does not lead the pool")
    return insight
