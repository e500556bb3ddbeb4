"""The identities of nodes: which public key is bound to which name in which pool, and for which attempts that speaks.

How a node proves that it has the key is in `admit/joining.py`. A removed row takes all that was opened with it along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.model.node import Identity
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

REMEMBER_SECONDS = 2.0
MOST_REMEMBERED = 20_000

Attempt = tuple[int, int]  # task and number


@dataclass(frozen=True, slots=True)
class NodeKeyRow:
    id: int
    name: str
    pool: str
    public_key: bytes
    joined_at: datetime
    joined_with: int | None  # the number of the worker key; None: bound by `rota up`


async def clock_us(connection: AnyConnection) -> int:
    """The database's clock, in microseconds since 1970: all server nodes have the same."""
    return int(await connection.fetchval(sql("node_keys/clock_us")))


async def find_node_key(connection: AnyConnection, pool: str, name: str) -> NodeKeyRow | None:
    return _row(await connection.fetchrow(sql("node_keys/find_node_key"), pool, name))


async def find_public_key(connection: AnyConnection, public_key: bytes) -> NodeKeyRow | None:
    return _row(await connection.fetchrow(sql("node_keys/find_public_key"), public_key))


async def read_node_keys(connection: AnyConnection, *, number: int | None, name: str) -> list[NodeKeyRow]:
    """Of the node with this number, or of those with this name, one in each pool."""
    return [NodeKeyRow(*row) for row in await connection.fetch(sql("node_keys/read_node_keys"), number, name)]


def _row(row: asyncpg.Record | None) -> NodeKeyRow | None:
    return None if row is None else NodeKeyRow(*row)


async def add_node_key(
    connection: AnyConnection,
    *,
    pool: str,
    name: str,
    public_key: bytes,
    joined_with: int | None,
    address: str | None,
) -> bool:
    """False: the name or the key is taken, or there is no such pool."""
    added = await connection.fetchval(sql("node_keys/add_node_key"), pool, name, public_key, joined_with, address)
    return added is not None


async def remove_node_key(connection: AnyConnection, identity: int) -> bool:
    return await connection.fetchval(sql("node_keys/remove_node_key"), identity) is not None


async def remove_key_of_node(connection: AnyConnection, node: int) -> bool:
    """Of a row of `nodes`. False: it has none."""
    return await connection.fetchval(sql("node_keys/remove_key_of_node"), node) is not None


async def answer_challenge(connection: AnyConnection, identity: int, made_us: int) -> bool:
    """False: this challenge, or a later one, was answered before."""
    return await connection.fetchval(sql("node_keys/answer_challenge"), identity, made_us) is not None


async def is_connected(connection: AnyConnection, pool: str, name: str, *, silent_seconds: float) -> bool:
    return bool(await connection.fetchval(sql("node_keys/is_connected"), pool, name, silent_seconds))


async def find_identity(connection: AnyConnection, identity: int, *, boot: int, ends_us: int) -> Identity | None:
    """Of a node token that ends then. None: it has ended, or the key was removed."""
    row = await connection.fetchrow(sql("node_keys/find_identity"), identity, ends_us)
    return None if row is None else Identity(row["id"], row["pool_id"], row["pool"], row["name"], boot)


async def needs_identity(connection: AnyConnection, pool: int, name: str) -> str | None:
    """Whose rule it is that a worker's token does not speak for the node: `pool` or `node`. None: it does."""
    by_pool = await connection.fetchval(sql("node_keys/needs_identity"), pool, name)
    return None if by_pool is None else "pool" if by_pool else "node"


async def ended_identities(connection: AnyConnection, identities: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(sql("node_keys/ended_identities"), identities)]


async def now_identified(connection: AnyConnection, names: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those of the names, each in a pool, for which no worker's token speaks any more."""
    rows = await connection.fetch(sql("node_keys/now_identified"), *columns(names, 0, 1))
    return [(row["pool"], row["name"]) for row in rows]


class OwnAttempts:
    """The attempts for which the sender of one connection speaks. `identity` None: it has a worker's token.

    An attempt never moves, so an answer is remembered: the database is asked once for each attempt, and again after
    `REMEMBER_SECONDS`, because a node's key or a pool's rule may have changed.
    """

    def __init__(self, identity: Identity | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._identity = identity
        self._clock = clock
        self._own: set[Attempt] = set()
        self._until = 0.0

    async def foreign(self, connection: AnyConnection, attempts: set[Attempt]) -> set[Attempt]:
        """Those for which it does not."""
        if self._clock() >= self._until or len(self._own) > MOST_REMEMBERED:
            self._own.clear()
            self._until = self._clock() + REMEMBER_SECONDS
        unknown = attempts - self._own
        if not unknown:
            return set()
        own = await _own_attempts(connection, self._identity, unknown)
        self._own |= own
        return unknown - own


async def _own_attempts(
    connection: AnyConnection, identity: Identity | None, attempts: Collection[Attempt]
) -> set[Attempt]:
    given = sorted(attempts)
    if identity is None:
        rows = await connection.fetch(sql("node_keys/ran_on_identified_nodes"), *columns(given, 0, 1))
        return set(given) - {(row["task"], row["attempt"]) for row in rows}
    rows = await connection.fetch(sql("node_keys/ran_on_own_node"), *columns(given, 0, 1), identity.id, identity.boot)
    return {(row["task"], row["attempt"]) for row in rows}


async def ran_on(connection: AnyConnection, attempts: Collection[tuple[int, int, int]]) -> set[Attempt]:
    """Those of the attempts, each with a node, that run or ran on that node."""
    rows = await connection.fetch(sql("node_keys/ran_on_nodes"), *columns(attempts, 0, 1, 2))
    return {(row["task"], row["attempt"]) for row in rows}
