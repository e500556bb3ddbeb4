"""Dead letters: tasks that used up their attempts. Look, run again, or let go."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.documents import answer, instant
from rota.api.requests import check_query, limit_of, read_json
from rota.api.routes.tasks import rerun
from rota.api.services import Services, authorise
from rota.model.errors import Fault, Problem, invalid
from rota.model.task import Kind
from rota.model.tenant import Caller, Scope
from rota.store import editing, reading
from rota.store.reading import NEWEST

router = APIRouter(prefix="/v1/dead", tags=["dead letters"])

MOST_AT_ONCE = 1_000


class DeadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Some by id, or all."""

    ids: list[int] = []
    all: bool = False


@router.get("")
async def list_dead(request: Request) -> Response:
    services, caller = await authorise(request, Scope.READ)
    query = request.query_params
    check_query(query, {"limit", "cursor"})
    limit = limit_of(query)
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await reading.list_dead(
            connection,
            caller.tenant_id,
            before=services.cursors.read(query.get("cursor"), NEWEST),
            limit=limit + 1,
        )
    documents = [
        {"id": row["id"], "name": row["name"], "kind": Kind(row["kind"]).label, "state": "failed", "status": "failed",
         "reason": row["reason"], "died_at": instant(row["died_at"]), "created_at": instant(row["created_at"]),
         "user": row["user_name"], "pool": row["pool"], "attempts": row["attempts"]}
        for row in rows[:limit]
    ]  # fmt: skip
    following = services.cursors.make(rows[limit - 1]["id"]) if len(rows) > limit else None
    return answer({"tasks": documents, "next": following})


@router.post("/requeue")
async def requeue_dead(request: Request) -> Response:
    """One new linked run per dead letter. Up to 1,000 a call; with `all`, call again until nothing is requeued."""
    services, caller = await authorise(request, Scope.WRITE)
    ids = await _chosen(services, caller, await read_json(request, DeadRequest, limit=1024 * 1024))
    requeued, refused = [], []
    for number in ids:
        try:
            requeued.append({"id": number, "as": await rerun(services, caller, number)})
        except Problem as problem:
            if problem.status == 503:
                raise
            refused.append({"id": number, "reason": problem.detail})
    return answer({"requeued": requeued, "refused": refused})


@router.post("/discard")
async def discard_dead(request: Request) -> Response:
    services, caller = await authorise(request, Scope.WRITE)
    wanted = await read_json(request, DeadRequest, limit=1024 * 1024)
    _check(wanted)
    async with services.database.engine() as connection:
        discarded = await editing.discard_dead(connection, None if wanted.all else wanted.ids, caller.tenant_id)
    return answer({"discarded": discarded})


async def _chosen(services: Services, caller: Caller, wanted: DeadRequest) -> list[int]:
    _check(wanted)
    if not wanted.all:
        return sorted(set(wanted.ids))
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await reading.list_dead(connection, caller.tenant_id, before=NEWEST, limit=MOST_AT_ONCE)
    return sorted(row["id"] for row in rows)


def _check(wanted: DeadRequest) -> None:
    if wanted.all == bool(wanted.ids) or len(wanted.ids) > MOST_AT_ONCE:
        raise invalid([Fault("/ids", "out-of-range", f"give 1 to {MOST_AT_ONCE} ids, or all=true")])
    if any(not 0 < number < 2**63 for number in wanted.ids):
        raise invalid([Fault("/ids", "out-of-range", "an id is a positive number")])
