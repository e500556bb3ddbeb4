"""Schedules and their occurrences: due schedules, runs, skips and cursors, by the clock for schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.model.schedule.schedule import Schedule
from rota.simulate.world.database.contents import Statements
from rota.simulate.world.database.rows import Row
from rota.simulate.world.timekeeper import Timekeeper
from rota.simulate.world.timetable import Timetable

_SAME_NAMES = (
    *("id", "tenant", "name", "request", "missed_limit", "jitter_ms", "runs", "paused"),
    *("next_at", "previous_at", "version"),
)


class Schedules:
    def __init__(self, timetable: Timetable, timekeeper: Timekeeper, now: Callable[[], datetime]) -> None:
        self._timetable = timetable
        self._timekeeper = timekeeper
        self._now = now
        self.statements: Statements = {
            "schedules/lock_due_schedules": self._lock_due,
            "schedules/insert_occurrences": self._insert_occurrences,
            "schedules/insert_skips": self._insert_skips,
            "schedules/move_cursors": self._move_cursors,
            "schedules/transaction_time": lambda: [(self._now(),)],
            "schedules/seconds_to_next": self._seconds_to_next,
            "schedules/read_schedule": self._read,
            "schedules/lock_schedule": self._read,
            "schedules/save_schedule": self._save,
        }

    def _read(self, tenant: int, name: str) -> list[Any]:
        return [
            _row(schedule)
            for schedule in self._timetable.rows.values()
            if (schedule.tenant, schedule.name) == (tenant, name)
        ]

    def _save(self, number: int, tenant: int, *said: Any) -> list[Any]:
        """Saves the fields that owners change here: paused, and the cursor."""
        paused, next_at, moved_from, previous_at = said[-5:-1]
        schedule = self._timetable.rows[number]
        self._timetable.rows[number] = replace(
            schedule,
            paused=paused,
            next_at=next_at,
            moved_from=moved_from,
            previous_at=previous_at,
            version=schedule.version + 1,
        )
        return [_row(self._timetable.rows[number])]

    def _lock_due(self, limit: int, next_at: datetime, number: int) -> list[Any]:
        now = self._now()
        due = [
            (schedule.next_at, schedule.id, schedule)
            for schedule in self._timetable.rows.values()
            if schedule.next_at is not None
            and not schedule.paused
            and schedule.next_at <= now
            and (schedule.next_at, schedule.id) > (next_at, number)
        ]
        return [_row(schedule) for _, _, schedule in sorted(due, key=lambda found: found[:2])[:limit]]

    def _insert_occurrences(self, numbers: list[int], instants: list[datetime], *_: Any) -> list[Any]:
        new = []
        for key in zip(numbers, instants, strict=True):
            if key not in self._timetable.occurrences:
                self._timetable.occurrences.add(key)
                new.append(Row(schedule=key[0], instant=key[1]))
        return new

    def _insert_skips(
        self,
        numbers: list[int],
        instants: list[datetime],
        _tenants: Any,
        _kinds: Any,
        reasons: list[str],
        untils: list[Any],
    ) -> list[Any]:
        for number, instant, reason, until in zip(numbers, instants, reasons, untils, strict=True):
            if (number, instant) not in self._timetable.occurrences:
                self._timetable.occurrences.add((number, instant))
                self._timekeeper.skipped(number, instant, until, reason)
        return []

    def _move_cursors(
        self, numbers: list[int], next_at: list[Any], previous_at: list[Any], runs: list[int], *_: Any
    ) -> list[Any]:
        rows = self._timetable.rows
        for number, following, before, count in zip(numbers, next_at, previous_at, runs, strict=True):
            schedule = rows[number]
            rows[number] = replace(
                schedule, next_at=following, previous_at=before, moved_from=None, runs=schedule.runs + count
            )
        return []

    def _seconds_to_next(self) -> list[Any]:
        """In seconds of the cluster's clock."""
        coming = [
            schedule.next_at
            for schedule in self._timetable.rows.values()
            if schedule.next_at is not None and not schedule.paused
        ]
        if not coming:
            return [(None,)]
        return [((min(coming) - self._now()).total_seconds() / self._timetable.speed,)]


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
