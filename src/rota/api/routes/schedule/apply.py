"""Applying a schedule as a whole: make it, change what differs, or leave it as it is; and a preview of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from rota.admit.limits import check_number
from rota.admit.planned_uploads import JudgedUploads, judge_uploads, known_uploads
from rota.admit.preview import preview
from rota.api.answers import answer, schedule_of
from rota.api.audited import audit, differences
from rota.api.described import IF_MATCH, Parameter, described, read_query, whole
from rota.api.requests import whole_number
from rota.api.routes.preview import preview_document, shown_uploads
from rota.api.routes.schedule.schedules import add, ahead, find_one, read_schedule_request, version_of
from rota.api.services import Services, authorise
from rota.model.answers.schedules import AppliedSchedule, ComingRun, SchedulePreview
from rota.model.answers.waiting import PreviewDocument, Refusal
from rota.model.errors import Problem, unavailable
from rota.model.request.preview_request import PlannedUpload
from rota.model.request.rest import Rest
from rota.model.schedule.changes import Changes, changes_between, over, work_text
from rota.model.schedule.notes import notes_on
from rota.model.schedule.request import SchedulePreviewRequest, ScheduleRequest
from rota.model.schedule.schedule import Schedule
from rota.model.tenant import Caller
from rota.store import schedules
from rota.timetable import owner_edits
from rota.timetable.judging import Judged, judge_new
from rota.timetable.occurrences import previous
from rota.timetable.run_tasks import work_of

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])

TRIES = 3
CREATED, CHANGED, UNCHANGED = "created", "changed", "unchanged"
_APPLIED = ("next_at",)  # fields that are refused


@dataclass(frozen=True, slots=True)
class _Applied:
    result: str
    schedule: Schedule
    changes: Changes


@router.put("/{name}")
@described(
    AppliedSchedule,
    also={201: (AppliedSchedule, "There was no such schedule; it is made.")},
    body=ScheduleRequest,
    headers=(IF_MATCH,),
)
async def apply_schedule(request: Request, name: str) -> Response:
    """Makes the schedule as the body describes it, or changes what differs; the same again changes nothing.

    A field that is not given has its default; only the pause, and the anchor of an unchanged `every`, stay as they are.
    With If-Match or `version`, 412 if the schedule has changed since.
    """
    services, caller = await authorise(request)
    found = await read_schedule_request(services, request, ScheduleRequest)
    version = version_of(request, found)
    before = await find_one(services, caller, name)
    judged = await judge_new(
        services.admission, services.facts, caller, found, name=name, only_edited=_APPLIED, before=before
    )
    for _ in range(TRIES):
        done = await _apply(services, caller, judged, version)
        if done is not None:
            break
    else:
        raise unavailable(f"schedule {name} is being made and removed by others; try again")
    if done.result != UNCHANGED:
        services.ticker.changed()
    document = AppliedSchedule(result=done.result, changes=done.changes, schedule=schedule_of(done.schedule))
    response = answer(document, 201 if done.result == CREATED else 200)
    response.headers["etag"] = f'"{done.schedule.version}"'
    return response


async def _apply(services: Services, caller: Caller, judged: Judged, version: int | None) -> _Applied | None:
    """One transaction. None: somebody made the schedule meanwhile."""
    wanted = _with_artifacts(judged)
    # With the engine's rights, because a tenant's role must not lock artifacts.
    async with services.database.engine() as connection, connection.transaction():
        before = await schedules.read_schedule(connection, caller.tenant_id, wanted.name, lock=True)
        if before is None:
            _check_missing(wanted.name, version)
            made = await add(connection, caller, wanted)
            done = None if made is None else _Applied(CREATED, made, {})
        else:
            if version is not None:
                owner_edits.check_version(before, version)
            after, changes = _after(judged, before)
            if changes:
                now = await schedules.transaction_time(connection)
                after = await owner_edits.apply(connection, before, owner_edits.with_cursor(before, after, now), now)
            done = _Applied(CHANGED if changes else UNCHANGED, after if changes else before, changes)
        if done is not None and done.result != UNCHANGED:
            old = None if before is None else schedule_of(before)
            await audit(
                connection, caller, "schedule.apply", wanted.name, **differences(old, schedule_of(done.schedule))
            )
    return done


def _check_missing(name: str, version: int | None) -> None:
    if version is not None:
        raise Problem(
            "version-changed",
            status=412,
            title="The schedule is gone",
            detail=f"there is no schedule {name}, so it has no version {version}; leave the version out to make it",
        )


def _with_artifacts(judged: Judged) -> Schedule:
    return replace(judged.schedule, artifacts=judged.artifacts or ())


def _after(judged: Judged, before: Schedule) -> tuple[Schedule, Changes]:
    said = judged.request
    after = over(
        _with_artifacts(judged),
        before,
        keeps_pause=said.paused is UNSET,
        keeps_anchor=said.anchor is UNSET,
    )
    return after, changes_between(before, after)


# ---- the preview -------------------------------------------------------------------------------------------------


@router.post("/preview")
@described(
    SchedulePreview,
    body=SchedulePreviewRequest,
    query=(Parameter("n", whole(1, 1_000), "How many runs to come; 5 by default."),),
)
async def preview_schedule(request: Request) -> Response:
    """What applying this schedule would do, when it would run next, and what a run would meet now. Stores nothing."""
    services, caller = await authorise(request)
    amount = whole_number(read_query(request), "n", default=5, least=1, most=1_000)
    found = await read_schedule_request(services, request, SchedulePreviewRequest)
    version = version_of(request, found)
    asked = found.value if isinstance(found, Rest) else found
    name = asked.name if asked is not None and isinstance(asked.name, str) else ""
    before = await find_one(services, caller, name)
    known = () if asked is None else known_uploads(asked.uploads)
    judged = await judge_new(
        services.admission, services.facts, caller, found, only_edited=_APPLIED, before=before, uploads=known
    )
    assert isinstance(judged.request, SchedulePreviewRequest), "it was read as one"
    if before is None:
        _check_missing(name, version)
    elif version is not None:
        owner_edits.check_version(before, version)
    return answer(await _preview(services, caller, judged, judged.request.uploads, before, amount))


async def _preview(
    services: Services,
    caller: Caller,
    judged: Judged,
    planned: Sequence[PlannedUpload],
    before: Schedule | None,
    amount: int,
) -> SchedulePreview:
    now = services.facts.now()
    uploads = await judge_uploads(services.artifacts, caller, planned)
    refusals: list[Problem] = []
    changes: Changes = {}
    if before is None:
        refusals += await _quota(services, caller)
        result, after = CREATED, owner_edits.begin(_with_artifacts(judged), now)
    else:
        after, changes = _after(judged, before)
        result = CHANGED if changes else UNCHANGED
        after = owner_edits.with_cursor(before, after, now) if changes else before
    run = await _run(services, caller, after, planned, uploads)
    return SchedulePreview(
        accepted=not refusals and not uploads.refusals,
        name=after.name,
        result=result,
        changes=changes,
        refusals=[
            Refusal(type=one.slug, detail=one.detail, retry_after=one.retry_after_seconds)
            for one in (*refusals, *uploads.refusals)
        ],
        rule={after.rule.kind.value: after.rule.text},
        zone=after.rule.zone,
        paused=after.paused,
        next=_coming(after, amount),
        notes=notes_on(after, changed=bool(changes)),
        run=run,
    )


async def _quota(services: Services, caller: Caller) -> list[Problem]:
    """The plan's limit on schedules, as far as it refuses one more now."""
    try:
        async with services.database.engine() as connection, connection.transaction():
            await check_number(connection, caller.tenant_id, caller.plan, "schedules")
    except Problem as refusal:
        return [refusal]
    return []


async def _run(
    services: Services, caller: Caller, one: Schedule, planned: Sequence[PlannedUpload], uploads: JudgedUploads
) -> PreviewDocument:
    """What its tasks would meet if they were submitted now. Limits of the moment are no refusal of the schedule."""
    work = work_of(one, services.facts.of(caller))
    single = work.graph is None
    found = await preview(
        services.admission,
        services.database,
        caller,
        work.tasks,
        key=None,
        body=b"",
        single=single,
        arrays=work.arrays,
        uploads=uploads.artifacts,
    )
    document = await preview_document(services, caller, found)
    return msgspec.structs.replace(document, uploads=shown_uploads(planned, uploads))


def _coming(one: Schedule, amount: int) -> list[ComingRun]:
    """The runs to come, each with the interval from the instant before it."""
    runs, start = [], one.previous_at
    for at in ahead(one, amount):
        before = start if start is not None and start < at else previous(one.rule, at) or at
        late = at + timedelta(milliseconds=one.jitter_ms) if one.jitter_ms else None
        runs.append(
            ComingRun(instant=at, starts_by=late, interval_start=before, interval_end=at, runs=work_text(one.request))
        )
        start = at
    return runs
