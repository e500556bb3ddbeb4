"""The timekeeper: an oracle for schedules that looks at every minute, and a book of what became of each instant.

It shares no code with `rota.timetable`. A rule at a time of day is a hand that never goes back: it is due when the hand
reaches or jumps past its time. A rule that goes round the clock is due whenever the clock shows it. Every instant must
become one run (I15), in order (I17), or be told as skipped with a reason (I16).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rota.simulate.world.known import Violation
from rota.simulate.world.sometimes import Sometimes

MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Told:
    """A schedule as its owner said it. Of the three, one: a minute of the day, minutes of each hour, or a period."""

    zone: str
    since: datetime
    at_minute: int | None = None
    minutes: frozenset[int] = frozenset()
    every: timedelta | None = None  # counted from `since`
    runs: list[datetime] = field(default_factory=list)
    skips: list[tuple[datetime, datetime]] = field(default_factory=list)  # from the first on, to before the second

    def instants(self, until: datetime) -> list[datetime]:
        if self.every is not None:
            count = (until - self.since) // self.every
            return [self.since + number * self.every for number in range(1, count + 1)]
        zone = ZoneInfo(self.zone)
        at = self.since.replace(second=0, microsecond=0)
        hand = self.since.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)
        found = []
        while at + MINUTE <= until:
            at += MINUTE
            shown = at.astimezone(zone).replace(tzinfo=None)
            if self.at_minute is None:
                if shown.minute in self.minutes:
                    found.append(at)
            elif shown > hand:
                if self._passed(hand, shown):
                    found.append(at)
                hand = shown
        return found

    def _passed(self, before: datetime, shown: datetime) -> bool:
        while before < shown:
            before += MINUTE
            if before.hour * 60 + before.minute == self.at_minute:
                return True
        return False


class Timekeeper:
    def __init__(self, sometimes: Sometimes) -> None:
        self._sometimes = sometimes
        self.schedules: dict[int, Told] = {}

    def ran(self, number: int, instant: datetime, now: datetime) -> None:
        """A task was made for it, durably."""
        told = self.schedules[number]
        if instant in told.runs:
            raise Violation("I15", f"schedule {number} has two tasks for {_said(instant)}")
        if told.runs and instant < told.runs[-1]:
            raise Violation("I17", f"schedule {number} runs for {_said(instant)} after {_said(told.runs[-1])}")
        if instant > now:
            raise Violation("I18", f"schedule {number} runs for {_said(instant)}, which is to come")
        told.runs.append(instant)
        if told.at_minute is not None:
            local = instant.astimezone(ZoneInfo(told.zone))
            if local.hour * 60 + local.minute != told.at_minute:
                self._sometimes.hit("DST gap")
            if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
                self._sometimes.hit("DST fold")

    def skipped(self, number: int, first: datetime, until: datetime | None, reason: str) -> None:
        if not reason:
            raise Violation("I16", f"schedule {number} skips {_said(first)} without a reason")
        self.schedules[number].skips.append((first, until or first + timedelta(microseconds=1)))
        if reason.startswith("missed"):
            self._sometimes.hit("a run was missed")
        if "(all)" in reason:
            self._sometimes.hit("catch-up capped")

    def check(self, until: datetime, paused_from: dict[int, datetime]) -> None:
        """Every instant up to then has become a run or a skip. `paused_from`: the cursors of those held back now."""
        end = until
        for number, told in self.schedules.items():
            until = min(end, paused_from.get(number, end) - timedelta(microseconds=1))
            wanted = told.instants(max([until, *told.runs]))
            odd = sorted(set(told.runs) - set(wanted))
            if odd:
                raise Violation("I17", f"schedule {number} ran for {_said(odd[0])}, which is no instant of its rule")
            ran = set(told.runs)
            for instant in wanted:
                skipped = any(first <= instant < end for first, end in told.skips)
                if instant in ran and skipped:
                    raise Violation("I16", f"schedule {number} ran for {_said(instant)} and skipped it too")
                if instant <= until and instant not in ran and not skipped:
                    raise Violation("I16", f"schedule {number} neither ran nor skipped {_said(instant)}")


def _said(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
