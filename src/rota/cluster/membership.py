"""Registers this server node, sends its heartbeats, and knows the leader of each pool."""

from __future__ import annotations

import asyncio
from uuid import UUID

import structlog

from rota.model.errors import Problem
from rota.settings import Settings
from rota.store import nodes
from rota.store.database import CONNECTION_LOST, Database
from rota.store.nodes import Leadership, Pool

log = structlog.get_logger()


class Membership:
    def __init__(self, database: Database, settings: Settings, holder: UUID, version: str) -> None:
        self._database = database
        self._settings = settings
        self._version = version
        self.holder = holder
        self.server_id = 0
        self.pools: dict[str, Pool] = {}
        self.leaders: dict[int, Leadership] = {}

    async def join(self) -> None:
        async with self._database.engine() as connection:
            self.server_id = await nodes.register_server(
                connection,
                holder=self.holder,
                name=self._settings.name,
                url=self._settings.advertised_url,
                version=self._version,
            )
        await self.refresh()

    async def leave(self) -> None:
        async with self._database.engine() as connection:
            await nodes.leave_server(connection, self.holder)

    async def refresh(self) -> None:
        """Reads pools and leaders. Raises Problem if the database is unreachable; the last values stay."""
        async with self._database.engine() as connection:
            pools = await nodes.read_pools(connection)
            leaders = await nodes.read_leaders(connection)
        self.pools = {pool.name: pool for pool in pools}
        self.leaders = {leader.pool: leader for leader in leaders}

    def led_here(self) -> set[str]:
        """Names of the pools that this node leads by their leases."""
        return {leader.pool_name for leader in self.leaders.values() if leader.holder == self.holder}

    async def run(self) -> None:
        timings = self._settings.timings
        since_heartbeat = 0.0
        while True:
            await asyncio.sleep(timings.poll_seconds)
            since_heartbeat += timings.poll_seconds
            try:
                if since_heartbeat >= timings.heartbeat_seconds:
                    since_heartbeat = 0.0
                    async with self._database.engine() as connection:
                        await nodes.touch_server(connection, self.holder)
                await self.refresh()
            except (Problem, *CONNECTION_LOST) as error:
                log.warning("membership.database_away", error=repr(error))
