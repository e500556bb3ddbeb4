"""Schedules of a tenant that wants more than its plan allows: what fits runs, and they take turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rota.store import schedules
from rota.timetable import batch
from rota.timetable.runs import share_of

from .clockwork import Clockwork


async def _limit(clockwork: Clockwork, *, waiting: int | None = None, rate: int | None = None) -> None:
    await clockwork.connection.execute(
        """update plans set waiting_tasks = $2, tasks_per_hour = $3 from tenants
            where tenants.id = $1 and plans.name = tenants.plan""",
        clockwork.caller.tenant_id,
        waiting,
        rate,
    )


@pytest.fixture(autouse=True)
async def unlimited_afterwards(clockwork: Clockwork) -> AsyncIterator[None]:
    await clockwork.connection.execute("delete from queue; delete from rate_limits")
    yield
    await _limit(clockwork)


async def _run_counts(clockwork: Clockwork, made: list[schedules.Schedule]) -> list[int]:
    return [sum(one.tasks is not None for one in await clockwork.history(schedule)) for schedule in made]


async def _again(clockwork: Clockwork, made: list[schedules.Schedule]) -> None:
    """All tasks end, and all schedules are due once more."""
    await clockwork.connection.execute("delete from queue")
    await clockwork.connection.execute(
        "update schedules set next_at = clock_timestamp() where id = any($1)", [one.id for one in made]
    )


async def test_runs_that_fit_are_admitted_in_turns_and_the_others_are_recorded(clockwork: Clockwork) -> None:
    await _limit(clockwork, waiting=2)
    made = [await clockwork.schedule(ago=1) for _ in range(6)]
    for number in range(3):
        if number:
            await _again(clockwork, made)
        await clockwork.tick()
    assert await _run_counts(clockwork, made) == [1] * 6
    (*_, skip) = [one for one in await clockwork.history(made[0]) if one.tasks is None]
    assert "allows 2 waiting and running tasks" in (skip.reason or "")


async def test_the_rate_admits_what_it_has_left(clockwork: Clockwork) -> None:
    await _limit(clockwork, rate=3)
    made = [await clockwork.schedule(ago=1) for _ in range(5)]
    await clockwork.tick()
    assert sum(await _run_counts(clockwork, made)) == 3
    skips = [one.reason for schedule in made for one in await clockwork.history(schedule) if one.tasks is None]
    assert all("allows 3 tasks an hour" in (reason or "") for reason in skips)
    assert len(skips) == 2


async def test_later_batches_get_their_part(clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH", 2)
    await _limit(clockwork, waiting=3)
    at = await clockwork.now() - timedelta(seconds=1)
    made = [await clockwork.schedule(next_at=at) for _ in range(6)]
    await clockwork.tick()
    counts = await _run_counts(clockwork, made)
    assert sum(counts) == 3
    assert all(sum(counts[first : first + 2]) == 1 for first in (0, 2, 4)), counts


def test_the_remainder_goes_to_a_batch_by_chance() -> None:
    assert share_of(7, 5, 5, 0.9) == 7
    assert [share_of(1, 500, 1500, chance) for chance in (0.0, 0.33, 0.34)] == [1, 1, 0]
    assert [share_of(10, 2, 6, chance) for chance in (0.0, 0.5)] == [4, 3]
