"""Judges the request for a schedule: its rule, its policies and its tasks, all faults at once. Nothing is stored.

The tasks are judged as if they were submitted now. A fault in one part hides none in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import UNSET

from rota.admit.admission import Admission, artifacts_of
from rota.admit.facts_cache import FactsCache
from rota.admit.judge.facts import KnownArtifact
from rota.model.errors import Fault, FaultList, Problem, invalid
from rota.model.request.rest import Rest
from rota.model.schedule.checks import applied, check_name
from rota.model.schedule.request import ScheduleRequest
from rota.model.schedule.schedule import Rule, RuleKind, Schedule
from rota.model.tenant import Caller
from rota.timetable import owner_edits
from rota.timetable.run_tasks import Work, work_of

MOST_FAULTS = 100
_ONLY_EDITED = ("next_at", "version")


@dataclass(frozen=True, slots=True)
class Judged:
    """`artifacts`: digests that its tasks name; None: an edit leaves the tasks as they are."""

    request: ScheduleRequest
    schedule: Schedule
    artifacts: tuple[bytes, ...] | None


async def judge_new(
    admission: Admission,
    facts: FactsCache,
    caller: Caller,
    found: ScheduleRequest | Rest[ScheduleRequest],
    *,
    name: str | None = None,
    only_edited: Sequence[str] = _ONLY_EDITED,
    before: Schedule | None = None,
    uploads: Sequence[KnownArtifact] = (),
) -> Judged:
    """A whole schedule as asked for. Raises a Problem with every fault.

    `name`: its name, if the request need not have it. `only_edited`: fields that are refused. `before`: the schedule
    in whose place it would come; the same rule then need not have a run to come.
    """
    request, faults = _value_of(found), FaultList()
    for field in only_edited:
        if getattr(request, field) is not UNSET:
            faults.add(field, "unknown-field", f"{field} is for edits; a new schedule has none")
    if name is not None and request.name is not UNSET and request.name != name:
        faults.add("name", "invalid-name", f"{request.name[:60]!r} is not the schedule in the path, {name[:60]!r}")
    given = check_name(request.name if name is None else name, faults)
    blank = Schedule(tenant=caller.tenant_id, name=given, user=caller.user, rule=Rule(RuleKind.AT, ""), request="")
    now = facts.now()
    wanted = applied(request, blank, now=now, new=True, faults=faults)
    if wanted.rule.text and (before is None or before.rule != replace(wanted.rule, anchor=before.rule.anchor)):
        fault = owner_edits.never_fires(wanted, now)
        faults.faults.extend([] if fault is None else [fault])
    artifacts = await _tasks(admission, facts, caller, found, wanted, request, faults, uploads)
    return Judged(request, wanted, artifacts)


async def judge_edit(
    admission: Admission,
    facts: FactsCache,
    caller: Caller,
    found: ScheduleRequest | Rest[ScheduleRequest],
    before: Schedule,
    now: datetime,
) -> Judged:
    """The schedule `before` with the given fields changed. Raises a Problem with every fault."""
    request, faults = _value_of(found), FaultList()
    if request.name is not UNSET and request.name != before.name:
        faults.add("name", "invalid-name", "a schedule keeps its name")
    wanted = owner_edits.changed_by(before, request, now, faults)
    if request.task is UNSET and request.tasks is UNSET:
        _refuse(found, faults.faults)
        return Judged(request, wanted, None)
    artifacts = await _tasks(admission, facts, caller, found, wanted, request, faults, ())
    return Judged(request, wanted, artifacts)


async def _tasks(
    admission: Admission,
    facts: FactsCache,
    caller: Caller,
    found: ScheduleRequest | Rest[ScheduleRequest],
    wanted: Schedule,
    request: ScheduleRequest,
    faults: FaultList,
    uploads: Sequence[KnownArtifact],
) -> tuple[bytes, ...]:
    """The artifacts of the tasks, which are judged even if there are faults elsewhere."""
    others: Sequence[Fault] = ()
    artifacts: tuple[bytes, ...] = ()
    single = request.task is not UNSET
    if wanted.request and single != (request.tasks is not UNSET):
        try:
            work = work_of(wanted, facts.of(caller))
            artifacts = await _artifacts(admission, caller, work, single, uploads)
        except Problem as refusal:
            if not refusal.faults:
                raise
            others = refusal.faults
    known = {fault.pointer for fault in faults.faults}
    placed = [Fault(_placed(one.pointer, single), one.code, one.detail) for one in others]
    _refuse(found, [*faults.faults, *(fault for fault in placed if fault.pointer not in known)])
    return artifacts


def _placed(pointer: str, single: bool) -> str:
    """The pointer of a fault of the work in the request for the schedule, where a graph's name is `graph`."""
    if single:
        return f"/task{pointer}"
    return "/graph" if pointer == "/name" else pointer


async def _artifacts(
    admission: Admission, caller: Caller, work: Work, single: bool, uploads: Sequence[KnownArtifact]
) -> tuple[bytes, ...]:
    _, drafts = await admission.draft(caller, work.tasks, key=None, single=single, arrays=work.arrays, uploads=uploads)
    return tuple(sorted(artifacts_of(drafts)))


def _value_of(found: ScheduleRequest | Rest[ScheduleRequest]) -> ScheduleRequest:
    if not isinstance(found, Rest):
        return found
    if found.value is None:
        raise invalid(found.structure[:MOST_FAULTS])
    return found.value


def _refuse(found: ScheduleRequest | Rest[ScheduleRequest], faults: Sequence[Fault]) -> None:
    """Raises if there are faults of the structure or others."""
    every = found.with_others(faults) if isinstance(found, Rest) else list(faults)
    if every:
        raise invalid(every[:MOST_FAULTS])
