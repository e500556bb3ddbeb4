"""The pool at one moment, for people: lanes, tenants, nodes and reservations. Pure reading."""

from __future__ import annotations

from collections import Counter

import msgspec

from rota.decide import node_resources
from rota.decide.node_resources import capacity_of, held_ppm
from rota.decide.ready import is_gated, rank_of
from rota.decide.state import CoreState
from rota.model.node import Closed
from rota.model.resources import Resources

MOST_TENANTS = 10_000
MOST_NODES = 1_000


class RankLoad(msgspec.Struct, frozen=True):
    """Lanes that are served together."""

    lanes: list[int]
    gated: bool
    ready: int  # in memory
    running: int


class TenantLoad(msgspec.Struct, frozen=True):
    tenant: int
    weight: int
    held_ppm: int  # of the pool, now
    charged_ppm: int  # of the recent charges of all tenants, by weight
    ready: int  # in memory
    running: int
    cpu_milli: int
    memory_bytes: int
    paused: bool = False


class NodeLoad(msgspec.Struct, frozen=True):
    node: int
    open: bool
    here: bool
    capacity: Resources
    free: Resources
    held: int
    behind: int
    closed_for: Closed | None = None  # None: it is open, or gone


class ReservationLoad(msgspec.Struct, frozen=True):
    task: int
    node: int
    at_us: int
    preempting: bool  # tasks were asked to give way


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    utilisation_ppm: int  # of the resource used most
    peak: bool
    peak_ppm: int
    ready: int
    running: int
    ranks: list[RankLoad]
    tenants: list[TenantLoad]  # with ready or running tasks; the largest share first
    tenants_in_all: int
    nodes: list[NodeLoad]
    nodes_in_all: int
    reservations: list[ReservationLoad]
    paused: bool = False  # no task starts


def overview(state: CoreState) -> Overview:
    active = [tenant for tenant in state.tenants.values() if tenant.ready or tenant.running]
    charged = sum(tenant.key for tenant in active)
    capacity = capacity_of(state)
    tenants = [
        TenantLoad(
            tenant=tenant.id,
            weight=tenant.weight,
            held_ppm=held_ppm(tenant, capacity),
            charged_ppm=tenant.key * 1_000_000 // charged if charged > 0 else 0,
            ready=tenant.ready,
            running=tenant.running,
            cpu_milli=tenant.cpu_milli,
            memory_bytes=tenant.memory_bytes,
            paused=tenant.paused,
        )
        for tenant in active
    ]
    tenants.sort(key=lambda load: (-load.held_ppm, -load.ready, load.tenant))
    nodes = list(state.nodes.values())
    return Overview(
        utilisation_ppm=node_resources.utilisation_ppm(state),
        peak=state.peak,
        peak_ppm=state.policy.peak_ppm,
        ready=len(state.ready),
        running=len(state.running),
        ranks=_ranks(state),
        tenants=tenants[:MOST_TENANTS],
        tenants_in_all=len(tenants),
        nodes=[
            NodeLoad(n.id, n.open, n.here, n.capacity, n.free_resources, len(n.held), len(n.behind), n.closed_for)
            for n in nodes[:MOST_NODES]
        ],
        nodes_in_all=len(nodes),
        reservations=[
            ReservationLoad(kept.task, kept.node, kept.at_us, kept.preempting)
            for _, kept in sorted(state.reservations.items())
        ],
        paused=state.policy.paused,
    )


def _ranks(state: CoreState) -> list[RankLoad]:
    lanes: dict[int, list[int]] = {}
    for lane in sorted(state.lanes):
        lanes.setdefault(rank_of(state, lane), []).append(lane)
    ready = Counter(rank_of(state, task.lane) for task in state.ready.values())
    running = Counter(attempt.rank for attempt in state.running.values())
    return [
        RankLoad(lanes.get(rank, []), is_gated(rank), ready[rank], running[rank])
        for rank in sorted({*lanes, *ready, *running})
    ]
