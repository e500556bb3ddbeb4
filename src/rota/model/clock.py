"""Instants as microseconds since 1970 in UTC, exact both ways; and the one rule for a time that has passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
JUST_NOW = timedelta(seconds=30)  # as long as a client repeats a request
TIME_PASSED = "time-passed"


def to_us(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def has_passed(at: datetime, now: datetime) -> bool:
    """Whether a time that a client gave, for a task or a schedule, is refused.

    A time that passed a moment ago counts as now: clocks differ, and requests are repeated. An earlier one is
    probably a slip.
    """
    return at < now - JUST_NOW


def passed_detail(given: str, now: datetime) -> str:
    return f"{given[:60]!r} has passed: it is {shown_instant(now)} now"


def shown_instant(at: datetime) -> str:
    return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
