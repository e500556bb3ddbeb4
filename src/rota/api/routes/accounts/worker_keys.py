"""Worker keys: operators make them, and machines become nodes with them. The text of a key is in one answer only."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.joining import make_join_token
from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import check_pool, digits, existing, read_json
from rota.api.routes.accounts import managing
from rota.api.services import authorise
from rota.model.answers.cluster import NewWorkerKey, WorkerKeyDocument, WorkerKeyList
from rota.model.errors import FaultList, conflict
from rota.model.node import pool_name_trouble
from rota.model.units import milliseconds_of
from rota.store import worker_keys

router = APIRouter(prefix="/v1/worker-keys", tags=["accounts"])

MOST_USES = 10_000
LONGEST_MS = 30 * 86_400_000


class WorkerKeyRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many nodes may join with it, and for how long."""

    pool: str = "default"
    uses: int = 1
    lasts: float | int | str = "1h"


@router.post("", status_code=201)
@described(NewWorkerKey, body=WorkerKeyRequest)
async def add_worker_key(request: Request) -> Response:
    """Makes a worker key: so many machines may join the pool with it, until it ends. Its text is in this answer only.

    In a browser it asks for a sign-in within the last 15 minutes.
    """
    services, caller = await authorise(request)
    managing.check_proved(caller)
    body = await read_json(request, WorkerKeyRequest)
    faults = FaultList()
    trouble = pool_name_trouble(body.pool)
    if trouble is not None:
        faults.add("pool", "unknown-pool", trouble)
    if not 1 <= body.uses <= MOST_USES:
        faults.add("uses", "out-of-range", f"uses is from 1 to {MOST_USES:,}, not {body.uses}")
    lasts = _life(body.lasts, faults)
    faults.check()
    check_pool(caller, body.pool)
    token = make_join_token()
    async with services.database.engine() as connection, connection.transaction():
        number = await worker_keys.add_worker_key(
            connection,
            public_id=token.public_id,
            secret_hash=token.secret_hash,
            pool=body.pool,
            uses=body.uses,
            lasts=lasts,
            by=caller.user,
        )
        if number is None:
            faults.add("pool", "unknown-pool", f"there is no pool {body.pool!r}")
        faults.check()
        [row] = await worker_keys.read_worker_keys(connection, None, number=number)
        said = {"pool": row.pool, "uses": row.uses, "expires_at": row.expires_at.isoformat()}
        await audit(connection, caller, "worker-key.add", row.id, after=said)
    return answer(filled(NewWorkerKey, row, token=token.text), 201)


def _life(given: float | int | str, faults: FaultList) -> timedelta:
    milliseconds = 0
    try:
        milliseconds = milliseconds_of(given)
    except ValueError as error:
        faults.add("lasts", "invalid-duration", str(error))
        return timedelta()
    if not 60_000 <= milliseconds <= LONGEST_MS:
        why = f"lasts is a duration from 1m to 30d, such as 1h, not {str(given)[:40]!r}"
        faults.add("lasts", "out-of-range", why)
    return timedelta(milliseconds=min(milliseconds, LONGEST_MS))


@router.get("")
@described(WorkerKeyList)
async def list_worker_keys(request: Request) -> Response:
    """Worker keys without their texts, the newest first; those that ended a month ago are gone."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        rows = await worker_keys.read_worker_keys(connection, caller.pools)
    return answer(WorkerKeyList(keys=[filled(WorkerKeyDocument, row) for row in rows]))


@router.delete("/{key}", status_code=204)
@described(None)
async def revoke_worker_key(request: Request, key: str) -> Response:
    """Revokes a worker key, by its number: nothing joins with it any more. Nodes that joined with it stay."""
    services, caller = await authorise(request)
    read_query(request)
    number = existing(digits(key, 9), "worker key")
    async with services.database.engine() as connection, connection.transaction():
        rows = await worker_keys.read_worker_keys(connection, caller.pools, number=number)
        row = existing(rows[0] if rows else None, "worker key")
        if not await worker_keys.revoke_worker_key(connection, row.id):
            raise conflict("already-revoked", f"worker key {row.id} is revoked already")
        await audit(connection, caller, "worker-key.revoke", row.id, before={"pool": row.pool, "state": row.state})
    return Response(status_code=204)
