"""The registry of nodes, server nodes and the leaders of pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from rota.model.node import Closed
from rota.model.resources import Resources
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql


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
    """The node's number, and whether an operator drains it."""
    row = await connection.fetchrow(
        sql("nodes/register_node"),
        pool,
        name,
        boot,
        msgspec.json.encode(msgspec.structs.asdict(capacity)).decode(),
        msgspec.json.encode(labels).decode(),
        capabilities,
        version,
    )
    assert row is not None
    return row["id"], row["state"] == "draining"


async def touch_nodes(connection: AnyConnection, seconds_ago: Mapping[int, float]) -> None:
    """Records how long ago each connected node was last heard."""
    await connection.execute(sql("nodes/touch_nodes"), list(seconds_ago), list(seconds_ago.values()))


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The last report of a node's agent whether it takes work."""

    node: int
    boot: int
    closed: Closed | None
    has_left: bool = False  # its worker ended in an orderly way


async def save_reports(connection: AnyConnection, reports: Sequence[NodeReport]) -> None:
    await connection.execute(sql("nodes/save_reports"), *columns(reports, "node", "boot", "closed", "has_left"))


async def set_draining(
    connection: AnyConnection, node: int, *, draining: bool, deadline_seconds: float | None = None
) -> None:
    """Begins or ends a drain, which survives restarts of agent and servers.

    The last call counts: a repeated drain sets another deadline, or removes it.
    """
    await connection.execute(sql("nodes/set_draining"), node, draining, deadline_seconds)


async def remove_node(connection: AnyConnection, node: int) -> bool:
    """Removes a node whose worker is away, and its drain. False: the worker is not away, or there is no such node.

    The row stays for the attempts that ran there. A worker with the same name makes it a node again.
    """
    found = await connection.fetchval(sql("nodes/remove_node"), node)
    return found is not None


async def draining_nodes(connection: AnyConnection, pool: int) -> dict[int, bool]:
    """Drained nodes → whether the deadline for their running tasks has passed."""
    rows = await connection.fetch(sql("nodes/draining_nodes"), pool)
    return {row["id"]: row["overdue"] for row in rows}


async def find_node(connection: AnyConnection, pool: int, name: str) -> int | None:
    number: int | None = await connection.fetchval(sql("nodes/find_node"), pool, name)
    return number


async def read_capacities(connection: AnyConnection) -> dict[int, list[tuple[Resources, dict[str, str]]]]:
    """Resources and labels of the nodes that may run tasks, by pool."""
    capacities: dict[int, list[tuple[Resources, dict[str, str]]]] = {}
    for row in await connection.fetch(sql("nodes/read_capacities")):
        node = (resources_of(row["capacity"]), msgspec.json.decode(row["labels"]))
        capacities.setdefault(row["pool"], []).append(node)
    return capacities


async def node_of(connection: AnyConnection, number: int) -> tuple[Resources, dict[str, str]] | None:
    row = await connection.fetchrow(sql("nodes/node_of"), number)
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
    rows = await connection.fetch(sql("nodes/read_pools"))
    return [Pool(row["id"], row["name"], row["elastic"]) for row in rows]


async def register_server(connection: AnyConnection, *, holder: UUID, name: str, url: str, version: str) -> int:
    number = await connection.fetchval(sql("nodes/register_server"), holder, name, url, version)
    return int(number)


async def touch_server(connection: AnyConnection, holder: UUID) -> None:
    await connection.execute(sql("nodes/touch_server"), holder)


async def leave_server(connection: AnyConnection, holder: UUID) -> None:
    await connection.execute(sql("nodes/leave_server"), holder)


@dataclass(frozen=True, slots=True)
class Leadership:
    pool: int
    pool_name: str
    epoch: int
    holder: UUID
    url: str


async def read_leaders(connection: AnyConnection) -> list[Leadership]:
    """The leaders of pools by their unexpired leases."""
    rows = await connection.fetch(sql("nodes/read_leaders"))
    return [Leadership(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    identity: str
    secret: str


async def read_cluster(connection: AnyConnection) -> ClusterIdentity:
    row = await connection.fetchrow(sql("nodes/read_cluster"))
    assert row is not None, "the schema is there but has no identity"
    return ClusterIdentity(row["identity"], row["secret"])


@dataclass(frozen=True, slots=True)
class ServerRow:
    name: str
    url: str
    version: str
    seen_at: datetime
    state: str
    leads: list[str]


async def read_servers(
    connection: AnyConnection, *, silent_seconds: float, seen_within_seconds: float
) -> list[ServerRow]:
    """The server nodes with their states: left in order, silent after `silent_seconds`, or lost after a minute."""
    rows = await connection.fetch(sql("nodes/read_servers"), silent_seconds, seen_within_seconds)
    return [ServerRow(*row) for row in rows]
