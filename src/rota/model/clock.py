"""Instants as integers: microseconds since 1970, UTC. Exact in both directions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)
