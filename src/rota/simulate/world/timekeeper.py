"""The timekeeper: an oracle for schedules that computes instants minute by minute, and a record of runs and skips.

It shares no code with `rota.timetable`. A daily rule is due when the local time first reaches or jumps past its time of
day. A rule by minutes of the hour is due whenever the clock shows such a minute. Every instant must become one run
(I15), in order (I17), or be skipped with a reason (I16).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.task_record import Violation

MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class ScheduleRecord:
    """A schedule's rule (a minute of the day, minutes of each hour, or a period), its runs and its skips."""

    zone: str
    since: datetime
    at_minute: int | None = None
    minutes: frozenset[int] = frozenset()
    every: timedelta | None = None  # counted from `since`
    runs: list[datetime] = field(default_factory=list)
    skips: list[tuple[datetime, datetime]] = field(default_factory=list)  # from, until (exclusive)

    def instants(self, until: datetime) -> list[datetime]:
        if self.every is not None:
            count = (until - self.since) // self.every
            return [self.since + number * self.every for number in range(1, count + 1)]
        zone = ZoneInfo(self.zone)
        at = self.since.replace(second=0, microsecond=0)
        hand = self.since.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)
        due = []
        while at + MINUTE <= until:
            at += MINUTE
            shown = at.astimezone(zone).replace(tzinfo=None)
            if self.at_minute is None:
                if shown.minute in self.minutes:
                    due.append(at)
            elif shown > hand:
                if self._passed(hand, shown):
                    due.append(at)
                hand = shown
        return due

    def _passed(self, before: datetime, shown: datetime) -> bool:
        while before < shown:
            before += MINUTE
            if before.hour * 60 + before.minute == self.at_minute:
                return True
        return False


class Timekeeper:
    def __init__(self, sometimes: Sometimes) -> None:
        self._sometimes = sometimes
        self.schedules: dict[int, ScheduleRecord] = {}

    def ran(self, number: int, instant: datetime, now: datetime) -> None:
        """A task for the instant was committed."""
        record = self.schedules[number]
        if instant in record.runs:
            raise Violation("I15", f"schedule {number} has two tasks for {_iso(instant)}")
        if record.runs and instant < record.runs[-1]:
            raise Violation("I17", f"schedule {number} runs for {_iso(instant)} after {_iso(record.runs[-1])}")
        if instant > now:
            raise Violation("I18", f"schedule {number} runs for {_iso(instant)}, which is in the future")
        record.runs.append(instant)
        if record.at_minute is not None:
            local = instant.astimezone(ZoneInfo(record.zone))
            if local.hour * 60 + local.minute != record.at_minute:
                self._sometimes.hit("DST gap")
            if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
                self._sometimes.hit("DST fold")

    def skipped(self, number: int, first: datetime, until: datetime | None, reason: str) -> None:
        if not reason:
            raise Violation("I16", f"schedule {number} skips {_iso(first)} without a reason")
        self.schedules[number].skips.append((first, until or first + timedelta(microseconds=1)))
        if reason.startswith("missed"):
            self._sometimes.hit("a run was missed")
        if "(all)" in reason:
            self._sometimes.hit("catch-up capped")

    def check(self, until: datetime, paused_from: dict[int, datetime]) -> None:
        """Every instant up to `until` must be a run or a skip. `paused_from`: cursors of paused schedules."""
        end = until
        for number, record in self.schedules.items():
            until = min(end, paused_from.get(number, end) - timedelta(microseconds=1))
            instants = record.instants(max([until, *record.runs]))
            odd = sorted(set(record.runs) - set(instants))
            if odd:
                raise Violation("I17", f"schedule {number} ran for {_iso(odd[0])}, which is no instant of its rule")
            ran = set(record.runs)
            for instant in instants:
                skipped = any(first <= instant < end for first, end in record.skips)
                if instant in ran and skipped:
                    raise Violation("I16", f"schedule {number} ran for {_iso(instant)} and skipped it too")
                if instant <= until and instant not in ran and not skipped:
                    raise Violation("I16", f"schedule {number} neither ran nor skipped {_iso(instant)}")


def _iso(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
