"""The leader's estimate of the database's time: it changes only when it is impossible."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from rota.dispatch.watch import measure_clock
from rota.model.clock import to_us
from tests.dispatch.leading import Leading


async def test_an_answer_that_took_long_does_not_move_a_clock_that_may_be_right(leading: Leading) -> None:
    pool, connection = leading.pool, leading.rows.connection
    await measure_clock(pool, connection)
    known = pool.clock_offset_us
    assert abs(pool.now_us() - to_us(datetime.now(UTC))) < 5_000_000
    clock = pool.clock
    late = itertools.cycle((-10.0, 10.0))
    pool.clock = lambda: clock() + next(late)  # as if the answer had taken twenty seconds
    await measure_clock(pool, connection)
    assert pool.clock_offset_us == known


async def test_a_clock_that_can_not_be_right_is_set_anew(leading: Leading) -> None:
    pool, connection = leading.pool, leading.rows.connection
    for wrong_us in (-3_600_000_000, 3_600_000_000):
        await measure_clock(pool, connection)
        known = pool.clock_offset_us
        pool.clock_offset_us += wrong_us
        await measure_clock(pool, connection)
        assert abs(pool.clock_offset_us - known) < 5_000_000
