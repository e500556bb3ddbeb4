"""The cluster for its users: nodes, server nodes, its database, and the caller with its plan."""

from __future__ import annotations

import os

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.body import decode
from rota.admit.limits import allowance_of, backlog_seconds
from rota.api.answers import answer, filled, plan_of
from rota.api.audited import audit
from rota.api.described import TRUTH, Parameter, described, read_query
from rota.api.leaders import RecallOrder, all_loads, take_back, tell_to_reload
from rota.api.node_answers import node_of
from rota.api.requests import SMALL_BODY, check_pool, digits, read_body, truth_of
from rota.api.services import Services, authorise, tell_of_rules
from rota.model.answers.cluster import (
    DatabaseCheck,
    DrainedNode,
    Me,
    NodeDocument,
    NodeList,
    ServerDocument,
    ServerList,
    Usage,
)
from rota.model.errors import Fault, conflict, invalid, not_found, unavailable
from rota.model.tenant import Caller
from rota.model.units import milliseconds_of
from rota.node_identity import fingerprint
from rota.store import doctor, node_keys, nodes, reading
from rota.store.database_hosts import unverified_hosts

router = APIRouter(prefix="/v1", tags=["cluster"])

MOST_COUNTED = 100_000
LONGEST_DRAIN_MS = 30 * 86_400_000
LISTED_SERVER_SECONDS = 3600.0  # how long an absent server node is listed


class DrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How long running tasks may go on; without a deadline, until they end."""

    deadline: float | int | str | None = None


@router.get("/me")
@described(Me)
async def get_me(request: Request) -> Response:
    """The caller, its plan, and how much of it is used. Counts stop at 100,000."""
    services, caller = await authorise(request)
    read_query(request)
    allowance = allowance_of(caller.plan)
    async with services.database.engine() as connection:
        usage = await reading.read_usage(connection, caller.tenant_id, up_to=MOST_COUNTED)
        numbers = await reading.read_numbers(connection, caller.tenant_id)
        left = None
        if allowance is not None:
            left = allowance.allowed_now(await backlog_seconds(connection, caller.tenant_id, allowance))
    used = filled(
        Usage,
        numbers,
        waiting=usage["waiting"],
        running=usage["running"],
        running_cpu=usage["cpu_milli"] / 1000,
        running_memory_bytes=usage["memory_bytes"],
        burst_left=left,
    )
    plan = plan_of(caller.plan)
    return answer(Me(tenant=caller.tenant, user=caller.user, role=caller.role.value, plan=plan, usage=used))


@router.get("/nodes")
@described(NodeList, query=(Parameter("all", TRUTH, "Also nodes that have been away for more than a day."),))
async def list_nodes(request: Request) -> Response:
    """Nodes with an agent; nodes that have been away for more than a day only with `all=true`.

    `state` is `up`; `draining`, `full` (its disk) or `leaving`, when it takes no new tasks; `silent` after three missed
    heartbeats (15 s), `lost` after a minute of silence; or `left` after a regular end. `draining` is set by an operator
    and kept while the node is away. `free` and `running` come from the pool's leader; null while it is unreachable.
    """
    services, _ = await authorise(request)
    days = None if truth_of(read_query(request), "all") else reading.LISTED_DAYS
    async with services.database.engine() as connection:
        rows = await reading.read_nodes(
            connection, silent_seconds=services.settings.timings.silent_seconds, seen_within_days=days
        )
    loads = await all_loads(services)
    return answer(NodeList(nodes=[node_of(row, loads.get(row["id"])) for row in rows]))


@router.get("/nodes/{node}")
@described(NodeDocument)
async def get_node(request: Request, node: str) -> Response:
    """One node, by its id or name."""
    services, _ = await authorise(request)
    read_query(request)
    row = await _node(services, node)
    loads = await all_loads(services)
    return answer(node_of(row, loads.get(row["id"])))


@router.post("/nodes/{node}/drain")
@described(DrainedNode, body=DrainRequest)
async def drain_node(request: Request, node: str) -> Response:
    """The node takes no new tasks, also after a restart. Waiting attempts are given back; running tasks may finish.

    Tasks that still run at the `deadline` are asked to save and stop, and run elsewhere; that uses up no attempt.
    `may_still_start` is 0 unless the node did not confirm within a second that it gave back what it had not begun.
    """
    return await _set_draining(request, node, draining=True)


@router.post("/nodes/{node}/undrain")
@described(NodeDocument)
async def undrain_node(request: Request, node: str) -> Response:
    """The node takes tasks again."""
    return await _set_draining(request, node, draining=False)


@router.post("/nodes/{node}/reload")
@described(NodeDocument)
async def reload_node(request: Request, node: str) -> Response:
    """After a deployment: warm processes of the node finish their calls, and new ones load the new code."""
    services, caller = await authorise(request)
    found = await _changeable(services, caller, node)
    pool = services.membership.pools.get(found["pool"])
    answered = None if pool is None else await tell_to_reload(services, pool.id, found["id"])
    if answered is None:
        raise unavailable(f"the leader of pool {found['pool']} can't be asked right now; try again")
    if answered.told is None:
        raise conflict("node-away", f"node {found['name']} is not connected; its processes can't be told")
    if not answered.told:
        raise conflict("agent-too-old", f"the agent of node {found['name']} does not know how to reload; restart it")
    async with services.database.engine() as connection:
        await audit(connection, caller, "node.reload", f"{found['pool']}/{found['name']}")
    loads = await all_loads(services)
    return answer(node_of(found, loads.get(found["id"])))


@router.delete("/nodes/{node}", status_code=204)
@described(None)
async def remove_node(request: Request, node: str) -> Response:
    """Forgets a node that has left or is lost, its drain and its key. A worker with its name then joins anew."""
    services, caller = await authorise(request)
    found = await _changeable(services, caller, node)
    async with services.database.engine() as connection, connection.transaction():
        if not await nodes.remove_node(connection, found["id"]):
            why = f"node {found['name']} is {found['state']}: stop its worker first; one that died counts for a minute"
            raise conflict("node-up", why)
        await node_keys.remove_key_of_node(connection, found["id"])
        await audit(connection, caller, "node.remove", f"{found['pool']}/{found['name']}")
    return Response(status_code=204)


@router.delete("/nodes/{node}/key", status_code=204)
@described(None)
async def forget_node_key(request: Request, node: str) -> Response:
    """Forgets the key that proves a node's identity: within two seconds its agent is refused and its connections end.

    Its tasks are given up after their grace. A machine joins under the name again with a join token.
    """
    services, caller = await authorise(request)
    read_query(request)
    number = digits(node, 9)
    async with services.database.engine() as connection, connection.transaction():
        found = await node_keys.read_node_keys(connection, number=number, name=node)
        if not found:
            raise not_found("node with a key")
        if len(found) > 1:
            pools = ", ".join(row.pool for row in found)
            raise conflict("ambiguous-name", f"several pools have a node {node}: {pools}; give its number")
        [row] = found
        check_pool(caller, row.pool)
        await node_keys.remove_node_key(connection, row.id)
        before = {"fingerprint": fingerprint(row.public_key)}
        await audit(connection, caller, "node.forget-key", f"{row.pool}/{row.name}", before=before)
    services.authenticator.forget()
    return Response(status_code=204)


async def _set_draining(request: Request, node: str, *, draining: bool) -> Response:
    services, caller = await authorise(request)
    found = await _changeable(services, caller, node)
    body = await read_body(request, limit=SMALL_BODY) if draining else b""
    deadline_seconds = _deadline_seconds(decode(body, DrainRequest)) if body else None
    async with services.database.engine() as connection, connection.transaction():
        await nodes.set_draining(connection, found["id"], draining=draining, deadline_seconds=deadline_seconds)
        action = "node.drain" if draining else "node.undrain"
        after = {"draining": draining, **({"deadline_seconds": deadline_seconds} if deadline_seconds else {})}
        before = {"draining": found["draining"]}
        await audit(connection, caller, action, f"{found['pool']}/{found['name']}", before=before, after=after)
    await tell_of_rules(services)
    left = 0
    pool = services.membership.pools.get(found["pool"])
    if draining and pool is not None:
        left = await take_back(services, [pool.id], RecallOrder(node=found["id"]))
    row = await _node(services, str(found["id"]))
    document = node_of(row, (await all_loads(services)).get(row["id"]))
    return answer(filled(DrainedNode, document, may_still_start=left) if draining else document)


def _deadline_seconds(body: DrainRequest) -> float | None:
    if body.deadline is None:
        return None
    try:
        milliseconds = milliseconds_of(body.deadline)
    except ValueError as error:
        raise invalid([Fault("/deadline", "invalid-duration", str(error))]) from None
    if not 0 <= milliseconds <= LONGEST_DRAIN_MS:
        why = f"deadline is a duration of at most 30d, such as 600, 90s or 10m, not {str(body.deadline)[:40]!r}"
        raise invalid([Fault("/deadline", "out-of-range", why)])
    return milliseconds / 1000


async def _changeable(services: Services, caller: Caller, text: str) -> asyncpg.Record:
    found = await _node(services, text)
    check_pool(caller, found["pool"])
    return found


async def _node(services: Services, text: str) -> asyncpg.Record:
    async with services.database.engine() as connection:
        rows = await reading.read_nodes(connection, silent_seconds=services.settings.timings.silent_seconds)
    found = [row for row in rows if str(row["id"]) == text] or [row for row in rows if row["name"] == text]
    if not found:
        raise not_found("node")
    if len(found) > 1:
        pools = ", ".join(f"{row['pool']} ({row['id']})" for row in found)
        raise conflict(
            "ambiguous-name", f"several pools have a node {text}: {pools}; give its number instead of its name"
        )
    return found[0]


@router.get("/servers")
@described(ServerList)
async def list_servers(request: Request) -> Response:
    """The server nodes, the pools that they lead, and for an hour those that ended.

    `state` is `up`; `silent` after three missed heartbeats (15 s), `lost` after a minute of silence; or `left` after a
    regular end. A server node that starts with the name and address of another one replaces it in the list.
    """
    services, _ = await authorise(request)
    read_query(request)
    silent_seconds = services.settings.timings.silent_seconds
    async with services.database.engine() as connection:
        servers = await nodes.read_servers(
            connection, silent_seconds=silent_seconds, seen_within_seconds=LISTED_SERVER_SECONDS
        )
    return answer(ServerList(servers=[filled(ServerDocument, row) for row in servers]))


@router.get("/database")
@described(DatabaseCheck)
async def check_database(request: Request) -> Response:
    """The versions of PostgreSQL and the schema, and the watchdog query: live tasks that nothing would ever move again.

    `stuck` has their ids, at most 1,000; there must be none. The query reads all live tasks.
    """
    services, _ = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        examined = await doctor.examine(connection)
    hosts = list(unverified_hosts(services.settings.database, os.environ))
    return answer(filled(DatabaseCheck, examined, unverified_hosts=hosts))
