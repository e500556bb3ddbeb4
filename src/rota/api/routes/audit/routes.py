"""The audit log: list it, read one row, verify it, export it. Nothing here changes it.

Who has the scope everywhere sees all rows, or those of a tenant that they name. Others see the rows of their tenant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, get_args

from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams
from starlette.responses import StreamingResponse

from rota.api.answers import answer, filled, raw_json
from rota.api.audited import entry_of
from rota.api.described import PAGE, PLAIN_TEXT, TEXT, WHEN, Media, Parameter, described, one_of, read_query, whole
from rota.api.requests import existing, limit_of, task_id, text_of, when_of, whole_number
from rota.api.routes.audit import export
from rota.api.services import Services, authorise
from rota.model.accounts.permissions import Scope
from rota.model.answers.audit import AuditEntry, AuditEntryPage, AuditFinding, AuditVerification
from rota.model.audit import Outcome
from rota.model.errors import Fault, FaultList, Problem, invalid, not_found
from rota.model.tenant import Caller
from rota.store import audit as audit_log
from rota.store.accounts import find_tenant
from rota.store.audit import LONG_AGO, AuditFilter
from rota.store.audit_seals import first_of_day, newest_seal
from rota.store.audit_sums import head_of
from rota.store.audit_verification import has_head, verify_part

router = APIRouter(prefix="/v1/audit", tags=["audit"])

LONGEST_TEXT = 200
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_HEAD = re.compile(r"^\d{1,18}:[0-9a-f]{64}\Z", re.ASCII)
_LARGEST = 2**63 - 1

_FILTERS = (
    Parameter("since", WHEN, "Since then: a duration before now, or a time with its offset."),
    Parameter("until", WHEN, "Before then: a duration before now, or a time with its offset."),
    Parameter("actor", TEXT, "By this user, service account, node or task."),
    Parameter("action", TEXT, "Actions that begin so: task.cancel, or token."),
    Parameter("object", TEXT, "About this object: KIND:ID, as task:12; or all of a KIND."),
    Parameter("outcome", one_of(*OUTCOMES), "With this outcome."),
    Parameter("credential", TEXT, "By this credential: token ci-7, session 12."),
    Parameter("address", TEXT, "From this address or network."),
    Parameter("tenant", TEXT, "Of this tenant; for those who may read the log everywhere."),
)


@router.get("")
@described(AuditEntryPage, query=(*_FILTERS, *PAGE))
async def list_audit(request: Request) -> Response:
    """Rows of the audit log, newest first. A page may be short, or empty, and still have a `next`."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    wanted = await _wanted(request, services, caller, query)
    number = services.cursors.read(query.get("cursor"), 0)
    async with services.database.engine() as connection:
        before = None if not number else await audit_log.place_of(connection, number, wanted.tenant)
        if number and before is None:
            raise _gone("cursor")
        page = await audit_log.list_newest(connection, wanted, before=before, limit=limit)
        seal = await newest_seal(connection)
    head = None if seal is None else head_of(seal)
    return answer(AuditEntryPage(entries=_entries(page.rows), next=services.cursors.make(page.next), head=head))


@router.get("/verify")
@described(
    AuditVerification,
    query=(
        Parameter("since", WHEN, "Only the days since then."),
        Parameter("after", whole(1, 10**18), "Go on after this seal: the `next` of the answer before."),
        Parameter("head", TEXT, "NUMBER:HASH that was written down: the chain must still have this seal."),
    ),
)
async def verify_audit(request: Request) -> Response:
    """Compares a part of the log with its seals: changed, missing and added rows, and breaks of the chain.

    Without `since` and `after`, from the beginning. Repeat with `after`, the `next` of the answer, until it is null.
    """
    services, _ = await authorise(request)
    query = read_query(request)
    after = whole_number(query, "after", default=0, least=1, most=10**18) or None
    since, head = when_of(query, "since"), query.get("head")
    if head is not None and not _HEAD.match(head):
        why = f"head is the number of a seal, a colon and 64 hexadecimal digits, not {head[:80]!r}"
        raise invalid([Fault("/head", "invalid-filter", why)])
    async with services.database.engine() as connection:
        if after is None and since is not None:
            first = await first_of_day(connection, since.astimezone(UTC).date())
            seal = None if first is not None else await newest_seal(connection)
            after = first - 1 if first is not None else seal.number if seal is not None else None
        part = await verify_part(connection, after=after or None)
        known = head is None or await has_head(connection, head)
    findings = [
        AuditFinding(what=one.what, detail=one.detail, seal=one.seal, rows=list(one.rows)) for one in part.findings
    ]
    if not known:
        why = "the chain does not have the head that was written down: rows were removed, or it was written anew"
        findings.append(AuditFinding(what="head-unknown", detail=why))
    return answer(filled(AuditVerification, part, findings=findings))


@router.get("/export")
@described(
    (Media("application/x-ndjson", of=AuditEntry), PLAIN_TEXT),
    query=(
        *_FILTERS,
        Parameter("format", one_of(*export.FORMATS), "JSON lines by default; or CSV, with a heading."),
        Parameter("after", whole(1, _LARGEST), "Go on after the row with this id, without a heading."),
    ),
)
async def export_audit(request: Request) -> Response:
    """Rows of the audit log, oldest first, until now."""
    services, caller = await authorise(request)
    query = read_query(request)
    format = query.get("format", export.JSON_LINES)
    if format not in export.FORMATS:
        detail = f"format is {' or '.join(export.FORMATS)}, not {format[:40]!r}"
        raise invalid([Fault("/format", "invalid-filter", detail)])
    wanted = await _wanted(request, services, caller, query)
    number = whole_number(query, "after", default=0, least=1, most=_LARGEST)
    async with services.database.engine() as connection:
        begin = (wanted.since or LONG_AGO, 0)
        place = await audit_log.place_of(connection, number, wanted.tenant) if number else begin
    if place is None:
        raise _gone("after")
    services.audit_notes.row(entry_of(caller, "audit.export", format, selection=dict(query)))
    encode, heading, media = (
        (export.json_lines, b"", "application/x-ndjson")
        if format == export.JSON_LINES
        else (export.csv_lines, b"" if number else export.csv_heading(), "text/csv; charset=utf-8")
    )
    stream = export.exported(services.database, wanted, encode, _entries, after=place, heading=heading)
    return StreamingResponse(services.open_connections.while_valid(caller, stream), media_type=media)


@router.get("/{entry}")
@described(AuditEntry)
async def get_audit_entry(request: Request, entry: str) -> Response:
    """One row of the audit log, by its id."""
    services, caller = await authorise(request)
    read_query(request)
    tenant = None if caller.may_everywhere(Scope.AUDIT_READ) else caller.tenant_id
    async with services.database.engine() as connection:
        row = await audit_log.read_entry(connection, task_id(entry, "row of the audit log"), tenant)
    [found] = _entries([existing(row, "row of the audit log")])
    return answer(found)


async def _wanted(request: Request, services: Services, caller: Caller, query: QueryParams) -> AuditFilter:
    faults = FaultList()
    kind, colon, number = (query.get("object") or "").partition(":")
    if "object" in query and (not kind or (colon and not number)):
        faults.add(
            "object", "invalid-filter", f"object is KIND:ID, such as task:12, or KIND, not {query['object'][:40]!r}"
        )
    outcome = query.get("outcome")
    if outcome is not None and outcome not in OUTCOMES:
        faults.add("outcome", "invalid-filter", f"outcome is {', '.join(OUTCOMES)}, not {outcome[:40]!r}")
    address = query.get("address")
    if address is not None and not _is_network(address):
        right = "address is an address or a network, such as 10.0.0.7 or 10.0.0.0/8"
        faults.add("address", "invalid-filter", f"{right}, not {address[:60]!r}")
    for name in ("actor", "action", "object", "credential", "tenant"):
        if len(query.get(name, "")) > LONGEST_TEXT:
            faults.add(name, "invalid-filter", f"{name} has at most {LONGEST_TEXT} characters")
    faults.check()
    text_of(query, "object")
    return AuditFilter(
        since=when_of(query, "since"),
        until=when_of(query, "until") or datetime.now(UTC),
        tenant=await _tenant(request, services, caller, text_of(query, "tenant")),
        actor=text_of(query, "actor"),
        action=text_of(query, "action"),
        object_kind=kind or None,
        object_id=number or None,
        outcome=next((one for one in OUTCOMES if one == outcome), None),
        credential=text_of(query, "credential"),
        address=address,
    )


async def _tenant(request: Request, services: Services, caller: Caller, name: str | None) -> int | None:
    """Whose rows the caller sees; None: those of all tenants and of the cluster."""
    everywhere = caller.may_everywhere(Scope.AUDIT_READ)
    if name == caller.tenant or (name is None and ("rota-tenant" in request.headers or not everywhere)):
        return caller.tenant_id
    if name is None:
        return None
    found = None
    if everywhere:
        async with services.database.engine() as connection:
            found = await find_tenant(connection, name)
    if found is None:  # one that the caller may not see and one that is not there look alike
        raise not_found("tenant")
    return found.id


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _gone(name: str) -> Problem:
    detail = f"the row that {name} comes after is not kept any more; leave it out to begin anew"
    return Problem("invalid-cursor", status=400, title="The row is gone", detail=detail)


def _entries(rows: Sequence[Any]) -> list[AuditEntry]:
    return [
        filled(
            AuditEntry,
            row,
            tenant=row["tenant_name"],
            before=raw_json(row["before"]),
            after=raw_json(row["after"]),
            selection=raw_json(row["selection"]),
        )
        for row in rows
    ]
