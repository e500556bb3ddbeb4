"""How long ended tasks, logs, events, deliveries and the audit log are kept. Administrators change it."""

from __future__ import annotations

from dataclasses import asdict, replace

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.api.answers import answer
from rota.api.audited import audit, differences
from rota.api.described import described, read_query
from rota.api.requests import given, read_json
from rota.api.services import authorise
from rota.model.answers.catalogue import RetentionDocument
from rota.model.catalogue import MOST_DAYS
from rota.model.errors import FaultList
from rota.store import retention

router = APIRouter(prefix="/v1/retention", tags=["retention"])


class RetentionChange(msgspec.Struct, forbid_unknown_fields=True):
    """Days after the end. Absent fields stay as they are; null: for ever."""

    tasks_days: int | UnsetType | None = UNSET
    logs_days: int | UnsetType | None = UNSET
    events_days: int | UnsetType | None = UNSET
    deliveries_days: int | UnsetType | None = UNSET
    audit_days: int | UnsetType | None = UNSET


@router.get("")
@described(RetentionDocument)
async def get_retention(request: Request) -> Response:
    """How many days ended tasks, logs, events, deliveries and rows of the audit log are kept."""
    services, _ = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(RetentionDocument(**asdict(await retention.read_retention(connection))))


@router.patch("")
@described(RetentionDocument, body=RetentionChange)
async def change_retention(request: Request) -> Response:
    """Changes how many days they are kept. Of the audit log whole months are dropped, once all of one is older."""
    services, caller = await authorise(request)
    change = await read_json(request, RetentionChange)
    changed = given(change)
    faults = FaultList()
    for name, days in changed.items():
        if days is not None and not 1 <= days <= MOST_DAYS:
            faults.add(
                name,
                "out-of-range",
                f"it is a number of days from 1 to {MOST_DAYS:,}, or null to keep for ever, not {days}",
            )
    faults.check()
    async with services.database.engine() as connection, connection.transaction():
        before = await retention.read_retention(connection)
        kept = replace(before, **changed)
        await retention.save_retention(connection, kept)
        await audit(connection, caller, "retention.change", ",".join(sorted(changed)), **differences(before, kept))
    return answer(RetentionDocument(**asdict(kept)))
