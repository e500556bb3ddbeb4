"""An independent oracle for schedules: looks at every minute and asks what the clock on the wall shows.

It shares no code with `rota.timetable`. A rule at times of day is a hand that never goes back: an instant is due when
the hand reaches or jumps past a wanted time. A rule that goes round the clock is due whenever the clock shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

Wanted = Callable[[datetime], bool]  # of a local time, without a zone, at a whole minute
MINUTE = timedelta(minutes=1)


def times_of_day(wanted: Wanted, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Instants past `start` up to `end`; `start` must not be inside a repeated hour."""
    hand = start.astimezone(zone).replace(tzinfo=None)
    at = start
    while at < end:
        at += MINUTE
        shown = at.astimezone(zone).replace(tzinfo=None)
        if shown <= hand:
            continue
        passed = hand + MINUTE
        due = False
        while passed <= shown:
            due = due or wanted(passed)
            passed += MINUTE
        hand = shown
        if due:
            yield at


def round_the_clock(wanted: Wanted, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    at = start
    while at < end:
        at += MINUTE
        if wanted(at.astimezone(zone).replace(tzinfo=None)):
            yield at


def change_of_clocks(zone: ZoneInfo, start: datetime, end: datetime) -> datetime | None:
    """The first change of the offset in a time span, to the minute."""
    step = timedelta(days=20)
    at = start
    while at < end:
        if at.astimezone(zone).utcoffset() != (at + step).astimezone(zone).utcoffset():
            low, high = at, at + step
            while high - low > MINUTE:
                middle = low + (high - low) / 2
                middle = middle.replace(second=0, microsecond=0)
                if middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset():
                    low = middle
                else:
                    high = middle
            return high.astimezone(UTC)
        at += step
    return None
