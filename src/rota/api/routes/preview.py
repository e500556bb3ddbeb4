"""Previews: whether a submission would be accepted, and where and when it would start. Nothing is stored."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.body import decode
from rota.admit.judge.arrays import expanded, expanded_nodes
from rota.admit.preview import Group, Preview, preview
from rota.api.answers import answer, instant
from rota.api.described import described
from rota.api.leaders import explained
from rota.api.requests import read_body
from rota.api.routes.why import explanation_of
from rota.api.services import Services, authorise
from rota.decide.explain import Explanation, Probe
from rota.model.answers.waiting import MetLimit, PreviewDocument, PreviewGroup, Refusal
from rota.model.clock import to_us
from rota.model.errors import Fault, invalid
from rota.model.request.task_request import MAX_BATCH, BatchRequest, TaskRequest
from rota.model.task import State
from rota.model.tenant import Caller, Scope
from rota.model.tolerance import whole_ms
from rota.store import reading

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_GROUPS = 50
MOST_COUNTED = 100_000
MOST_PARENTS = 10


@router.post("/preview")
@described(PreviewDocument, body=TaskRequest | BatchRequest)
async def preview_tasks(request: Request) -> Response:
    """What a submission of this task or batch would meet. A malformed body is refused as by the submission."""
    services, caller = await authorise(request, Scope.WRITE)
    body = await read_body(request, limit=services.settings.body_limit_bytes)
    requests, single = _requests(body)
    arrays = None
    if any(one.array is not None or one.items for one in requests):
        arrays = expanded(requests[0]) if single else expanded_nodes(requests, ())
        requests, single = arrays.tasks, False
    found = await preview(
        services.admission,
        services.database,
        caller,
        requests,
        key=request.headers.get("idempotency-key"),
        body=body,
        single=single,
        arrays=arrays,
    )
    return answer(await _preview(services, caller, found))


def _requests(body: bytes) -> tuple[list[TaskRequest], bool]:
    try:
        is_batch = "tasks" in msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        is_batch = False  # the strict decoder reports the fault
    if not is_batch:
        return [decode(body, TaskRequest)], True
    batch = decode(body, BatchRequest)
    if not 1 <= len(batch.tasks) <= MAX_BATCH:
        raise invalid([Fault("/tasks", "out-of-range", f"a batch has 1 to {MAX_BATCH} tasks, not {len(batch.tasks)}")])
    return batch.tasks, False


async def _preview(services: Services, caller: Caller, found: Preview) -> PreviewDocument:
    shown = found.groups[:MOST_GROUPS]
    groups = []
    for group, explanation in zip(shown, await _explained(services, shown), strict=True):
        own = group.template
        tolerance_ms = whole_ms(own.tolerance_ms, own.leeway_ms)
        known = await explanation_of(services, explanation, tolerance_ms, own.tolerance_source.label)
        shared = msgspec.structs.asdict(known)
        groups.append(
            PreviewGroup(first=group.first, tasks=group.tasks, name=own.name, state=group.state.label, **shared)
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


async def _explained(services: Services, groups: list[Group]) -> list[Explanation]:
    """Explanations from the leaders for tasks that would be ready; the leader of each pool is asked once."""
    probes: dict[int, list[tuple[int, Probe]]] = {}
    found: list[Explanation] = []
    for index, group in enumerate(groups):
        found.append(_without_leader(group))
        if group.ready is not None:
            probes.setdefault(group.pool, []).append((index, Probe(group.ready, group.template.shape)))
    for pool, asked in probes.items():
        answers = await explained(services, pool, [probe for _, probe in asked])
        for (index, _), one in zip(asked, answers or (), strict=False):
            if one is not None:
                found[index] = one
    return found


def _without_leader(group: Group) -> Explanation:
    """The explanation without a leader."""
    if group.state is State.BLOCKED:
        if not group.after:
            return Explanation(reason="blocked", sentence="it would wait for other tasks of the request first")
        shown = ", ".join(map(str, group.after[:MOST_PARENTS]))
        more = f" and {len(group.after) - MOST_PARENTS:,} more" if len(group.after) > MOST_PARENTS else ""
        some = "s" if len(group.after) > 1 else ""
        return Explanation(reason="blocked", sentence=f"it would wait for task{some} {shown}{more} first")
    not_before = group.template.not_before
    if group.state is State.DELAYED and not_before is not None:
        return Explanation(
            reason="delayed",
            sentence=f"it would start not before {instant(not_before)}",
            estimated_start_us=to_us(not_before),
            basis="its-time",
        )
    return Explanation(reason="leader-unreachable", sentence="the pool's leader can't be asked right now")


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
