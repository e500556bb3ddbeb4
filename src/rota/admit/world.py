"""What admission must know of the world, read again every few seconds: tiers, pools, nodes, and the database's clock.

Safety never rests on this node's wall clock: times are the monotonic clock plus an offset measured against PostgreSQL.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta

import msgspec
import structlog

from rota.admit.fields import PoolFacts, Tier, World
from rota.model.errors import Problem, unavailable
from rota.model.resources import Resources
from rota.model.tenant import Plan
from rota.store.database import Database
from rota.store.nodes import resources_of
from rota.store.tenants import read_tiers

log = structlog.get_logger()

REFRESH_SECONDS = 1.0


class WorldView:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._anchor: tuple[float, datetime] | None = None
        self._tiers: dict[str, Tier] = {}
        self._pools: dict[str, PoolFacts] = {}

    def now(self) -> datetime:
        """The database's time, without asking it."""
        if self._anchor is None:
            raise unavailable("this node has not reached the database yet")
        monotonic, instant = self._anchor
        return instant + timedelta(seconds=time.monotonic() - monotonic)

    def of(self, plan: Plan) -> World:
        return World(self.now(), plan, self._tiers, self._pools)

    async def refresh(self) -> None:
        async with self._database.engine() as connection:
            before = time.monotonic()
            now: datetime = await connection.fetchval("select clock_timestamp()")
            self._anchor = ((before + time.monotonic()) / 2, now)
            self._tiers = {
                row.name: Tier(row.name, row.cpu_milli, row.memory_bytes, row.disk_bytes)
                for row in await read_tiers(connection)
            }
            nodes: dict[int, list[tuple[Resources, dict[str, str]]]] = {}
            for row in await connection.fetch("select pool, capacity, labels from nodes where state = 'up'"):
                labels: dict[str, str] = msgspec.json.decode(row["labels"])
                nodes.setdefault(row["pool"], []).append((resources_of(row["capacity"]), labels))
            self._pools = {
                row["name"]: PoolFacts(row["id"], row["name"], row["elastic"], tuple(nodes.get(row["id"], ())))
                for row in await connection.fetch("select id, name, elastic from pools")
            }

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self.refresh()
            except Problem as error:
                log.warning("world.database_away", error=error.detail)
