"""The registry: nodes with agents, server nodes, and who leads which pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from rota.model.node import Closed
from rota.model.resources import Resources
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def register_node(
    connection: AnyConnection,
    *,
    pool: int,
    name: str,
    boot: int,
    capacity: Resources,
    labels: dict[str, str],
    capabilities: list[str],
    version: str,
) -> tuple[int, bool]:
    """The node's number, and whether an operator has it draining."""
    row = await connection.fetchrow(
        sql("register_node"), pool, name, boot, msgspec.json.encode(msgspec.structs.asdict(capacity)).decode(),
        msgspec.json.encode(labels).decode(), capabilities, version,
    )  # fmt: skip
    assert row is not None
    return row["id"], row["state"] == "draining"


async def touch_nodes(connection: AnyConnection, nodes: Sequence[int]) -> None:
    await connection.execute(sql("touch_nodes"), nodes)


@dataclass(frozen=True, slots=True)
class NodeWord:
    """What a node's agent said last of whether it takes work."""

    node: int
    boot: int
    closed: Closed | None
    has_left: bool = False  # it said goodbye and is gone


async def save_words(connection: AnyConnection, words: Sequence[NodeWord]) -> None:
    await connection.execute(
        sql("save_words"), [word.node for word in words], [word.boot for word in words],
        [word.closed for word in words], [word.has_left for word in words],
    )  # fmt: skip


async def set_draining(
    connection: AnyConnection, node: int, *, draining: bool, deadline_seconds: float | None = None
) -> None:
    """An operator's word, kept until it is taken back: the agent's and the servers' restarts don't change it.

    The last word counts: draining again sets another deadline, or takes it away.
    """
    await connection.execute(
        """update nodes set state = case when $2 then 'draining' when state = 'draining' then 'up' else state end,
                drain_by = case when $2 then now() + make_interval(secs => $3) end
            where id = $1 and state <> 'removed'""",
        node, draining, deadline_seconds,
    )  # fmt: skip


async def remove_node(connection: AnyConnection, node: int) -> bool:
    """Forgets a node whose worker is away, and its drain; False: it is not away, or nobody knows it.

    The row stays for the attempts that ran there. A worker that comes back under the name is a node again.
    """
    found = await connection.fetchval(
        """update nodes set state = 'removed', drain_by = null
            where id = $1 and state <> 'removed' and (left_at >= seen_at or seen_at < now() - interval '1 minute')
            returning id""",
        node,
    )
    return found is not None


async def draining_nodes(connection: AnyConnection, pool: int) -> dict[int, bool]:
    """Nodes that an operator drains, and whether the deadline for what runs there is over."""
    rows = await connection.fetch(
        """select id, coalesce(drain_by <= now(), false) as overdue
            from nodes where pool = $1 and state = 'draining'""",
        pool,
    )
    return {row["id"]: row["overdue"] for row in rows}


async def node_of(connection: AnyConnection, number: int) -> tuple[Resources, dict[str, str]] | None:
    row = await connection.fetchrow("select capacity, labels from nodes where id = $1", number)
    if row is None:
        return None
    return resources_of(row["capacity"]), msgspec.json.decode(row["labels"])


def resources_of(text: str) -> Resources:
    return Resources(**msgspec.json.decode(text))


@dataclass(frozen=True, slots=True)
class Pool:
    id: int
    name: str
    elastic: bool


async def read_pools(connection: AnyConnection) -> list[Pool]:
    rows = await connection.fetch("select id, name, elastic from pools order by id")
    return [Pool(row["id"], row["name"], row["elastic"]) for row in rows]


async def register_server(connection: AnyConnection, *, holder: UUID, name: str, url: str, version: str) -> int:
    number = await connection.fetchval(
        """insert into servers (holder, name, url, version) values ($1, $2, $3, $4)
            on conflict (holder) do update set seen_at = now() returning id""",
        holder, name, url, version,
    )  # fmt: skip
    return int(number)


async def touch_server(connection: AnyConnection, holder: UUID) -> None:
    await connection.execute("update servers set seen_at = now() where holder = $1", holder)


async def leave_server(connection: AnyConnection, holder: UUID) -> None:
    await connection.execute("update servers set seen_at = '-infinity' where holder = $1", holder)


@dataclass(frozen=True, slots=True)
class Leadership:
    pool: int
    pool_name: str
    epoch: int
    holder: UUID
    url: str


async def read_leaders(connection: AnyConnection) -> list[Leadership]:
    """Who leads what, as far as the leases say. A lease that ran out is nobody's."""
    rows = await connection.fetch(
        """select leases.pool, pools.name, leases.epoch, leases.holder, servers.url
            from leases join pools on pools.id = leases.pool join servers on servers.holder = leases.holder
            where leases.expires_at > now()"""
    )
    return [Leadership(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    identity: str
    secret: str


async def read_cluster(connection: AnyConnection) -> ClusterIdentity:
    row = await connection.fetchrow("select identity::text, secret from cluster")
    assert row is not None, "the schema is there but has no identity"
    return ClusterIdentity(row["identity"], row["secret"])


@dataclass(frozen=True, slots=True)
class ServerRow:
    name: str
    url: str
    version: str
    seen_at: datetime
    leads: list[str]


async def read_servers(connection: AnyConnection, *, seen_within_seconds: float) -> list[ServerRow]:
    rows = await connection.fetch(
        """select servers.name, servers.url, servers.version, servers.seen_at,
                array(select pools.name from leases join pools on pools.id = leases.pool
                    where leases.holder = servers.holder and leases.expires_at > now() order by 1) as leads
            from servers where seen_at > now() - make_interval(secs => $1) order by servers.id""",
        seen_within_seconds,
    )
    return [ServerRow(*row) for row in rows]
