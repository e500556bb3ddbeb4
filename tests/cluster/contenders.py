"""Server nodes that want one pool: each with its own connections, its own batches, and its own idea of who leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg

from rota.store import leases
from rota.store.database import CONNECTION_LOST, Connection, connect

FENCE = "select 1 from leases where pool = $1 and epoch = $2 and holder = $3 for key share"


async def new_pool(connection: Connection) -> int:
    return int(
        await connection.fetchval(
            "insert into pools (name) values ('p' || substr(gen_random_uuid()::text, 1, 8)) returning id"
        )
    )


@dataclass
class Contender:
    url: str
    pool: int
    holder: UUID = field(default_factory=uuid4)
    epoch: int | None = None  # of the term it believes to be in
    _reads: Connection | None = None
    _batch: Connection | None = None  # with an open, fenced transaction

    async def acquire(self, *, seconds: float = 600, above: int = 0) -> int | None:
        epoch = await leases.acquire_lease(
            await self.connection(), self.pool, self.holder, seconds=seconds, above=above
        )
        self.epoch = epoch or self.epoch
        return epoch

    async def renew(self, *, seconds: float = 600) -> bool:
        assert self.epoch is not None
        return await leases.renew_lease(await self.connection(), self.pool, self.epoch, self.holder, seconds=seconds)

    async def release(self) -> None:
        assert self.epoch is not None
        await leases.release_lease(await self.connection(), self.pool, self.epoch, self.holder)

    # ---- batches, as a leader's fenced connections make them --------------------------------------------------------

    async def begin_batch(self, *, name: str | None = None) -> bool:
        """Opens a transaction and takes the fence; False when it is refused."""
        self._batch = await connect(self.url, {"application_name": name or f"rota fenced {self.holder}"})
        await self._batch.execute("begin")
        held = await self._batch.fetchval(FENCE, self.pool, self.epoch or 0, self.holder)
        if held is None:
            await self._batch.close()
            self._batch = None
        return held is not None

    async def commit_batch(self) -> bool:
        """Writes one row under the epoch and commits; False when the connection was ended meanwhile."""
        assert self._batch is not None
        batch, self._batch = self._batch, None
        try:
            await batch.execute(
                "insert into outbox (tenant, task, event, body) values ($1, $2, 'batch', 'null')", self.pool, self.epoch
            )
            await batch.execute("commit")
            await batch.close()
        except (*CONNECTION_LOST, asyncpg.PostgresError):
            batch.terminate()
            return False
        return True

    @property
    def in_batch(self) -> bool:
        return self._batch is not None

    async def connection(self) -> Connection:
        if self._reads is None or self._reads.is_closed():
            self._reads = await connect(self.url, {"application_name": "test contender"})
        return self._reads

    async def close(self) -> None:
        for connection in (self._reads, self._batch):
            if connection is not None:
                connection.terminate()


async def epochs_written(connection: Connection, pool: int) -> list[int]:
    """The epochs of committed batches, in the order of their commits."""
    rows = await connection.fetch("select task from outbox where tenant = $1 and event = 'batch' order by id", pool)
    return [row["task"] for row in rows]
