"""Connections to PostgreSQL: a small pool for reads and edits, direct connections for the hot paths.

They must not go through a transaction pooler. Hot connections pin index plans, because plans made on fresh tables flip
(9,400/s against 37,700/s for the same statements). `CONNECTION_LOST` lists every error that may mean a lost connection;
a commit that raises one is in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from rota import keepalive
from rota.keepalive import Keepalive
from rota.model.errors import unavailable

CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.QueryCanceledError,
    # A password that was changed, or a standby that does not know this server yet: mended without a restart.
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    OSError,
    TimeoutError,
    EOFError,
)

Connection = asyncpg.Connection
PoolConnection = asyncpg.pool.PoolConnectionProxy
AnyConnection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy

CONNECT_SECONDS = 3.0
STATEMENT_SECONDS = 10.0

# The backend of a node that vanishes inside a transaction (no power, no network) would hold its locks for hours.
# No transaction of ours is ever idle for long.
FORGOTTEN = {"idle_in_transaction_session_timeout": "5000"}
READ_SECONDS = 4.0  # so that clients get "try again" within five seconds

# Index plans regardless of statistics: hot statements run on tables that are empty one minute and huge the next.
PINNED_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
}


class Database:
    """The connections of one process. `open` before use, `close` at the end."""

    def __init__(self, url: str, *, connections: int = 10, keepalive: Keepalive = keepalive.DEFAULT) -> None:
        self.url = url
        self.keepalive = keepalive
        self._size = connections
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        await self._ready_pool()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(3):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def direct(self, name: str, *, pinned: bool = False, **extra: str) -> Connection:
        """A connection for one owner. `pinned`: forces index plans."""
        settings = {
            "application_name": f"rota {name}",
            "jit": "off",
            **FORGOTTEN,
            **(PINNED_PLANS if pinned else {}),
            **extra,
        }
        return await connect(self.url, settings, keepalive=self.keepalive)

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[PoolConnection]:
        """A pooled connection with the engine's rights. A lost connection becomes a 503."""
        try:
            pool = await self._ready_pool()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection
        except CONNECTION_LOST as error:
            self._forget_if_moved(error)
            raise unavailable("the database can't be reached right now; try again") from error

    @asynccontextmanager
    async def tenant(self, tenant_id: int) -> AsyncIterator[PoolConnection]:
        """A transaction that row-level security confines to one tenant."""
        async with self.engine() as connection:
            async with connection.transaction():
                await connection.execute(
                    "select set_config('rota.tenant', $1, true), set_config('role', 'rota_tenant', true)",
                    str(tenant_id),
                )
                yield connection

    async def leave_tenant(self, connection: AnyConnection) -> None:
        """The rest of a transaction of `tenant` has the engine's rights: for its row of the audit log."""
        await connection.execute("select set_config('role', 'none', true)")

    async def _ready_pool(self) -> asyncpg.Pool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self.url,
                        min_size=0,  # else its own loop reconnects, and logs a traceback whenever the database is away
                        max_size=self._size,
                        timeout=CONNECT_SECONDS,
                        command_timeout=READ_SECONDS,
                        max_inactive_connection_lifetime=60,
                        init=self._keep_alive,
                        server_settings={
                            "application_name": "rota reads",
                            "jit": "off",
                            **FORGOTTEN,
                            **self.keepalive.session_settings(),
                        },
                    )
        return self._pool

    async def _keep_alive(self, connection: Connection) -> None:
        _keep_alive(connection, self.keepalive)

    def _forget_if_moved(self, error: BaseException) -> None:
        """A read-only error means that the primary moved, so all pooled connections lead to the wrong server."""
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError) and self._pool is not None:
            self._pool.terminate()
            self._pool = None


async def connect(
    url: str,
    server_settings: dict[str, str],
    *,
    keepalive: Keepalive = keepalive.DEFAULT,
    statement_seconds: float | None = STATEMENT_SECONDS,
) -> Connection:
    async with asyncio.timeout(CONNECT_SECONDS + 1):
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=statement_seconds,
            server_settings={**keepalive.session_settings(), **server_settings},
        )
    _keep_alive(connection, keepalive)
    return connection


def _keep_alive(connection: Connection, keepalive: Keepalive) -> None:
    keepalive.apply(connection._transport.get_extra_info("socket"))  # type: ignore[attr-defined]  # it has no option


async def close_quietly(connection: Connection | None) -> None:
    """Closes a connection that may be broken; drops the socket if the server does not answer."""
    if connection is None or connection.is_closed():
        return
    try:
        async with asyncio.timeout(1):
            await connection.close()
    except CONNECTION_LOST:
        connection.terminate()
