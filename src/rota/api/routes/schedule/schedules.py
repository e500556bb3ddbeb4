"""Schedules: make, read, edit, pause, resume, run now, skip, list past and next runs, backfill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from rota.admit.artifacts import hold_artifacts
from rota.admit.body import read
from rota.admit.limits import check_number
from rota.api.answers import answer, instant, occurrence_of, schedule_of
from rota.api.audited import audit, differences
from rota.api.described import IF_MATCH, LIMIT, TEXT, Parameter, described, read_query, whole
from rota.api.payload import schedule_for
from rota.api.requests import existing, if_match, limit_of, read_body, read_json, whole_number
from rota.api.services import Services, authorise, tell_cancelled
from rota.model.answers.schedules import (
    Backfilled,
    NextRuns,
    OccurrenceDocument,
    OccurrencePage,
    ScheduleDocument,
    SchedulePage,
)
from rota.model.errors import Fault, FaultList, Problem, conflict, invalid, not_found
from rota.model.request.rest import Rest
from rota.model.schedule.checks import NAME, given_instant
from rota.model.schedule.request import BackfillRequest, ScheduleRequest
from rota.model.schedule.rules import EARLIEST
from rota.model.schedule.schedule import Schedule
from rota.model.task import State
from rota.model.tenant import Caller
from rota.observe.graph_view import counted, whole_status
from rota.store import schedules
from rota.store.database import AnyConnection
from rota.store.graphs import latest_states
from rota.store.schedules import Occurrence
from rota.timetable import owner_edits
from rota.timetable.judging import judge_edit, judge_new
from rota.timetable.occurrences import instants
from rota.timetable.runs import Made

S = TypeVar("S", bound=msgspec.Struct)

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])

MOST_LOOKED_AT = 20_000  # tasks whose states are read for a page of the history
_FORGOTTEN_AT_ONCE = 5_000
_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


@router.post("", status_code=201)
@described(ScheduleDocument, body=ScheduleRequest)
async def add_schedule(request: Request) -> Response:
    """Makes a schedule. Its first run is at its first instant after now."""
    services, caller = await authorise(request)
    found = await read_schedule_request(services, request, ScheduleRequest)
    judged = await judge_new(services.admission, services.facts, caller, found)
    wanted = replace(judged.schedule, artifacts=judged.artifacts or ())
    # With the engine's rights, because a tenant's role must not lock artifacts.
    async with services.database.engine() as connection, connection.transaction():
        made = await add(connection, caller, wanted)
        if made is None:
            raise name_taken(wanted.name)
        await audit(connection, caller, "schedule.add", made.name, **differences(None, schedule_of(made)))
    services.ticker.changed()
    return _answer(caller, made, 201)


@router.get("")
@described(SchedulePage, query=(LIMIT, Parameter("after", TEXT, "The last name of the page before.")))
async def list_schedules(request: Request) -> Response:
    """The schedules of the tenant, by name."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit, after = limit_of(query), query.get("after", "")
    if after and not NAME.match(after):
        raise invalid(
            [Fault("/after", "invalid-filter", f"after is the name of a schedule, without NUL, not {after[:40]!r}")]
        )
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await schedules.list_schedules(connection, caller.tenant_id, after=after, limit=limit + 1)
    more = len(rows) > limit
    return answer(
        SchedulePage(
            schedules=[schedule_for(caller, schedule_of(one)) for one in rows[:limit]],
            next=rows[limit - 1].name if more else None,
        )
    )


@router.get("/{name}")
@described(ScheduleDocument)
async def get_schedule(request: Request, name: str) -> Response:
    """One schedule, with the version that an edit has to name."""
    services, caller = await authorise(request)
    read_query(request)
    return _answer(caller, await read_one(services, caller, name))


@router.patch("/{name}")
@described(ScheduleDocument, body=ScheduleRequest, headers=(IF_MATCH,))
async def edit_schedule(request: Request, name: str) -> Response:
    """Changes the given fields.

    Needs the version that was read, in If-Match or `version`: 428 without it, 412 if the schedule has changed since.
    """
    services, caller = await authorise(request)
    found = await read_schedule_request(services, request, ScheduleRequest)
    version = version_of(request, found)
    before = await read_one(services, caller, name)
    owner_edits.check_version(before, version)
    judged = await judge_edit(services.admission, services.facts, caller, found, before, services.facts.now())
    async with _locked(services, caller, name, "edit") as locked:
        owner_edits.check_version(locked.schedule, version)
        changed = locked.after = await owner_edits.edit(
            locked.connection, locked.schedule, judged.request, locked.now, judged.artifacts
        )
    services.ticker.changed()
    return _answer(caller, changed)


@router.delete("/{name}", status_code=204)
@described(None)
async def remove_schedule(request: Request, name: str) -> Response:
    """Removes a schedule and its history. Its tasks stay, and go on."""
    services, caller = await authorise(request)
    async with _locked(services, caller, name, "remove") as locked:
        await schedules.delete_schedule(locked.connection, locked.schedule)
        locked.after = None
    async with services.database.engine() as connection:
        while await schedules.delete_history(connection, locked.schedule.id, limit=_FORGOTTEN_AT_ONCE):
            continue
    return Response(status_code=204)


@router.post("/{name}/pause")
@described(ScheduleDocument)
async def pause_schedule(request: Request, name: str) -> Response:
    """Pauses a schedule. Instants that pass until it is resumed are skipped."""
    services, caller = await authorise(request)
    async with _locked(services, caller, name, "pause") as locked:
        changed = locked.after = await owner_edits.pause(locked.connection, locked.schedule)
    return _answer(caller, changed)


@router.post("/{name}/resume")
@described(ScheduleDocument)
async def resume_schedule(request: Request, name: str) -> Response:
    """Resumes a schedule with its next instant."""
    services, caller = await authorise(request)
    async with _locked(services, caller, name, "resume") as locked:
        changed = locked.after = await owner_edits.resume(locked.connection, locked.schedule, locked.now)
    services.ticker.changed()
    return _answer(caller, changed)


@router.post("/{name}/skip-next")
@described(ScheduleDocument)
async def skip_next_run(request: Request, name: str) -> Response:
    """Skips the next instant; the skip is in the history."""
    services, caller = await authorise(request)
    async with _locked(services, caller, name, "skip-next") as locked:
        changed = locked.after = await owner_edits.skip_next(locked.connection, locked.schedule, caller.user)
    return _answer(caller, changed)


@router.post("/{name}/run", status_code=201)
@described(OccurrenceDocument, also={200: (OccurrenceDocument, "Nothing was started; `skipped` is the reason.")})
async def run_schedule(request: Request, name: str) -> Response:
    """Starts a run now, besides those of the rule. The overlap policy may skip it: 200 with the reason."""
    services, caller = await authorise(request)
    async with _locked(services, caller, name, "run") as locked:
        occurrence, made = await owner_edits.run_now(locked.connection, services.runs, locked.schedule, locked.now)
        locked.count = 1 if occurrence.tasks is not None else 0
    _told(services, made)
    return answer(occurrence_of(occurrence), 201 if occurrence.tasks is not None else 200)


@router.post("/{name}/backfill", status_code=201)
@described(Backfilled, body=BackfillRequest)
async def backfill_schedule(request: Request, name: str) -> Response:
    """Starts runs for all past instants from `from` to before `to` that had none."""
    services, caller = await authorise(request)
    body = await read_json(request, BackfillRequest)
    faults = FaultList()
    async with _locked(services, caller, name, "backfill") as locked:
        zone = locked.schedule.rule.zone
        start, end = given_instant("from", body.from_, zone, faults), given_instant("to", body.to, zone, faults)
        if start is not None and end is not None and not start < end:
            faults.add(
                "to",
                "inconsistent-times",
                f"to is a time after from; {body.to[:60]!r} does not come after {body.from_[:60]!r}",
            )
        if start is None or end is None or faults.faults:
            raise invalid(faults.faults)
        done = await owner_edits.backfill(
            locked.connection, services.runs, locked.schedule, start=max(start, EARLIEST), end=end, now=locked.now
        )
        locked.count = len(done.made.occurrences)
    _told(services, done.made)
    made = [occurrence_of(one) for one in done.made.occurrences]
    return answer(Backfilled(occurrences=made, already=list(done.already)), 201)


@router.get("/{name}/next")
@described(NextRuns, query=(Parameter("n", whole(1, 1_000), "How many; 10 by default."),))
async def list_next_runs(request: Request, name: str) -> Response:
    """The next instants."""
    services, caller = await authorise(request)
    amount = whole_number(read_query(request), "n", default=10, least=1, most=1_000)
    one = await read_one(services, caller, name)
    return answer(NextRuns(next=ahead(one, amount), zone=one.rule.zone, paused=one.paused))


@router.get("/{name}/history")
@described(
    OccurrencePage,
    query=(
        LIMIT,
        Parameter("before", {"type": "string", "format": "date-time"}, "The `next` of the page before."),
    ),
)
async def list_occurrences(request: Request, name: str) -> Response:
    """Runs and skips, newest first, each run with its status.

    The status is that of all tasks of a run and their retries; null for older runs on a page of very many tasks.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    faults = FaultList()
    before = given_instant("before", query["before"], "UTC", faults) if "before" in query else _FUTURE
    if before is None:
        raise invalid(faults.faults)
    async with services.database.tenant(caller.tenant_id) as connection:
        one = existing(await schedules.read_schedule(connection, caller.tenant_id, _checked(name)), "schedule")
        rows = await schedules.list_occurrences(connection, one.id, before=before, limit=limit + 1)
        states = await latest_states(connection, _looked_at(rows[:limit]), caller.tenant_id)
    more = instant(rows[limit - 1].instant) if len(rows) > limit else None
    occurrences = [occurrence_of(row, _status(row, states)) for row in rows[:limit]]
    return answer(OccurrencePage(occurrences=occurrences, next=more))


def _looked_at(rows: Sequence[Occurrence]) -> list[int]:
    """The tasks of the newest runs, up to a limit; only whole runs."""
    found: list[int] = []
    for row in rows:
        if len(found) + len(row.tasks or ()) > MOST_LOOKED_AT:
            break
        found += row.tasks or ()
    return found


def _status(row: Occurrence, states: Mapping[int, State]) -> str | None:
    known = [states[task] for task in row.tasks or () if task in states]
    return whole_status(counted(known)).value if known else None


# ---- the pieces --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Locked:
    connection: AnyConnection
    schedule: Schedule
    now: datetime
    after: Schedule | None  # the block says what became of it; None: it is removed
    count: int | None = None  # how many runs the block started


@asynccontextmanager
async def _locked(services: Services, caller: Caller, name: str, action: str) -> AsyncIterator[_Locked]:
    """The schedule, locked until the block ends; with the engine's rights, because no tenant may copy runs.

    The action is audited in the same transaction.
    """
    _checked(name)
    async with services.database.engine() as connection:
        async with connection.transaction():
            one = existing(await schedules.read_schedule(connection, caller.tenant_id, name, lock=True), "schedule")
            locked = _Locked(connection, one, await schedules.transaction_time(connection), one)
            yield locked
            before, after = schedule_of(one), None if locked.after is None else schedule_of(locked.after)
            changed = differences(before, after)
            await audit(connection, caller, f"schedule.{action}", name, count=locked.count, **changed)


async def read_one(services: Services, caller: Caller, name: str) -> Schedule:
    return existing(await find_one(services, caller, name), "schedule")


async def find_one(services: Services, caller: Caller, name: str) -> Schedule | None:
    if not NAME.match(name):
        return None
    async with services.database.tenant(caller.tenant_id) as connection:
        return await schedules.read_schedule(connection, caller.tenant_id, name)


def _checked(name: str) -> str:
    if not NAME.match(name):
        raise not_found("schedule")
    return name


async def read_schedule_request(services: Services, request: Request, kind: type[S]) -> S | Rest[S]:
    """The body, or what is left of it for the search of other faults."""
    return read(await read_body(request, limit=services.settings.body_limit_bytes), kind)


def version_of(request: Request, found: ScheduleRequest | Rest[S]) -> int | None:
    """The version that was read: from the header, else from the body."""
    version = if_match(request)
    body = found.value if isinstance(found, Rest) else found
    given = body.version if isinstance(body, ScheduleRequest) else UNSET
    return version if version is not None or given is UNSET else given


async def add(connection: AnyConnection, caller: Caller, wanted: Schedule) -> Schedule | None:
    """Makes a schedule that was judged, in the caller's transaction. None: the name is taken."""
    await check_number(connection, caller.tenant_id, caller.plan, "schedules")
    wanted = owner_edits.begin(wanted, await schedules.transaction_time(connection))
    if wanted.artifacts:
        await hold_artifacts(connection, wanted.tenant, wanted.artifacts)
    return await schedules.insert_schedule(connection, wanted)


def name_taken(name: str) -> Problem:
    return conflict(
        "name-taken",
        f"there is a schedule {name} already; change it with rota schedule edit {name}, or apply a manifest of it "
        "with rota submit -f (PUT over HTTP)",
    )


def _told(services: Services, made: Made) -> None:
    services.runs.announce(made)
    for cancelled in made.cancelled:
        tell_cancelled(services.leadership, services.waiting, cancelled)


def ahead(one: Schedule, amount: int) -> list[datetime]:
    """Its next instants."""
    if one.next_at is None:
        return []
    if one.max_runs is not None:
        amount = min(amount, max(0, one.max_runs - one.runs))
    on = max(one.next_at, one.moved_from or one.next_at)
    found = [one.next_at, *islice(instants(one.rule, on), amount)][:amount]
    return [at for at in found if one.ends_at is None or at <= one.ends_at]


def _answer(caller: Caller, one: Schedule, status: int = 200) -> Response:
    response = answer(schedule_for(caller, schedule_of(one)), status)
    response.headers["etag"] = f'"{one.version}"'
    return response
