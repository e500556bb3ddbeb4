"""Questions to a pool's leader: why tasks wait, how full the pool is, which nodes are missing. Reading only.

The demand is computed at most once a second, however many ask: it costs as much as a few plans.
"""

from __future__ import annotations

import msgspec

from rota.decide.demand import Demand
from rota.decide.explain import Explanation, Probe
from rota.decide.overview import Overview
from rota.dispatch.frozen_attempts import explain_frozen
from rota.dispatch.pool import PoolState

FRESH_SECONDS = 1.0


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    pool: str
    leader: str  # the server node's name
    epoch: int
    now_us: int
    nodes: dict[int, str]  # names of connected nodes
    overview: Overview
    demand: Demand


class Insight:
    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._load: PoolLoad | None = None
        self._until = 0.0

    def explain(self, asked: list[int | Probe]) -> list[Explanation | None]:
        now_us, names = self._pool.now_us(), self._names()
        return [
            (explain_frozen(self._pool, task) if isinstance(task, int) else None)
            or self._pool.core.explain(task, now_us, names)
            for task in asked
        ]

    def load(self) -> PoolLoad:
        pool = self._pool
        if self._load is None or pool.clock() >= self._until:
            now_us = pool.now_us()
            self._load = PoolLoad(
                pool=pool.name,
                leader=pool.settings.name,
                epoch=pool.lease.epoch,
                now_us=now_us,
                nodes=self._names(),
                overview=pool.core.overview(),
                demand=pool.core.demand(now_us),
            )
            self._until = pool.clock() + FRESH_SECONDS
        return self._load

    def _names(self) -> dict[int, str]:
        return {session.node: session.name for session in self._pool.sessions.values()}
