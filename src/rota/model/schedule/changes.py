"""What differs between two states of a schedule, field by field, for people and programs. Pure.

Fields have the names of `ScheduleDocument`; those of its work are `task.memory`, or `tasks.load.memory` in a graph.
Values of variables are hidden, as in every answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.model.artifact import digits_of, short_identity
from rota.model.schedule.schedule import Rule, RuleKind, Schedule
from rota.model.units import milliseconds_of

Changes = dict[str, tuple[Any, Any]]

HIDDEN = "(hidden)"
_POLICIES = ("missed", "missed_limit", "overlap", "at_most", "ends_at", "max_runs", "paused")
_MAPPINGS = ("env", "tags", "files", "custom", "require")  # fields whose entries are compared one by one


def over(wanted: Schedule, before: Schedule, *, keeps_pause: bool, keeps_anchor: bool) -> Schedule:
    """`before` with all that its owner can choose as in `wanted`; its progress stays.

    `keeps_pause`, `keeps_anchor`: the owner has said nothing of them. Work that means the same stays as it is stored.
    """
    rule = wanted.rule
    if keeps_anchor and _same_interval(rule, before.rule):
        rule = replace(rule, anchor=before.rule.anchor)
    same_work = json.loads(wanted.request) == json.loads(before.request)
    return replace(
        before,
        rule=rule,
        request=before.request if same_work else wanted.request,
        artifacts=before.artifacts if same_work else wanted.artifacts,
        jitter_ms=wanted.jitter_ms,
        **{name: getattr(wanted, name) for name in _POLICIES if name != "paused" or not keeps_pause},
    )


def changes_between(before: Schedule, after: Schedule) -> Changes:
    """The owner's choices that differ: name → before and after."""
    found = [
        ("rule", _rule(before.rule), _rule(after.rule)),
        ("zone", before.rule.zone, after.rule.zone),
        ("anchor", _shown(before.rule.anchor), _shown(after.rule.anchor)),
        ("jitter_seconds", before.jitter_ms / 1000, after.jitter_ms / 1000),
        *((name, _shown(getattr(before, name)), _shown(getattr(after, name))) for name in _POLICIES),
        *_work(json.loads(before.request), json.loads(after.request)),
    ]
    return {name: (old, new) for name, old, new in found if old != new}


def _same_interval(one: Rule, other: Rule) -> bool:
    if not one.kind is other.kind is RuleKind.EVERY:
        return False
    return milliseconds_of(one.text) == milliseconds_of(other.text)


def _rule(rule: Rule) -> str:
    return f"{rule.kind} {rule.text}"


def _shown(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


Change = tuple[str, Any, Any]


def _work(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    old, new = _named(before), _named(after)
    yield "graph", before.get("graph"), after.get("graph")
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            mine, other = (None if one is None else _title(one) for one in (old.get(name), new.get(name)))
            yield name, mine, other
        else:
            yield from _task(name, old[name], new[name])


def _named(work: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tasks by the prefix of their fields: `task`, or `tasks.NAME`."""
    if work.get("graph") is None:
        return {"task": work["tasks"][0]}
    return {f"tasks.{one.get('ref') or one.get('name') or index}": one for index, one in enumerate(work["tasks"])}


def _task(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    for field in dict.fromkeys([*old, *new]):
        mine, other = old.get(field), new.get(field)
        if field not in _MAPPINGS:
            yield f"{name}.{field}", mine, other
            continue
        for key in dict.fromkeys([*(mine or {}), *(other or {})]):
            one, two = (mine or {}).get(key), (other or {}).get(key)
            if one != two:
                yield f"{name}.{field}.{key}", *(_hidden(one, two) if field == "env" else (one, two))


def _hidden(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """The values must differ for the change to be seen."""
    return (None if before is None else HIDDEN), (None if after is None else f"{HIDDEN}, new")


def _title(task: dict[str, Any]) -> str:
    """What a task runs, in a few words."""
    command = task.get("command")
    if command is not None:
        return " ".join(map(str, command))
    if task.get("upload"):
        return f"upload {short_identity(digits_of(task['upload']) or task['upload'])}"
    return next((f"{kind} {task[kind]}" for kind in ("function", "path") if task.get(kind)), "script")


def work_text(request: str) -> str:
    """What each run starts, in a few words."""
    work = json.loads(request)
    tasks = work["tasks"]
    if work.get("graph") is None:
        array = tasks[0].get("array")
        return _title(tasks[0]) + (f" (array {array})" if array else "")
    names = [name.removeprefix("tasks.") for name in _named(work)]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"graph {work['graph']} of {len(tasks)} task{'s' * (len(tasks) != 1)}: {shown}"
