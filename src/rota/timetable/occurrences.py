"""The UTC instants of a rule: strictly increasing, found in bounded steps. Pure.

Clock changes are handled as in Debian's cron. Rules *at times of day* (once, daily, weekly, monthly, annually, cron
without a leading `*` in minute and hour) run once: on the first pass of a repeated hour, and at the first instant after
a gap that skips their time (`model/schedule/local_times.py`). Rules that *go round the clock* (hourly, and cron with
`*`) run whenever the clock shows their time: on both passes, and not in a gap. `every` counts elapsed time and ignores
clocks.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice

from cronsim import CronSim

from rota.model.clock import from_us, to_us
from rota.model.schedule.local_times import change_between, first_shown, offset_at
from rota.model.schedule.rules import DAYS, LATEST, NICKNAMES, instant_of, period_us, zone_of
from rota.model.schedule.schedule import Rule, RuleKind

MOST_STEPS = 1_000  # transitions or local times examined for one instant; a zone has two transitions a year
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@lru_cache(maxsize=65_536)  # many schedules share a rule and come due together
def next_after(rule: Rule, after: datetime) -> datetime | None:
    """The rule's first instant past `after`. None: there is none before the year 9000."""
    if after >= LATEST - _DAY:
        return None
    found = _next(rule, after.astimezone(UTC))
    assert found is None or found > after, f"{rule} went from {after} to {found}"
    return found if found is not None and found < LATEST else None


def instants(rule: Rule, after: datetime) -> Iterator[datetime]:
    """All instants after `after`, in order."""
    at: datetime | None = after
    while at is not None:
        at = next_after(rule, at)
        if at is not None:
            yield at


def latest(rule: Rule, until: datetime, amount: int, *, since: datetime) -> list[datetime]:
    """The last `amount` instants from `since` to `until`, both included; examines few more."""
    if amount == 0 or until < since:
        return []
    if rule.kind is RuleKind.EVERY:
        period, end = period_us(rule.text), to_us(until)
        near = from_us(max(to_us(since), end - (amount + 1) * period))
        return _between(rule, near, until, most=amount + 2)[-amount:]
    span = timedelta(hours=1)
    while True:
        start = max(since, until - span)
        found = _between(rule, start, until, most=100_000)
        if len(found) >= amount or start == since:
            return found[-amount:]
        span *= 8


def previous(rule: Rule, before: datetime) -> datetime | None:
    """The rule's last instant before `before` in nine years, the longest distance of leap days."""
    found = latest(rule, before - timedelta(microseconds=1), 1, since=before - timedelta(days=9 * 366))
    return found[0] if found else None


def _between(rule: Rule, start: datetime, until: datetime, *, most: int) -> list[datetime]:
    found: list[datetime] = []
    for at in islice(instants(rule, start - timedelta(microseconds=1)), most):
        if at > until:
            break
        found.append(at)
    return found


def _next(rule: Rule, after: datetime) -> datetime | None:
    if rule.kind is RuleKind.AT:
        at = instant_of(rule.text, rule.zone)
        return at if at is not None and at > after else None
    if rule.kind is RuleKind.EVERY:
        assert rule.anchor is not None, "an interval is counted from somewhere"
        period, anchor = period_us(rule.text), to_us(rule.anchor)
        return from_us(anchor + ((to_us(after) - anchor) // period + 1) * period)
    zone = zone_of(rule.zone)
    if rule.kind in (RuleKind.MONTHLY, RuleKind.ANNUALLY):
        return _at_times_of_day(_dates(rule, after.astimezone(zone).replace(tzinfo=None)), zone, after)
    expression = cron_of(rule)
    minute, hour = expression.split()[:2]
    if minute.startswith("*") or hour.startswith("*"):
        return _round_the_clock(expression, zone, after)
    local = after.astimezone(zone).replace(tzinfo=None)
    return _at_times_of_day(CronSim(expression, local), zone, after)


def cron_of(rule: Rule) -> str:
    """The rule as a cron expression, for kinds that have one."""
    if rule.kind is RuleKind.CRON:
        return NICKNAMES.get(rule.text.lower(), rule.text)
    if rule.kind is RuleKind.HOURLY:
        return f"{int(rule.text)} * * * *"
    days, _, clock = rule.text.lower().rpartition("@")
    hour, minute = clock.split(":")
    numbers = ",".join(str(DAYS.index(day)) for day in days.split(",")) if days else "*"
    return f"{int(minute)} {int(hour)} * * {numbers}"


def _dates(rule: Rule, local: datetime) -> Iterator[datetime]:
    """Local times of a monthly or annual rule after `local`, on the last day of a month that is too short."""
    date, _, clock = rule.text.partition("@")
    hour, minute = map(int, clock.split(":"))
    month, _, day = date.rpartition("-")
    year, number = (local.year, int(month)) if month else (local.year, local.month)
    while year < LATEST.year:
        last = calendar.monthrange(year, number)[1]
        at = datetime(year, number, min(int(day), last), hour, minute)
        if at > local:
            yield at
        if month:
            year += 1
        else:
            year, number = (year + 1, 1) if number == 12 else (year, number + 1)


def _at_times_of_day(times: Iterator[datetime], zone: tzinfo, after: datetime) -> datetime | None:
    """The first of these local times after `after`. A time on the second pass of an hour has run on the first."""
    for local in islice(times, MOST_STEPS):
        if local >= LATEST.replace(tzinfo=None) - _DAY:
            return None
        at = first_shown(local, zone)
        if at > after:
            return at
    return None


def _round_the_clock(expression: str, zone: tzinfo, after: datetime) -> datetime | None:
    """Walks from one clock change to the next: in between, local time is UTC plus an offset."""
    start, reach = after, timedelta(0)
    for _ in range(MOST_STEPS):
        offset = offset_at(start, zone)
        local = (start + offset).replace(tzinfo=None) - reach
        found = next(CronSim(expression, local), None)
        if found is None or found >= LATEST.replace(tzinfo=None) - _DAY:
            return None
        at = found.replace(tzinfo=UTC) - offset
        change = change_between(start, at, zone)
        if change is None:
            return at
        start, reach = change, _SECOND  # the time right after the change counts too
    return None
