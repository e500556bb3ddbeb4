"""Concurrency keys: how many tasks run and wait with each, and cool-downs."""

from __future__ import annotations

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import LIMIT, described, read_query
from rota.api.requests import limit_of, read_json
from rota.api.services import authorise
from rota.model.answers.waiting import ConcurrencyKeyDocument, ConcurrencyKeyList, CooledKey
from rota.model.errors import FaultList, invalid
from rota.model.request.rules import amount_of, check_concurrency_key
from rota.model.units import milliseconds_of
from rota.store import concurrency_keys

router = APIRouter(prefix="/v1/concurrency-keys", tags=["concurrency keys"])

LONGEST_COOL_MS = 86_400_000
MOST_KEYS = 1_000


class CoolRequest(msgspec.Struct, forbid_unknown_fields=True):
    seconds: int | float | str  # or a duration: "60s", "5m"; 0 ends a cool-down


@router.get("")
@described(ConcurrencyKeyList, query=(LIMIT,))
async def list_concurrency_keys(request: Request) -> Response:
    """Concurrency keys with live tasks or a cool-down, by name."""
    services, caller = await authorise(request)
    most = limit_of(read_query(request), MOST_KEYS)
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await concurrency_keys.list_keys(connection, caller.tenant_id, limit=most)
    return answer(ConcurrencyKeyList(keys=[_key(row) for row in rows]))


@router.post("/{key:path}/cool")
@described(CooledKey, body=CoolRequest)
async def cool_concurrency_key(request: Request, key: str) -> Response:
    """Starts no task with the concurrency key for so long, in any pool. Running and starting tasks go on."""
    services, caller = await authorise(request)
    body = await read_json(request, CoolRequest)
    faults = FaultList()
    check_concurrency_key(key, "key", faults)
    span = amount_of("seconds", body.seconds, milliseconds_of, 0, LONGEST_COOL_MS, "from 0 to 1d", faults)
    if faults.faults or span is None:
        raise invalid(faults.faults)
    async with services.database.tenant(caller.tenant_id) as connection:
        until = await concurrency_keys.cool_key(connection, caller.tenant_id, key, span)
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "concurrency-key.cool", key, after={"seconds": span / 1000})
    services.leadership.poll_soon(pool.id for pool in services.membership.pools.values())
    return answer(CooledKey(key=key, cooled_until=until))


def _key(row: asyncpg.Record) -> ConcurrencyKeyDocument:
    everywhere = row["everywhere"]
    return filled(
        ConcurrencyKeyDocument,
        row,
        scope=None if everywhere is None else "global" if everywhere else "pool",
        running=row["held"],
        limit=row["most"],
    )
