"""From schedules and occurrences to their answers. Pure."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.schedules import OccurrenceDocument, ScheduleDocument
from rota.model.artifact import identity
from rota.model.schedule.schedule import Schedule
from rota.store.schedules import Occurrence


def schedule_of(one: Schedule) -> ScheduleDocument:
    work = msgspec.json.decode(one.request)
    tasks = work["tasks"]
    for task in tasks:
        if "env" in task:  # values may be private
            task["env"] = sorted(task["env"])
    state = "paused" if one.paused else "ended" if one.next_at is None else "active"
    return ScheduleDocument(
        id=one.id,
        name=one.name,
        state=state,
        rule={one.rule.kind.value: one.rule.text},
        zone=one.rule.zone,
        anchor=one.rule.anchor,
        next_at=one.next_at,
        missed=one.missed.value,
        missed_limit=one.missed_limit,
        overlap=one.overlap.value,
        jitter_seconds=one.jitter_ms / 1000,
        at_most=one.at_most,
        ends_at=one.ends_at,
        max_runs=one.max_runs,
        runs=one.runs,
        paused=one.paused,
        last_tasks=list(one.last_tasks),
        last_graph=one.last_graph,
        user=one.user,
        version=one.version,
        created_at=one.created_at,
        changed_at=one.changed_at,
        tasks=tasks,
        graph=work.get("graph"),
        artifacts=[identity(digest) for digest in one.artifacts],
    )


def occurrence_of(one: Occurrence, status: str | None = LEFT_OUT) -> OccurrenceDocument:
    return OccurrenceDocument(
        instant=one.instant,
        until=one.until,
        trigger=one.trigger.label,
        tasks=None if one.tasks is None else list(one.tasks),
        graph=one.graph,
        status=status,
        skipped=one.reason,
        at=one.at,
    )
