"""One function per field: its meaning, or its fault. Pure; `validate` calls them in the order of this file.

These depend on the tenant and the catalogue. Rules that need no facts are in `model/request/`, which clients use too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from rota.admit.judge.facts import Facts
from rota.model import tolerance as tolerances
from rota.model.catalogue import Category, LaneRule
from rota.model.clock import TIME_PASSED, has_passed, passed_detail
from rota.model.errors import Fault, FaultList
from rota.model.isolation import Isolation
from rota.model.queue import work_hash
from rota.model.request import needs
from rota.model.request.rules import BAD_NAME, LONGEST_NAME, amount_of, check_name, check_tags
from rota.model.request.task_request import TaskRequest
from rota.model.resources import CpuLimit
from rota.model.task import Kind
from rota.model.tenant import Plan
from rota.model.tolerance import PATIENCE, Tolerance, ToleranceSource
from rota.model.units import duration_text, milliseconds_of

LONGEST_TOLERANCE_MS = 366 * 86_400_000
LONGEST_DELAY = timedelta(days=3660)


def name_of(request: TaskRequest, uploaded: str, faults: FaultList) -> str:
    """The given name, else one made from the program. `uploaded`: the name of the uploaded program."""
    if request.name is not None:
        check_name(request, faults)
        return request.name
    if request.function is not None:
        return _own_name(request.function)
    if request.command:
        return BAD_NAME.sub("?", request.command[0].rpartition("/")[2])[:LONGEST_NAME] or "command"
    if request.path:
        return BAD_NAME.sub("?", request.path.rpartition("/")[2])[:LONGEST_NAME] or "script"
    return BAD_NAME.sub("?", uploaded)[:LONGEST_NAME] or "script"


def work_of(request: TaskRequest, kind: Kind, name: str) -> int:
    """The hash by which run times are learned. A function that is named only by its ref counts as the function."""
    if request.function is not None and request.name == request.ref:
        name = _own_name(request.function)
    return work_hash(kind, name)


def _own_name(function: str) -> str:
    return function.rpartition(":")[2][:LONGEST_NAME]


def category_of(request: TaskRequest, facts: Facts, faults: FaultList) -> Category | None:
    if request.category is None:
        return None
    category = facts.categories.get(request.category)
    if category is None:
        there = f"there are {', '.join(sorted(facts.categories))}" if facts.categories else "none is defined yet"
        faults.add("category", "unknown-category", f"there is no category {request.category[:40]!r}; {there}")
    return category


def cap_of(request: TaskRequest, category: Category | None, plan: Plan, faults: FaultList) -> tuple[int, bool]:
    """The longest run time, and whether the client or the category gave it."""
    longest = plan.longest_cap_seconds * 1000
    bounds = f"from 10ms to {duration_text(longest)}, the longest of plan {plan.name}"
    cap = amount_of("cap", request.cap, milliseconds_of, 10, longest, bounds, faults)
    if cap is None and category is not None and category.cap_ms is not None:
        cap = min(category.cap_ms, longest)
    return (longest, False) if cap is None else (cap, True)


def tolerance_of(
    request: TaskRequest,
    category: Category | None,
    cap: tuple[int, bool],
    plan_ms: int | None,
    typical_us: int | None,
    faults: FaultList,
) -> Tolerance:
    """How long the start may be delayed: given, else the category's, else by a given cap, else the plan's."""
    if request.tolerance is not None:
        most = LONGEST_TOLERANCE_MS
        given = amount_of("tolerance", request.tolerance, milliseconds_of, -most, most, "from 0 to 366d", faults)
        if given is not None and given < 0:
            faults.add(
                "tolerance",
                "inconsistent-times",
                f"tolerance is a duration of 0 or more, not {str(request.tolerance)[:40]!r}",
            )
        return tolerances.given(max(0, given or 0), ToleranceSource.GIVEN)
    if category is not None and category.tolerance_ms is not None:
        return tolerances.given(category.tolerance_ms, ToleranceSource.CATEGORY)
    cap_ms, cap_given = cap
    if cap_given:
        return tolerances.given(min(PATIENCE * cap_ms, LONGEST_TOLERANCE_MS), ToleranceSource.CAP)
    return tolerances.default(plan_ms, typical_us)


def expires_of(request: TaskRequest, tolerance: Tolerance, faults: FaultList) -> bool:
    """Whether the task is dropped if it can't start within its tolerance."""
    if request.on_late not in ("keep", "drop"):
        faults.add("on_late", "out-of-range", f"on_late is keep or drop, not {request.on_late[:40]!r}")
    elif request.on_late == "drop" and not tolerance.is_own:
        faults.add(
            "on_late",
            "inconsistent-times",
            "with on_late drop a task expires at the end of its tolerance; give a tolerance",
        )
    return request.on_late == "drop"


def not_before_of(request: TaskRequest, now: datetime, faults: FaultList) -> datetime | None:
    if request.at is not None and request.delay is not None:
        faults.add("at", "inconsistent-times", "give a time (at) or a delay, not both")
        return None
    if request.delay is not None:
        longest = int(LONGEST_DELAY.total_seconds() * 1000)
        delay = amount_of("delay", request.delay, milliseconds_of, 0, longest, "from 0 to ten years", faults)
        return None if not delay else now + timedelta(milliseconds=delay)
    at = None if request.at is None else _instant_of(request.at, now, faults)
    return at if at is not None and at > now else None


def passed_fault(request: TaskRequest, pointer: str, now: datetime) -> Fault | None:
    """The fault of a start time that has passed. Apart from the others: a repeated request may have one."""
    if request.at is None or request.delay is not None:
        return None
    at = _instant_of(request.at, now, FaultList())
    if at is None or not has_passed(at, now):
        return None
    detail = f"{passed_detail(request.at, now)}; leave it out to start now"
    return Fault(f"{pointer}/at", TIME_PASSED, detail)


def _instant_of(text: str, now: datetime, faults: FaultList) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        faults.add("at", "invalid-time", f"{text[:60]!r} is not a time; write 2030-01-31T08:00:00Z")
        return None
    if at.tzinfo is None:
        faults.add(
            "at",
            "invalid-time",
            f"{text[:60]!r} has no time zone; end it with Z, or with an offset such as +02:00",
        )
        return None
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        at = datetime.max.replace(tzinfo=UTC)
    if at > now + LONGEST_DELAY or at.year < 1970:
        faults.add("at", "invalid-time", f"at is a time after 1970 and within ten years from now, not {text[:60]!r}")
        return None
    return at


def lane_of(request: TaskRequest, category: Category | None, facts: Facts, faults: FaultList) -> LaneRule:
    return lane_named(request.lane or (category.lane if category is not None else None) or "normal", facts, faults)


def lane_named(name: str, facts: Facts, faults: FaultList) -> LaneRule:
    lane = facts.lanes.get(name)
    if lane is None:
        faults.add("lane", "unknown-lane", f"there is no lane {name[:40]!r}; there are {', '.join(facts.lanes)}")
        return LaneRule(1, name)
    return lane


def tags_of(request: TaskRequest, faults: FaultList) -> str | None:
    if not request.tags:
        return None
    check_tags(request, faults)
    return msgspec.json.encode(request.tags).decode()


def log_limit_of(request: TaskRequest, facts: Facts, faults: FaultList) -> int | None:
    """How much output of each attempt is kept; None: as the agent does by itself."""
    wanted = needs.log_limit_of(request, faults)
    most = facts.plan.log_limit_bytes
    if wanted is None:
        return most if most is not None and most < facts.log_limit_bytes else None
    if most is not None and wanted > most:
        detail = f"{wanted} bytes are more than the {most} that plan {facts.plan.name} keeps of an attempt's output"
        faults.add("log_limit", "out-of-range", detail)
    if facts.most_log_bytes is not None and wanted > facts.most_log_bytes:
        detail = f"{wanted} bytes need an object store, which this server has not; at most {facts.most_log_bytes}"
        faults.add("log_limit", "no-object-store", detail)
    return wanted


def spec_head_of(
    request: TaskRequest,
    isolation: Isolation,
    secrets: tuple[str, ...],
    attached: dict[str, object],
    *,
    owner: str,
    log_limit: int | None,
    cpu_limit: CpuLimit | None,
) -> str:
    """`cpu_limit` None: the one that a spec without the field means, so that most specs need not be decoded for it."""
    # What the leader adds to a start comes first: it reads only the head of a spec (`model/spec_head.py`).
    fields: dict[str, object] = {"may_submit": True} if request.may_submit else {}
    fields |= {"secrets": secrets} if secrets else {}
    fields |= {
        name: getattr(request, name)
        for name in ("command", "script", "path", "interpreter", "function", "image")
        if getattr(request, name) is not None
    }
    for name in ("env", "network", "processes", "mounts"):
        if getattr(request, name):
            fields[name] = getattr(request, name)
    if request.mounts:
        fields["owner"] = owner  # the agent checks for which tenants a mount is
    if isolation is not Isolation.NONE:
        fields["isolation"] = isolation
    if cpu_limit is not None:
        fields["cpu_limit"] = cpu_limit
    if log_limit is not None:
        fields["log_limit"] = log_limit
    fields |= attached
    return msgspec.json.encode(fields).decode()[:-1]
