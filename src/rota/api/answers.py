"""From rows to the structures of `model/answers`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import asyncpg
import msgspec
from fastapi import Response

from rota.model.answers.cluster import PlanDocument
from rota.model.answers.fields import LEFT_OUT, only
from rota.model.answers.schedules import OccurrenceDocument, ScheduleDocument
from rota.model.answers.tasks import (
    Amounts,
    ArrayCounts,
    AttemptDocument,
    EndedTask,
    OutputDocument,
    ProgressDocument,
    RetryRules,
    TaskDocument,
    TaskSummary,
)
from rota.model.artifact import identity
from rota.model.attempt import Outcome
from rota.model.isolation import Isolation
from rota.model.request import retry_rules
from rota.model.resources import Resources, unsaid_cpu_limit
from rota.model.schedule.schedule import Schedule
from rota.model.task import STATUS, Kind, Scheduling, State, Upstream
from rota.model.tenant import Plan
from rota.model.tolerance import ToleranceSource, whole_ms
from rota.observe.graph_view import by_status, whole_status
from rota.store.artifacts import AttemptObject
from rota.store.dependents import MOST_SHOWN
from rota.store.graphs import parents_of
from rota.store.schedules import Occurrence

S = TypeVar("S", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


def answer(document: object, status: int = 200) -> Response:
    return Response(_encode(document), status, media_type="application/json")


def filled(kind: type[S], source: Any, /, **others: Any) -> S:
    """An answer with the fields of the same names from a row or an object, and with the others as given."""
    names, read = _reader(kind, tuple(others), isinstance(source, asyncpg.Record))
    others.update(zip(names, read(source), strict=False))
    return kind(**others)


@cache
def _reader(kind: type[msgspec.Struct], others: tuple[str, ...], row: bool) -> tuple[list[str], Callable[[Any], Any]]:
    """The names of the fields that are not among the others, and a function that reads them from a source."""
    names = [name for name in kind.__struct_fields__ if name not in others]
    read = itemgetter if row else attrgetter
    return names, read(*names, names[0])  # twice the first: of a single name there would be no tuple


def instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def task_of(row: asyncpg.Record) -> TaskDocument:
    live = row["live_state"] is not None
    state = State(row["live_state"] if live else row["final_state"])
    running = state is State.RUNNING
    tolerance_ms, source = tolerance_of(row)
    spec = spec_of(row["spec"])
    edits: Any = msgspec.json.decode(row["edits"]) if row["edits"] else []
    after = parents_by_rule(parents_of(row, {}))
    task = filled(
        TaskDocument,
        row,
        history=LEFT_OUT,
        kind=Kind(row["kind"]).label,
        state=state.label,
        status=STATUS[state].value,
        reason=_reason(row, state),
        tenant=row["tenant_name"],
        user=row["user_name"],
        pool=row["pool_name"],
        lane=row["lane_name"],
        priority=row["live_priority"] if live else row["priority"],
        scheduling=Scheduling(row["scheduling"]).label,
        admitted_by=row["server_name"],
        resources=resources_of_row(row),
        cpu_limit=spec.get("cpu_limit") or unsaid_cpu_limit(spec.get("isolation", Isolation.NONE)),
        require=msgspec.json.decode(row["require"]),
        unplaceable="wait" if row["unplaceable_waits"] else "refuse",
        cap_seconds=(row["live_cap_ms"] if live else row["cap_ms"]) / 1000,
        on_late="drop" if row["expires"] else "keep",
        tolerance_seconds=None if tolerance_ms is None else tolerance_ms / 1000,
        tolerance_source=source,
        retry_rules=rules_of(row["retry_rules"]),
        attempt=row["live_attempt"] if live else (row["last_number"] or 0),
        next_attempt_at=row["live_wake_at"] if state is State.DELAYED else None,
        not_before=row["moved_to"] or row["not_before"],
        start_by=start_by_of(row),
        started_at=row["live_started_at"] if running else row["final_started_at"],
        node=row["live_node"] if running else row["final_node"],
        run_seconds=None if row["run_us"] is None else row["run_us"] / 1e6,
        cpu_seconds=(row["cpu_ms"] or 0) / 1000,
        peak_memory_bytes=row["peak_memory_bytes"] or 0,
        written_bytes=row["written_bytes"] or 0,
        log_bytes=row["log_bytes"] or 0,
        log_dropped_bytes=row["log_dropped_bytes"] or 0,
        result=raw_json(row["result"]),
        failure=raw_json(row["failure"] if not live else row["last_failure"]),
        outcome=None if row["final_outcome"] is None else Outcome(row["final_outcome"]).label,
        cancelling=bool(row["cancel_requested"]),
        pausing=bool(row["pause_requested"]),
        progress=progress_of(row),
        after=after[Upstream.SKIP],
        after_end=after[Upstream.RUN],
        after_failed=after[Upstream.FAILED],
        upstream=Upstream(row["upstream"]).label,
        dependents=row["dependents"][:MOST_SHOWN],
        more_dependents=len(row["dependents"]) > MOST_SHOWN,
        tags=raw_json(row["tags"]) or {},
        concurrency_scope=_scope(row),
        index=row["array_index"],
        schedule=row["schedule_name"],
        spec=spec,
        retry_after=retry_after(state, row["failure"]),
        version=row["live_version"],
        edits=edits,
        array=LEFT_OUT,
        outputs=LEFT_OUT,
    )
    if live or not edits:
        return task
    # The queue's row is gone: the edited values are in the record.
    edited = {name: value for edit in edits for name, (_, value) in edit["changes"].items()}
    if "tolerance_seconds" in edited:
        edited["tolerance_source"] = ToleranceSource.GIVEN.label
    if row["ran_lane"] is not None:
        edited.pop("lane", None)  # the lane it ran in counts
    return msgspec.structs.replace(task, **edited)


def tolerance_of(row: asyncpg.Record) -> tuple[int | None, str]:
    """A task's tolerance, None if nobody gave one, and who gave it."""
    if row["live_tolerance_ms"] is not None:
        return row["live_tolerance_ms"], ToleranceSource.GIVEN.label  # by an edit
    if row["tolerance_source"] is None:  # admitted by the previous version
        given: bool = row["tolerance_given"]
        return (row["tolerance_ms"], ToleranceSource.GIVEN.label) if given else (None, ToleranceSource.NONE.label)
    return whole_ms(row["tolerance_ms"], row["leeway_ms"]), ToleranceSource(row["tolerance_source"]).label


def start_by_of(row: asyncpg.Record) -> datetime | None:
    """When the task's tolerance ends. The column `start_by` is its place in the queue, which may be earlier."""
    live = row["live_state"] is not None
    leeway_ms = row["live_leeway_ms"] if live else row["leeway_ms"]
    if tolerance_of(row)[0] is None:
        return None
    ordered: datetime = row["live_start_by"] if live else row["start_by"]
    return ordered + timedelta(milliseconds=leeway_ms or 0)


def parents_by_rule(parents: Sequence[tuple[int, Upstream]]) -> dict[Upstream, list[int]]:
    """The tasks that a task runs after, by how each must end."""
    return {rule: [parent for parent, required in parents if required is rule] for rule in Upstream}


def rules_of(text: str | None) -> RetryRules | None:
    """The retry rules, as the owner wrote them."""
    rules = retry_rules.decode(text)
    if not rules:
        return None
    return RetryRules(
        retry_on=[rule.text for rule in rules if rule.retry],
        fail_on=[rule.text for rule in rules if not rule.retry],
    )


def _scope(row: asyncpg.Record) -> str | None:
    if row["concurrency_key"] is None:
        return None
    return "global" if row["concurrency_global"] else "pool"


def output_of(stored: AttemptObject) -> OutputDocument:
    return OutputDocument(
        name=stored.name,
        artifact=identity(stored.sha256),
        sha256=stored.sha256.hex(),
        size_bytes=stored.size_bytes,
    )


def _reason(row: asyncpg.Record, state: State) -> str | None:
    if row["reason"]:
        return str(row["reason"])
    if state is State.PAUSED:
        return row["held_reason"] or "paused by its owner"
    if state is State.BLOCKED:
        return f"waits for {', '.join(str(task) for task in row['after_tasks'] or ())}"
    if state is State.DELAYED and row["last_number"]:
        how = how_it_ended(row["last_failure"])
        return f"attempt {row['last_number']} {how}; the next starts at {instant(row['live_wake_at'])}"
    if state is State.DELAYED:
        return f"starts at {instant(row['live_wake_at'])}"
    return None


def how_it_ended(failure: str | None) -> str:
    """Why a task starts again later: its attempt failed, or asked to be retried, or waits for its image."""
    known: dict[str, Any] = msgspec.json.decode(failure) if failure else {}
    return str(known["message"]) if known.get("type") in ("retry", "image-pull") else "failed"


def raw_json(text: str | None) -> Any:
    """Stored JSON is sent as it is, without decoding."""
    return None if text is None else msgspec.Raw(text.encode())


def spec_of(text: str) -> dict[str, Any]:
    """What runs. Of the environment only the names: values may be private."""
    spec: dict[str, Any] = msgspec.json.decode(text)
    if "env" in spec:
        spec["env"] = sorted(spec["env"])
    return spec


def resources_of_row(row: Mapping[str, Any] | asyncpg.Record) -> Amounts:
    custom = row["custom"]
    return Amounts(
        cpu=row["cpu_milli"] / 1000,
        memory_bytes=row["memory_bytes"],
        disk_bytes=row["disk_bytes"],
        iops=row["iops"],
        bandwidth_bits=row["bandwidth_kbit"] * 1000,
        gpus=row["gpus"] + row["gpu_milli"] / 1000 if row["gpu_milli"] else row["gpus"],
        ports=row["ports"],
        custom=msgspec.json.decode(custom) if isinstance(custom, str) else custom,
    )


def amounts_of(amounts: Resources) -> Amounts:
    return resources_of_row(msgspec.structs.asdict(amounts))


def summary_of(row: asyncpg.Record, names: Mapping[int, str]) -> TaskSummary:
    """`names`: of tasks of graphs, those they have there."""
    state = State(row["state"])
    return filled(
        TaskSummary,
        row,
        kind=Kind(row["kind"]).label,
        state=state.label,
        status=STATUS[state].value,
        user=row["user_name"],
        lane=row["lane_name"],
        next_attempt_at=row["wake_at"] if state is State.DELAYED else None,
        run_seconds=None if row["run_us"] is None else row["run_us"] / 1e6,
        progress=progress_of(row),
        tags=raw_json(row["tags"]) or {},
        name_in_graph=names.get(row["id"], LEFT_OUT),
        array=LEFT_OUT,
    )


def counts_of(row: asyncpg.Record) -> dict[State, int]:
    """How many tasks of an array or a graph are in each state."""
    return {State(state): count for state, count in zip(row["states"] or (), row["counts"] or (), strict=True)}


def array_of(row: asyncpg.Record) -> TaskSummary:
    """An array in a list of tasks: one entry, with its tasks counted."""
    counts = counts_of(row)
    status = whole_status(counts)
    return only(
        TaskSummary,
        id=row["id"],
        name=row["name"],
        kind="array",
        state=status.value,
        status=status.value,
        user=row["user_name"],
        created_at=row["created_at"],
        array=ArrayCounts(size=sum(counts.values()), counts=by_status(counts)),
    )


def retry_after(state: State, failure: str | None) -> float | None:
    """Of an expired task: after how many seconds to try again."""
    if state is not State.EXPIRED or failure is None:
        return None
    seconds: float | None = msgspec.json.decode(failure).get("retry_after")
    return seconds


def progress_of(row: asyncpg.Record) -> ProgressDocument | None:
    """The latest progress of a running attempt; None if it has reported none."""
    if row["progress_at"] is None:
        return None
    fraction = row["fraction"]
    return ProgressDocument(
        fraction=None if fraction is None else round(fraction, 6),  # stored with single precision
        message=row["progress_message"],
        at=row["progress_at"],
    )


def outcome_of(row: asyncpg.Record) -> EndedTask:
    state = State(row["state"])
    return EndedTask(
        id=row["task"],
        state=state.label,
        status=STATUS[state].value,
        outcome=Outcome(row["outcome"]).label,
        result=raw_json(row["result"]),
        failure=raw_json(row["failure"]),
        reason=row["reason"],
        exit_code=row["exit_code"],
        retry_after=retry_after(state, row["failure"]),
    )


def attempt_of(row: asyncpg.Record) -> AttemptDocument:
    return filled(
        AttemptDocument,
        row,
        name=LEFT_OUT,
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]).label,
        state=State(row["state"]).label if row["state"] else None,
        run_seconds=None if row["run_us"] is None else row["run_us"] / 1e6,
        frozen_seconds=None if row["frozen_us"] is None else row["frozen_us"] / 1e6,
        cpu_seconds=None if row["cpu_ms"] is None else row["cpu_ms"] / 1000,
        failure=raw_json(row["failure"]),
    )


def plan_of(plan: Plan) -> PlanDocument:
    return filled(
        PlanDocument,
        plan,
        running_cpu=None if plan.running_cpu_milli is None else plan.running_cpu_milli / 1000,
        tolerance_seconds=None if plan.tolerance_ms is None else plan.tolerance_ms / 1000,
    )


def schedule_of(one: Schedule) -> ScheduleDocument:
    work = msgspec.json.decode(one.request)
    tasks = work["tasks"]
    for task in tasks:
        if "env" in task:  # values may be private
            task["env"] = sorted(task["env"])
    state = "paused" if one.paused else "ended" if one.next_at is None else "active"
    return filled(
        ScheduleDocument,
        one,
        state=state,
        rule={one.rule.kind.value: one.rule.text},
        zone=one.rule.zone,
        anchor=one.rule.anchor,
        jitter_seconds=one.jitter_ms / 1000,
        tasks=tasks,
        graph=work.get("graph"),
        artifacts=[identity(digest) for digest in one.artifacts],
    )


def occurrence_of(one: Occurrence, status: str | None = LEFT_OUT) -> OccurrenceDocument:
    return filled(
        OccurrenceDocument,
        one,
        trigger=one.trigger.label,
        tasks=None if one.tasks is None else list(one.tasks),
        status=status,
        skipped=one.reason,
    )
