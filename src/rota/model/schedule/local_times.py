"""Local times as instants: what a time on the clock of a zone means where clocks are put forward or back. Pure.

Every local time of a schedule follows the one rule of `first_shown`: the times of its rule, and `at`, `ends_at`,
`anchor`, `next_at` and the bounds of a backfill.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from rota.model.clock import to_us

_DAY = timedelta(days=1)


def first_shown(local: datetime, zone: tzinfo) -> datetime:
    """When the clocks of the zone first show `local`, or jump past it.

    A time that comes twice is its first; a time that is skipped is the first instant after the gap.
    """
    at = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == local:
        return at
    jump = change_between(local.replace(tzinfo=zone, fold=1).astimezone(UTC), at, zone)
    return at if jump is None else jump


def change_between(start: datetime, end: datetime, zone: tzinfo) -> datetime | None:
    """The first instant from `start` to `end` whose offset differs from that of `start`."""
    offset = offset_at(start, zone)
    low = start
    while low < end:
        high = min(low + _DAY, end)
        if offset_at(high, zone) != offset:
            break
        low = high
    else:
        return None
    low_second, high_second = int(low.timestamp()), -(-to_us(high) // 1_000_000)
    while high_second - low_second > 1:  # offsets change at whole seconds
        middle = (low_second + high_second) // 2
        if offset_at(datetime.fromtimestamp(middle, UTC), zone) == offset:
            low_second = middle
        else:
            high_second = middle
    return datetime.fromtimestamp(high_second, UTC)


def offset_at(at: datetime, zone: tzinfo) -> timedelta:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None, "every zone has an offset"
    return offset
