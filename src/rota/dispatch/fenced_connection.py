"""A fenced connection: one of a leader's two, replaced when it is lost.

A statement whose reply was lost may still run in its old backend. That backend is terminated before the new connection
is used: only then does "the row is not there" mean "it never will be".
"""

from __future__ import annotations

import asyncio

import structlog

from rota.store.database import CONNECTION_LOST, Connection, Database, close_quietly
from rota.store.leases import end_backend
from rota.store.queue import Fence

log = structlog.get_logger()


class FencedConnection:
    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence
        self._connection: Connection | None = None
        self._doubtful: int | None = None  # a backend that may still run a statement of this leader

    async def get(self) -> Connection:
        """A working connection. Raises one of CONNECTION_LOST when the database can't be reached."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        connection = await self._database.direct(
            f"fenced {self._fence.holder}",
            pinned=True,
            idle_in_transaction_session_timeout="2000",
            statement_timeout="10000",
            tcp_user_timeout="5000",
        )
        try:
            if self._doubtful is not None:
                await _end_backend(connection, self._doubtful)
                self._doubtful = None
        except CONNECTION_LOST:
            connection.terminate()
            raise
        self._connection = connection
        return connection

    def lost(self) -> None:
        """The last statement is in doubt; the next `get` makes sure that it has ended."""
        if self._connection is not None:
            if self._doubtful is None:
                self._doubtful = self._connection.get_server_pid()
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        await close_quietly(self._connection)


async def _end_backend(connection: Connection, pid: int) -> None:
    for _ in range(100):
        if not await end_backend(connection, pid):
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"backend {pid} does not end")
