"""The cluster as its users see it: nodes, servers, and what the caller may and does use."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.rate_limit import allowance_of
from rota.api.documents import answer, instant, plan_document, resources_document
from rota.api.leaders import all_loads
from rota.api.requests import check_query
from rota.api.services import authorise
from rota.model.tenant import Scope
from rota.store import reading, tenants
from rota.store.nodes import read_servers, resources_of

router = APIRouter(prefix="/v1", tags=["cluster"])

MOST_COUNTED = 100_000


@router.get("/me")
async def read_me(request: Request) -> Response:
    """The caller, its plan, and what it uses of it. Counts stop at 100,000."""
    services, caller = await authorise(request, Scope.READ)
    check_query(request.query_params, set())
    async with services.database.engine() as connection:
        usage = await reading.read_usage(connection, caller.tenant_id, up_to=MOST_COUNTED)
        backlog = await tenants.rate_backlog(connection, caller.tenant_id)
    allowance = allowance_of(caller.plan)
    return answer(
        {
            "tenant": caller.tenant,
            "user": caller.user,
            "role": caller.role.value,
            "plan": plan_document(caller.plan),
            "usage": {
                "waiting": usage["waiting"],
                "running": usage["running"],
                "running_cpu": usage["cpu_milli"] / 1000,
                "running_memory_bytes": usage["memory_bytes"],
                "burst_left": None if allowance is None else allowance.room(backlog),
            },
        }
    )


@router.get("/nodes")
async def list_nodes(request: Request) -> Response:
    """Nodes with an agent. `free` and `running` come from the pool's leader; null while it can't be asked."""
    services, _ = await authorise(request, Scope.NODES)
    check_query(request.query_params, set())
    async with services.database.engine() as connection:
        rows = await reading.read_nodes(connection)
    loads = await all_loads(services)
    documents = []
    for row in rows:
        capacity = resources_of(row["capacity"])
        load = loads.get(row["id"])
        documents.append(
            {
                "id": row["id"],
                "name": row["name"],
                "pool": row["pool"],
                "state": row["state"],
                "capacity": resources_document(msgspec.structs.asdict(capacity)),
                "free": None if load is None else resources_document(msgspec.structs.asdict(load[0])),
                "running": None if load is None else load[1],
                "labels": msgspec.json.decode(row["labels"]),
                "capabilities": row["capabilities"],
                "seen_at": instant(row["seen_at"]),
                "version": row["version"],
            }
        )
    return answer({"nodes": documents})


@router.get("/servers")
async def list_servers(request: Request) -> Response:
    services, _ = await authorise(request, Scope.NODES)
    check_query(request.query_params, set())
    async with services.database.engine() as connection:
        servers = await read_servers(connection, seen_within_seconds=4 * services.settings.timings.heartbeat_seconds)
    documents = [
        {"name": s.name, "url": s.url, "version": s.version, "seen_at": instant(s.seen_at), "leads": s.leads}
        for s in servers
    ]
    return answer({"servers": documents})
