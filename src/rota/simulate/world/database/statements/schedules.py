"""Schedules and their occurrences: due schedules, runs, skips and cursors, by the clock for schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.model.schedule.schedule import Schedule
from rota.simulate.world.database.contents import Contents, Subject
from rota.simulate.world.database.rows import Row
from rota.simulate.world.timekeeper import Timekeeper
from rota.simulate.world.timetable import Timetable

_SAME_NAMES = (
    *("id", "tenant", "name", "request", "missed_limit", "jitter_ms", "runs", "paused"),
    *("next_at", "previous_at", "version"),
)


class Schedules(Subject):
    folders = ("schedules",)

    def __init__(
        self, contents: Contents, timetable: Timetable, timekeeper: Timekeeper, now: Callable[[], datetime]
    ) -> None:
        super().__init__(contents)
        self._timetable = timetable
        self._timekeeper = timekeeper
        self._now = now

    def transaction_time(self) -> list[Any]:
        return [(self._now(),)]

    def read_schedule(self, tenant: int, name: str) -> list[Any]:
        schedules = self._timetable.rows.values()
        return [_row(schedule) for schedule in schedules if (schedule.tenant, schedule.name) == (tenant, name)]

    lock_schedule = read_schedule

    def save_schedule(self, number: int, tenant: int, *fields: Any) -> list[Any]:
        """Saves the fields that owners change here: paused, and the cursor."""
        paused, next_at, moved_from, previous_at = fields[-5:-1]
        schedule = self._timetable.rows[number]
        edited = replace(schedule, paused=paused, next_at=next_at, moved_from=moved_from, previous_at=previous_at)
        self._timetable.rows[number] = replace(edited, version=schedule.version + 1)
        return [_row(self._timetable.rows[number])]

    def lock_due_schedules(self, limit: int, next_at: datetime, number: int) -> list[Any]:
        due = [(at, schedule.id) for at, schedule in self._coming() if at <= self._now()]
        after = [found for found in sorted(due) if found > (next_at, number)]
        return [_row(self._timetable.rows[found]) for _, found in after[:limit]]

    def insert_occurrences(self, numbers: list[int], instants: list[datetime], *_: Any) -> list[Any]:
        new = []
        for key in zip(numbers, instants, strict=True):
            if key not in self._timetable.occurrences:
                self._timetable.occurrences.add(key)
                new.append(Row(schedule=key[0], instant=key[1]))
        return new

    def insert_skips(
        self, numbers: list[int], instants: list[datetime], _tenants: Any, _kinds: Any, *rest: list[Any]
    ) -> list[Any]:
        for number, instant, reason, until in zip(numbers, instants, *rest, strict=True):
            if (number, instant) not in self._timetable.occurrences:
                self._timetable.occurrences.add((number, instant))
                self._timekeeper.skipped(number, instant, until, reason)
        return []

    def move_cursors(
        self, numbers: list[int], next_at: list[Any], previous_at: list[Any], runs: list[int], *_: Any
    ) -> list[Any]:
        rows = self._timetable.rows
        for number, following, before, count in zip(numbers, next_at, previous_at, runs, strict=True):
            schedule = rows[number]
            rows[number] = replace(
                schedule, next_at=following, previous_at=before, moved_from=None, runs=schedule.runs + count
            )
        return []

    def seconds_to_next(self) -> list[Any]:
        """In seconds of the cluster's clock."""
        coming = [at for at, _ in self._coming()]
        return [((min(coming) - self._now()).total_seconds() / self._timetable.speed if coming else None,)]

    def _coming(self) -> list[tuple[datetime, Schedule]]:
        schedules = self._timetable.rows.values()
        return [(one.next_at, one) for one in schedules if one.next_at is not None and not one.paused]


def _row(schedule: Schedule) -> Row:
    rule = schedule.rule
    return Row(
        ((name, getattr(schedule, name)) for name in _SAME_NAMES),
        user_name=schedule.user,
        rule_kind=rule.kind.value,
        rule_text=rule.text,
        zone=rule.zone,
        anchor=rule.anchor,
        missed=schedule.missed.value,
        overlap=schedule.overlap.value,
        last_tasks=[],
    )
