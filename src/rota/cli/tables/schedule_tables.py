"""Tables of schedules, their next times, and their runs and skips."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.cli.shell.terminal import escape
from rota.cli.tables import waiting_tables
from rota.cli.tables.render import Column, facts, span, table
from rota.model.answers import schedules as documents
from rota.model.units import amount_text

_LONGEST_VALUE = 80


def page(answer: documents.SchedulePage) -> str:
    columns = ("NAME~", "STATE", "RULE~", "ZONE", "NEXT", "RUNS>?")
    rows = [
        (one.name, one.state, _rule(one), one.zone, _local(one.next_at, one.zone), str(one.runs))
        for one in answer.schedules
    ]
    shown = table(columns, rows, empty="no schedules: make one with rota schedule add")
    return shown if answer.next is None else f"{shown}\nmore: --after {answer.next}"


def one(answer: documents.ScheduleDocument) -> str:
    what = [" ".join(map(str, task.get("command") or [task.get("function") or "script"])) for task in answer.tasks]
    return facts(
        (
            ("name", answer.name),
            ("state", answer.state),
            ("rule", _rule(answer)),
            ("zone", answer.zone),
            ("next", _local(answer.next_at, answer.zone)),
            ("runs", what[0] if answer.graph is None else f"graph {answer.graph} of {amount_text(len(what), 'task')}"),
            ("files", " ".join(one[:19] for one in answer.artifacts)),
            ("missed", f"{answer.missed} (at most {answer.missed_limit})" if answer.missed == "all" else answer.missed),
            ("overlap", answer.overlap),
            ("jitter", f"{answer.jitter_seconds:g} s" if answer.jitter_seconds else ""),
            ("at most", str(answer.at_most or "")),
            ("ends at", _local(answer.ends_at, answer.zone)),
            (
                "had",
                f"{answer.runs} of {amount_text(answer.max_runs, 'run')}"
                if answer.max_runs
                else amount_text(answer.runs, "run"),
            ),
            ("last graph", str(answer.last_graph or "")),
            ("last tasks", _numbers(answer.last_tasks)),
            ("user", answer.user),
            ("version", str(answer.version)),
        )
    )


def applied(answer: documents.AppliedSchedule) -> str:
    one = answer.schedule
    following = (
        f"it runs next at {_local(one.next_at, one.zone)}" if one.next_at is not None else "it has no run to come"
    )
    if one.paused:
        following = "it is paused"
    return "\n".join([f"{one.name}: {answer.result}; {following}", *changes(answer.changes)])


def changes(found: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """A line for each field that differs."""
    return [
        f"  {escape(_named(name))}: {_value(name, old)} → {_value(name, new)}" for name, (old, new) in found.items()
    ]


def preview(answer: documents.SchedulePreview) -> str:
    rule = " ".join(f"{kind} {text}" for kind, text in answer.rule.items())
    known = "unchanged" if answer.result == "unchanged" else f"would be {answer.result}"
    parts = [
        "\n".join([f"{answer.name}: {known}", *changes(answer.changes)]),
        facts(
            (
                ("accepted", "yes" if answer.accepted else "no, not now"),
                *(("refusal", f"{refusal.type}: {refusal.detail}") for refusal in answer.refusals),
                ("rule", f"{rule} ({answer.zone})"),
                *(("note", note) for note in answer.notes),
            )
        ),
        _coming(answer),
    ]
    if answer.run is not None:
        parts.append("A run of it, if it were submitted now:\n" + waiting_tables.preview(answer.run))
    return "\n\n".join(parts)


def _coming(answer: documents.SchedulePreview) -> str:
    columns = (Column(f"NEXT ({answer.zone})"), "UTC?", "INTERVAL FROM", "STARTS BY?", "RUNS~")
    rows = [
        (
            _local(one.instant, answer.zone),
            "" if answer.zone == "UTC" else _utc(one.instant),
            _utc(one.interval_start),
            _utc(one.starts_by),
            one.runs,
        )
        for one in answer.next
    ]
    return table(columns, rows, empty="no run to come")


def _named(field: str) -> str:
    """The field in words; the names of tasks and variables in it stay as they are."""
    return field.removesuffix("_seconds").replace("_", " ") if "." not in field else field


def _value(field: str, value: Any) -> str:
    """One line, shortened: scripts are long."""
    if value is None:
        return "not given"
    if field.endswith("_seconds") and isinstance(value, int | float):
        return span(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = escape(" ".join(text.split()))
    return line if len(line) <= _LONGEST_VALUE else f"{line[: _LONGEST_VALUE - 1]}… ({len(text.splitlines())} lines)"


def _utc(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def coming(answer: documents.ScheduleDocument) -> str:
    if answer.next_at is None:
        return f"{answer.name} has no run to come"
    return f"{answer.name} runs next at {_local(answer.next_at, answer.zone)}"


def ahead(answer: documents.NextRuns) -> str:
    rows = [(_local(at, answer.zone), at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")) for at in answer.next]
    columns = (Column(answer.zone), "UTC") if answer.zone != "UTC" else ("UTC",)
    shown = table(columns, [row[: len(columns)] for row in rows], empty="no run to come")
    return f"{shown}\n(paused: nothing runs until it is resumed)" if answer.paused and rows else shown


def history(answer: documents.OccurrencePage) -> str:
    shown = _occurrences(answer.occurrences, empty="nothing has happened yet")
    return shown if answer.next is None else f"{shown}\nmore: --before {answer.next}"


def backfilled(answer: documents.Backfilled) -> str:
    shown = _occurrences(answer.occurrences, empty="no time without a run lies there")
    return f"{shown}\n{len(answer.already)} had their run before" if answer.already else shown


def _occurrences(found: list[documents.OccurrenceDocument], *, empty: str) -> str:
    rows = [
        (
            one.instant.isoformat().replace("+00:00", "Z") + ("" if one.until is None else " …"),
            one.trigger,
            "" if one.graph is None else str(one.graph),
            _numbers(one.tasks or []),
            one.status or ("skipped" if one.skipped else ""),
            one.skipped or "",
        )
        for one in found
    ]
    columns = ("INSTANT", "BY", "GRAPH?", "TASKS", "STATUS", "SKIPPED BECAUSE~")
    return table(columns, rows, empty=empty)


def _numbers(tasks: list[int]) -> str:
    return " ".join(map(str, tasks[:5])) + (" …" if len(tasks) > 5 else "")


def _rule(answer: documents.ScheduleDocument) -> str:
    return " ".join(f"{kind} {text}" for kind, text in answer.rule.items())


def _local(at: datetime | None, zone: str) -> str:
    """In the schedule's zone, or in UTC if this machine does not know the zone."""
    if at is None:
        return ""
    try:
        return at.astimezone(ZoneInfo(zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")
    except (ZoneInfoNotFoundError, ValueError):
        return at.astimezone(UTC).strftime("%a %Y-%m-%d %H:%M:%SZ")
