"""Parses the rule of a schedule. Pure.

Every fault names the field, the value and what would be right. A cron expression is Debian's: five fields, names of
months and days, lists, ranges, steps, `L`, `#`; or one of the nicknames `@hourly` … `@annually`.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from rota.model.errors import FaultList
from rota.model.schedule.local_times import first_shown
from rota.model.schedule.schedule import Rule, RuleKind
from rota.model.units import milliseconds_of

LONGEST_CRON = 250
SHORTEST_MS = 1_000
LONGEST_MS = 10 * 366 * 86_400_000
LATEST = datetime(9000, 1, 1, tzinfo=UTC)  # nothing is scheduled later
EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LAST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_NAMED_DAY = f"(?:{'|'.join(DAYS)})"
# The pattern of a rule's text, and what would be right.
_PATTERNS = {
    RuleKind.HOURLY: (re.compile(r"[0-5]?\d", re.ASCII), "a minute from 0 to 59"),
    RuleKind.DAILY: (re.compile(_CLOCK, re.ASCII), "a time of day; write 02:30"),
    RuleKind.WEEKLY: (
        re.compile(f"{_NAMED_DAY}(?:,{_NAMED_DAY})*@{_CLOCK}", re.ASCII),
        "days and a time; write mon@08:00 or mon,thu@08:00",
    ),
    RuleKind.MONTHLY: (re.compile(f"{_DAY}@{_CLOCK}", re.ASCII), "a day and a time; write 1@00:00 (31 is the last)"),
    RuleKind.ANNUALLY: (
        re.compile(rf"(?P<month>0?[1-9]|1[0-2])-{_DAY}@{_CLOCK}", re.ASCII),
        "a date and a time; write 01-31@00:00",
    ),
}
_CRON_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_CRON_RANGES = ("0-59", "0-23", "1-31", "1-12 or jan-dec", "0-7 or sun-sat")


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    names = resources.files("tzdata").joinpath("zones").read_text().split()
    return frozenset(names) - {"localtime", "posixrules", "Factory"}


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """Reads the tzdata package, not the system: all server nodes must agree on a zone."""
    if name not in zones():
        raise KeyError(name)
    with resources.files("tzdata").joinpath("zoneinfo", name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def parse_rule(
    kind: str, text: str, *, zone: str, anchor: datetime | None, now: datetime, faults: FaultList
) -> Rule | None:
    """The checked rule; None: a fault was added. An interval without anchor starts at `now`."""
    before = len(faults.faults)
    if kind not in set(RuleKind):
        faults.add("", "invalid-rule", f"{kind[:40]!r} is not a kind of rule; there are {', '.join(RuleKind)}")
        return None
    check_zone(zone, faults)
    rule_kind = RuleKind(kind)
    if anchor is not None and rule_kind is not RuleKind.EVERY:
        faults.add("anchor", "invalid-rule", f"an anchor goes with every, not with {kind}")
    if anchor is not None and not EARLIEST <= anchor < LATEST:
        faults.add("anchor", "invalid-time", f"{anchor.isoformat()} is not from 1970 to 9000")
    text = " ".join(text.split())
    match rule_kind:
        case RuleKind.AT:
            _check_at(text, zone if zone in zones() else "UTC", faults)
        case RuleKind.CRON:
            _check_cron(text, faults)
        case RuleKind.EVERY:
            _check_every(text, faults)
        case _:
            _check_pattern(rule_kind, text, faults)
    if len(faults.faults) > before:
        return None
    if rule_kind is RuleKind.EVERY and anchor is None:
        anchor = now.replace(microsecond=0)
    return Rule(rule_kind, text, zone, anchor)


def check_zone(zone: str, faults: FaultList) -> None:
    if zone not in zones():
        faults.add("zone", "unknown-zone", f"{zone[:60]!r} is not an IANA time zone; {_zone_meant(zone)}")


def _zone_meant(text: str) -> str:
    """Suggests the zone of that city, or a zone with a similar name."""
    word = text[:60].strip().lower().replace(" ", "_")
    by_word = {name.lower(): name for name in sorted(zones())} | {
        name.lower().rpartition("/")[2]: name for name in sorted(zones(), reverse=True) if "/" in name
    }
    near = [word] if word in by_word else difflib.get_close_matches(word, by_word, n=1, cutoff=0.8)
    return f"did you mean {by_word[near[0]]}?" if near else "write Europe/Berlin or UTC"


# ---- one check a kind --------------------------------------------------------------------------------------------


def _check_at(text: str, zone: str, faults: FaultList) -> None:
    if instant_of(text, zone) is None:
        faults.add(
            "at",
            "invalid-time",
            f"{text[:60]!r} is not a time after 1970-01-01T00:00:00Z; write one such as 2030-01-31T08:00:00Z",
        )


def _check_pattern(kind: RuleKind, text: str, faults: FaultList) -> None:
    pattern, right = _PATTERNS[kind]
    match = pattern.fullmatch(text.lower())
    date = match.groupdict() if match else {}
    if not match or ("month" in date and int(date["day"]) > LAST_DAYS[int(date["month"]) - 1]):
        faults.add(kind.value, "invalid-rule", f"{text[:60]!r} is not {right}")


def _check_cron(text: str, faults: FaultList) -> None:
    if len(text) > LONGEST_CRON:
        faults.add("cron", "too-complex", f"the expression has {len(text)} characters; at most {LONGEST_CRON}")
        return
    expression = NICKNAMES.get(text.lower(), text)
    fields = expression.split()
    if len(fields) != 5:
        detail = (
            f"{text[:60]!r} has {len(fields)} fields; write five: {' '.join(_CRON_FIELDS)}, or {', '.join(NICKNAMES)}"
        )
        faults.add("cron", "invalid-cron", detail)
        return
    wrong = False
    for position, field in enumerate(fields):
        alone = ["*"] * 5
        alone[position] = field
        if not _parses(" ".join(alone)):
            wrong = True
            name, right = _CRON_FIELDS[position], _CRON_RANGES[position]
            faults.add(
                "cron", "invalid-cron", f"{field[:40]!r} is not a {name}; it is *, {right}, lists, ranges, steps"
            )
    if wrong:
        return
    if not _parses(expression) or next(CronSim(expression, datetime(2024, 1, 1)), None) is None:
        faults.add("cron", "cron-never-fires", f"{text[:60]!r} never fires: those months have no such day")


def _parses(expression: str) -> bool:
    try:
        CronSim(expression, datetime(2024, 1, 1))
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


def _check_every(text: str, faults: FaultList) -> None:
    try:
        amount = milliseconds_of(text)
    except ValueError as error:
        faults.add("every", "invalid-rule", str(error))
        return
    if amount < SHORTEST_MS:
        faults.add("every", "too-frequent", f"{text[:40]!r} is shorter than {SHORTEST_MS // 1000} s")
    elif amount > LONGEST_MS:
        faults.add("every", "invalid-rule", f"{text[:40]!r} is longer than ten years")


def instant_of(text: str, zone: str) -> datetime | None:
    """Parses `2030-01-31T08:00Z`, or a local time in `zone`. None: it is no time, or out of bounds."""
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            at = first_shown(at, zone_of(zone))
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if EARLIEST <= at < LATEST else None


@lru_cache(maxsize=1024)
def period_us(text: str) -> int:
    return milliseconds_of(text) * 1000
