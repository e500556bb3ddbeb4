"""A leader's memory without its loops: the state of one pool over real rows, to be driven step by step."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

from rota.attempt_key import AttemptKeys
from rota.cluster.leases import Lease
from rota.decide.core import Core
from rota.decide.messages import AttemptAdopted, NodeJoined
from rota.dispatch import settling
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.loader import Loader
from rota.dispatch.pool import Authorised, PoolState
from rota.model.queue import AuthorisedAttempt
from rota.model.resources import Resources
from rota.model.task import State
from rota.settings import Settings, Timings
from rota.store.queue import Fence
from tests.store.rows import BOOT, Rows


@dataclass
class Leading:
    rows: Rows
    pool: PoolState
    connection: FencedConnection
    ended: list[tuple[int, State]] = field(default_factory=list)

    @staticmethod
    async def begin(rows: Rows, *, ready_limit: int = 8000) -> Leading:
        fence: Fence = await rows.lead()
        core = Core()
        ended: list[tuple[int, State]] = []
        pool = PoolState(
            id=1,
            name="default",
            lease=Lease(1, fence.epoch, fence.holder, trusted_until=math.inf),
            settings=Settings(database=rows.database.url, timings=Timings().scaled(0.2)),
            core=core,
            loader=Loader(core, 1, ready_limit=ready_limit),
            database_identity="test",
            attempt_keys=AttemptKeys("test"),
            on_ended=ended.extend,
            on_other_pools=lambda _: None,
            rules=fence.rules,
        )
        leading = Leading(rows, pool, FencedConnection(rows.database, fence), ended)
        pool.core.apply(NodeJoined(rows.node, Resources(cpu_milli=4000, memory_bytes=10**10), {}), 0)
        return leading

    async def close(self) -> None:
        await self.connection.close()

    async def running(self, *, boot: int = BOOT, **task: object) -> int:
        """A task this leader has authorised on its one node."""
        rows, pool = self.rows, self.pool
        number = await rows.task(**task)
        await pool.loader.learn_shapes(rows.connection, [rows.shape], 0)
        (started,) = await rows.start(pool.fence, number, boot=boot)
        held = AuthorisedAttempt(
            number, started.attempt, rows.tenant, rows.shape, rows.node, boot, 30_000, 7, None, 1, False
        )
        pool.core.apply(AttemptAdopted(held), 0)
        pool.attempts[number] = Authorised(number, started.attempt, rows.node, boot, 30_000, 0.0)
        return number

    async def settle_everything(self) -> None:
        """The settling loop's work, until nothing is left; a loop that would never end fails."""
        async with asyncio.timeout(10):
            while self.pool.unsettled.reports or self.pool.unsettled.dependents:
                await settling._settle_some(self.pool, self.connection)

    @property
    def free_cpu_milli(self) -> int:
        return self.pool.core.state.nodes[self.rows.node].free_resources.cpu_milli
