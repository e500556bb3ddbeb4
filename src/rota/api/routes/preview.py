"""Previews: whether a submission would be accepted, and where and when it would start. Nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.every_fault import read_preview
from rota.admit.planned_uploads import JudgedUploads, judge_uploads
from rota.admit.preview import NO_ID, Group, Preview, preview
from rota.api.answers import answer, instant
from rota.api.described import described
from rota.api.requests import read_body
from rota.api.routes.why import explanation_of, while_paused, without_start
from rota.api.services import Services, authorise
from rota.api.start_estimates import MOST_CHAIN, Estimated, estimate_starts, planned_of, why_unknown
from rota.decide import wording
from rota.decide.explain import Explanation, Probe
from rota.decide.reason import OBSTACLES, Reason
from rota.decide.waiting import NO_RUN_TIMES
from rota.model.answers.waiting import MetLimit, PreviewDocument, PreviewGroup, PreviewUpload, Refusal
from rota.model.clock import from_us, to_us
from rota.model.errors import Problem
from rota.model.request.preview_request import PlannedUpload, PreviewBatch, PreviewTask
from rota.model.task import State
from rota.model.tenant import Caller
from rota.model.tolerance import whole_ms
from rota.store import reading
from rota.store.waiting_chain import LiveTask, Pauses, read_pauses, read_waiting_chain

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_GROUPS = 50
MOST_COUNTED = 100_000
MOST_PARENTS = 10
MOST_PLANNED = 2_000  # tasks of a request that are forecast
SOON_US = 1_000_000  # what starts within it starts now


@router.post("/preview")
@described(PreviewDocument, body=PreviewTask | PreviewBatch)
async def preview_tasks(request: Request) -> Response:
    """What a submission of this task or batch would meet. A malformed body is refused as by the submission."""
    services, caller = await authorise(request)
    body = await read_body(request, limit=services.settings.body_limit_bytes)
    asked = await read_preview(services.admission, caller, body)
    uploads = await judge_uploads(services.artifacts, caller, asked.uploads)
    found = await preview(
        services.admission,
        services.database,
        caller,
        asked.tasks,
        key=request.headers.get("idempotency-key"),
        body=asked.body,
        single=asked.single,
        arrays=asked.arrays,
        uploads=uploads.artifacts,
    )
    found.refusals.extend(uploads.refusals)
    document = await preview_document(services, caller, found)
    return answer(msgspec.structs.replace(document, uploads=shown_uploads(asked.uploads, uploads)))


def shown_uploads(uploads: Sequence[PlannedUpload], judged: JudgedUploads) -> list[PreviewUpload]:
    return [
        PreviewUpload(
            sha256=one.sha256,
            size_bytes=one.size_bytes,
            name=one.name,
            stored=bytes.fromhex(one.sha256) in judged.stored,
        )
        for one in uploads
    ]


async def preview_document(services: Services, caller: Caller, found: Preview) -> PreviewDocument:
    shown = found.groups[:MOST_GROUPS]
    estimated, chain = await _estimated(services, caller, found.groups)
    refused = _refused(found.refusals)
    pauses: dict[int, Pauses] = {}
    async with services.database.engine() as connection:
        for pool in {group.pool for group in shown}:
            pauses[pool] = await read_pauses(connection, pool, caller.tenant_id)
    groups = []
    for group in shown:
        starts = [estimated.starts.get(one.task.id) for one in group.planned]
        known = [start.at_us for start in starts if start is not None]
        soon_us = to_us(datetime.now(UTC)) + SOON_US
        explanation = while_paused(_explanation(group, estimated, chain, known), pauses[group.pool])
        told = explanation.estimated_start_us is not None and not refused
        if refused:
            explanation = without_start(explanation, refused)
        own = group.template
        tolerance_ms = whole_ms(own.tolerance_ms, own.leeway_ms)
        shared = msgspec.structs.asdict(
            await explanation_of(services, explanation, tolerance_ms, own.tolerance_source.label)
        )
        groups.append(
            PreviewGroup(
                first=group.first,
                tasks=group.tasks,
                name=own.name,
                state=group.state.label,
                starting_now=sum(1 for at_us in known if at_us <= soon_us) if told else 0,
                last_start=from_us(max(known)) if told and known else None,
                without_start=group.tasks - (max(len(known), 1) if told else 0),
                **shared,
            )
        )
    return PreviewDocument(
        accepted=not found.refusals,
        tasks=found.tasks,
        refusals=[
            Refusal(type=refusal.slug, detail=refusal.detail, retry_after=refusal.retry_after_seconds)
            for refusal in found.refusals
        ],
        already_submitted=found.replays,
        limits=await _limits(services, caller, shown),
        groups=groups,
        groups_left_out=len(found.groups) - len(shown),
    )


def _refused(refusals: list[Problem]) -> str:
    """What takes the place of an estimate if the request would be refused now; empty if it would not."""
    if not refusals:
        return ""
    later = [refusal.retry_after_seconds for refusal in refusals]
    waits = "" if None in later else f"; it may be submitted in {wording.span(int(1e6 * max(filter(None, later))))}"
    return f"it would be refused now ({', '.join(refusal.slug for refusal in refusals)}){waits}"


async def _estimated(services: Services, caller: Caller, groups: list[Group]) -> tuple[Estimated, dict[int, LiveTask]]:
    """One forecast of the whole request: its tasks run after each other as their dependencies and the pool allow."""
    outside = sorted({parent for group in groups for one in group.planned for parent in one.after if parent < NO_ID})
    chain: dict[int, LiveTask] = {}
    if outside:
        async with services.database.tenant(caller.tenant_id) as connection:
            chain = await read_waiting_chain(connection, outside, caller.tenant_id, limit=MOST_CHAIN)
    planned = {number: one for number, live in chain.items() if (one := planned_of(live, caller))}
    pools = {number: live.pool for number, live in chain.items()}
    asked: dict[int, Probe] = {}
    for index, group in enumerate(groups):
        for one in group.planned[: max(0, MOST_PLANNED - len(planned))]:
            pools[one.task.id] = group.pool
            if index < MOST_GROUPS and one is group.planned[0]:
                asked[one.task.id] = Probe(**msgspec.structs.asdict(one))
            else:
                planned[one.task.id] = one
    return await estimate_starts(services, asked, planned, pools), chain


def _explanation(group: Group, estimated: Estimated, chain: dict[int, LiveTask], starts: list[int]) -> Explanation:
    first = group.planned[0].task.id
    known = estimated.explanations.get(first)
    if known is None:
        unknown = "the pool's leader can't be asked right now"
        if group.state is State.READY:
            return Explanation(reason=Reason.LEADER_UNREACHABLE, sentence=unknown, start_unknown=unknown)
        known = Explanation(reason=Reason.BLOCKED, sentence="", start_unknown=unknown)
    if group.state is State.READY:
        return known
    reason, sentence = _later(group)
    if known.sentence and known.reason in OBSTACLES:
        sentence = f"{sentence}; besides, {known.sentence}"
    elif known.estimated_start_us is None and group.state is State.DELAYED:
        at_us = group.planned[0].not_before_us
        known = msgspec.structs.replace(known, estimated_start_us=at_us, basis="its-time", start_unknown="")
    elif known.estimated_start_us is None and estimated.unknown:
        known = msgspec.structs.replace(known, start_unknown=_unknown_before(estimated, chain, first))
    return msgspec.structs.replace(
        known, reason=reason, sentence=sentence, position=None, ahead_of_mine=None, tenants_ahead=None
    )


def _unknown_before(estimated: Estimated, chain: dict[int, LiveTask], first: int) -> str:
    if not any(number >= NO_ID for number in estimated.unknown):
        return why_unknown(estimated, chain, first) or NO_RUN_TIMES
    return (
        "nothing is known of how long the tasks before it run: none of their name has ended here, and they have no cap"
    )


def _later(group: Group) -> tuple[Reason, str]:
    """A task that would wait for others or for a time."""
    not_before = group.template.not_before
    if group.state is State.DELAYED and not_before is not None:
        return Reason.DELAYED, f"it would start not before {instant(not_before)}"
    if not group.after:
        return Reason.BLOCKED, "it would wait for other tasks of the request first"
    shown = ", ".join(map(str, group.after[:MOST_PARENTS]))
    more = f" and {len(group.after) - MOST_PARENTS:,} more" if len(group.after) > MOST_PARENTS else ""
    return Reason.BLOCKED, f"it would wait for task{'s' if len(group.after) > 1 else ''} {shown}{more} first"


async def _limits(services: Services, caller: Caller, groups: list[Group]) -> list[MetLimit]:
    """The limits of the plan on running tasks that the request would reach, with the present usage."""
    plan = caller.plan
    async with services.database.engine() as connection:
        usage = await reading.read_usage(connection, caller.tenant_id, up_to=MOST_COUNTED)
    asked = {
        "running_cpu": (
            plan.running_cpu_milli,
            usage["cpu_milli"],
            sum(group.tasks * group.template.shape.resources.cpu_milli for group in groups),
            1000,
        ),
        "running_memory_bytes": (
            plan.running_memory_bytes,
            usage["memory_bytes"],
            sum(group.tasks * group.template.shape.resources.memory_bytes for group in groups),
            1,
        ),
        "running_tasks": (plan.running_tasks, usage["running"], sum(group.tasks for group in groups), 1),
    }
    return [
        MetLimit(limit=name, most=most / by, used=used / by, asked=more / by)
        for name, (most, used, more, by) in asked.items()
        if most is not None and used + more > most
    ]
