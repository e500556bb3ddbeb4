"""Run times that a leader saves for others: written when they have changed enough to matter."""

from __future__ import annotations

from rota.dispatch.operator_rules import LONGEST_TYPICAL_US, MOST_SAVED, save_run_times
from tests.dispatch.leading import Leading


async def test_run_times_are_saved_when_they_have_changed_by_more_than_an_eighth(leading: Leading) -> None:
    connection, learned = leading.rows.connection, leading.pool.core.state.run_us
    mine = leading.rows.tenant

    async def saved() -> dict[int, int]:
        await save_run_times(leading.pool, connection)
        return dict(await connection.fetch("select work, typical_us from run_times where tenant = $1", mine))

    learned[mine, 1], learned[mine, 2] = 80_000, 10**12
    assert await saved() == {1: 80_000, 2: LONGEST_TYPICAL_US}
    learned[mine, 1] = 89_000
    assert await saved() == {1: 80_000, 2: LONGEST_TYPICAL_US}
    learned[mine, 1] = 91_000
    assert await saved() == {1: 91_000, 2: LONGEST_TYPICAL_US}


async def test_many_new_names_are_saved_a_part_at_a_time(leading: Leading) -> None:
    connection, mine = leading.rows.connection, leading.rows.tenant
    leading.pool.core.state.run_us |= {(mine, name): 5 for name in range(MOST_SAVED + 10)}
    counts = []
    for _ in range(2):
        await save_run_times(leading.pool, connection)
        counts.append(await connection.fetchval("select count(*) from run_times where tenant = $1", mine))
    assert counts == [MOST_SAVED, MOST_SAVED + 10]
