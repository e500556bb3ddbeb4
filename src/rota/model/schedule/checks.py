"""Turns a request into a schedule, or reports every fault with its field. Pure.

Admission judges the tasks, as if they were submitted now.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from rota.model.clock import EPOCH
from rota.model.errors import Fault, FaultList
from rota.model.request.rules import amount_of
from rota.model.request.task_request import MAX_BATCH, TaskRequest
from rota.model.schedule.request import ScheduledWork, ScheduleRequest
from rota.model.schedule.rules import check_zone, instant_of, parse_rule
from rota.model.schedule.schedule import Missed, Overlap, Rule, RuleKind, Schedule
from rota.model.units import milliseconds_of

MOST_MISSED = 1_000
LONGEST_JITTER_MS = 86_400_000
MOST_RUNS = 2**31 - 1
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z", re.ASCII)
GRAPH_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")

Choice = TypeVar("Choice", bound=StrEnum)


def applied(request: ScheduleRequest, before: Schedule, *, now: datetime, new: bool, faults: FaultList) -> Schedule:
    """The schedule `before` with the request applied. It must not be stored if `faults` has any afterwards."""
    rule = _rule(request, before, now, new, faults)
    ends_at = _instant("ends_at", request.ends_at, rule.zone, faults)
    given = None if request.jitter is UNSET else request.jitter
    jitter = amount_of("jitter", given, milliseconds_of, 0, LONGEST_JITTER_MS, "from 0 to 1d", faults)
    return replace(
        before,
        rule=rule,
        request=_tasks(request, before, new, faults),
        missed=_choice("missed", request.missed, before.missed, Missed, faults),
        missed_limit=_whole("missed_limit", request.missed_limit, before.missed_limit, MOST_MISSED, faults) or 1,
        overlap=_choice("overlap", request.overlap, before.overlap, Overlap, faults),
        jitter_ms=before.jitter_ms if request.jitter is UNSET else jitter or 0,
        at_most=_whole("at_most", request.at_most, before.at_most, 1_000_000, faults),
        ends_at=before.ends_at if request.ends_at is UNSET else ends_at,
        max_runs=_whole("max_runs", request.max_runs, before.max_runs, MOST_RUNS, faults),
        paused=before.paused if request.paused is UNSET else request.paused,
    )


def faults_alone(request: ScheduleRequest, *, called: str = "") -> list[Fault]:
    """The faults that need no server to find. The task may be left out."""
    faults = FaultList()
    whole = request
    if request.task is UNSET and request.tasks is UNSET:
        whole = msgspec.structs.replace(request, task=TaskRequest(command=["true"]))
    blank = Schedule(tenant=0, name=called, user="", rule=Rule(RuleKind.AT, ""), request="")
    applied(whole, blank, now=EPOCH, new=True, faults=faults)
    return faults.faults


def check_name(name: object, faults: FaultList) -> str:
    if not isinstance(name, str) or not NAME.match(name):
        shown = "it is missing" if name is UNSET else f"{str(name)[:60]!r} is not one"
        faults.add("name", "invalid-name", f"a schedule has a name: letters, digits, . _ -, up to 100; {shown}")
        return ""
    return name


def _rule(request: ScheduleRequest, before: Schedule, now: datetime, new: bool, faults: FaultList) -> Rule:
    given = [(kind, getattr(request, kind.value)) for kind in RuleKind if getattr(request, kind.value) is not UNSET]
    names = ", ".join(RuleKind)
    zone = before.rule.zone if request.zone is UNSET else request.zone
    if len(given) > 1 or (new and not given):
        both = " and ".join(kind.value for kind, _ in given)
        wrong = f"give one of {names}; {both} are given" if given else f"say when: one of {names}"
        faults.add("", "invalid-rule", wrong)
        check_zone(zone, faults)
        for kind, text in given:  # a dummy zone, so that each fault is found once
            parse_rule(kind, str(text), zone="UTC", anchor=None, now=now, faults=faults)
        return before.rule
    if not given and request.zone is UNSET and request.anchor is UNSET:
        return before.rule
    kind, text = given[0] if given else (before.rule.kind, before.rule.text)
    anchor = None
    if request.anchor is not UNSET:
        anchor = _instant("anchor", request.anchor, zone, faults)
    elif not given:
        anchor = before.rule.anchor
    return parse_rule(kind, str(text), zone=zone, anchor=anchor, now=now, faults=faults) or before.rule


def _tasks(request: ScheduleRequest, before: Schedule, new: bool, faults: FaultList) -> str:
    if request.task is not UNSET and request.tasks is not UNSET:
        faults.add("task", "invalid-command", "give one task, or tasks, not both")
        return before.request
    if request.task is UNSET and request.tasks is UNSET:
        if new:
            faults.add("task", "missing-field", "say what to run: a task, or tasks")
        if request.graph is not UNSET:
            faults.add("graph", "unknown-field", "it names the graph of tasks; give them too")
        return before.request
    single = request.task is not UNSET
    tasks: list[TaskRequest] = [request.task] if request.task is not UNSET else list(request.tasks or [])
    if not 1 <= len(tasks) <= MAX_BATCH:
        faults.add("tasks", "out-of-range", f"a run has 1 to {MAX_BATCH} tasks, not {len(tasks)}")
    at_most = before.at_most if request.at_most is UNSET else request.at_most
    for index, one in enumerate(tasks):
        _task(one, "task" if single else f"tasks/{index}", at_most, faults)
    return msgspec.json.encode(ScheduledWork(tasks=tasks, graph=_graph(request, before, single, faults))).decode()


def _task(one: TaskRequest, where: str, at_most: int | None, faults: FaultList) -> None:
    """Refuses fields that a task of a schedule can't have: the schedule sets them, or every run is new."""
    if one.at is not None:
        faults.add(f"{where}/at", "inconsistent-times", "the schedule says when; leave at out, or use delay")
    if one.idempotency_key is not None:
        faults.add(f"{where}/idempotency_key", "idempotency-key-invalid", "every run is new; leave the key out")
    for field in ("after", "after_end", "after_failed"):
        if any(isinstance(parent, int) for parent in getattr(one, field)):
            faults.add(f"{where}/{field}", "unknown-dependency", "a run's tasks come after refs of the same run only")
    if at_most is not None and (one.concurrency_key is not None or (one.array is not None and "%" in one.array)):
        faults.add("at_most", "out-of-range", "at_most is a concurrency key; the task has one of its own")


def _graph(request: ScheduleRequest, before: Schedule, single: bool, faults: FaultList) -> str | None:
    """The name of the graph; None: the schedule runs one task."""
    if request.graph is UNSET:
        return None if single else before.name
    if single:
        faults.add("graph", "unknown-field", "one task is no graph; give tasks, or leave it out")
    elif not GRAPH_NAME.fullmatch(request.graph) or not request.graph.strip():
        detail = f"{request.graph[:60]!r} is not a graph's name: 1 to 200 printable characters"
        faults.add("graph", "invalid-name", detail)
    return request.graph


def _choice(name: str, value: object, before: Choice, kind: type[Choice], faults: FaultList) -> Choice:
    if value is UNSET:
        return before
    if value not in set(kind):
        faults.add(name, "out-of-range", f"{str(value)[:40]!r} is not one of {', '.join(kind)}")
        return before
    return kind(str(value))


def _whole(name: str, value: Any, before: int | None, most: int, faults: FaultList) -> int | None:
    if value is UNSET:
        return before
    if value is not None and not 1 <= value <= most:
        faults.add(name, "out-of-range", f"it is a whole number from 1 to {most:,}, not {value}")
        return before
    return None if value is None else int(value)


def _instant(name: str, value: object, zone: str, faults: FaultList) -> datetime | None:
    if value is UNSET or value is None:
        return None
    return given_instant(name, str(value), zone, faults)


def given_instant(name: str, text: str, zone: str, faults: FaultList) -> datetime | None:
    """A time with a zone, or a local one in the schedule's."""
    try:
        at = instant_of(text, zone)
    except (KeyError, ValueError):  # the zone is wrong, which is a fault already
        return None
    if at is None:
        faults.add(
            name,
            "invalid-time",
            f"{text[:60]!r} is not a time after 1970-01-01T00:00:00Z; write one such as 2030-01-31T08:00:00Z",
        )
    return at
