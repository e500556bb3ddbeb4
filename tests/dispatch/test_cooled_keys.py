"""Before a task with a key starts, its leader reads whether the key was cooled down; if so, the task queues again."""

from __future__ import annotations

from pathlib import Path

from rota.decide.messages import Start
from rota.dispatch.concurrency_keys import hold_cooled
from rota.dispatch.fenced_connection import FencedConnection
from rota.store import concurrency_keys
from rota.store.database import Database
from tests.dispatch.leading import Leading


async def _planned(leading: Leading) -> tuple[list[Start], int, int]:
    """Two planned starts; the task with a key, and the one without."""
    keyed = await leading.rows.task(key="upstream")
    free = await leading.rows.task()
    await leading.pool.loader.poll(leading.rows.connection, 0)
    starts = [one for one in leading.pool.core.plan(0, 10) if isinstance(one, Start)]
    assert sorted(start.task.id for start in starts) == [keyed, free]
    return starts, keyed, free


async def test_a_key_that_was_cooled_down_after_the_plan_queues_its_task_again_and_frees_its_resources(
    leading: Leading,
) -> None:
    starts, keyed, free = await _planned(leading)
    pool, before = leading.pool, leading.free_cpu_milli
    await concurrency_keys.cool_key(leading.rows.connection, leading.rows.tenant, "upstream", 60_000)
    pool.wakes.cycle.clear()
    assert [start.task.id for start in await hold_cooled(pool, leading.connection, starts)] == [free]
    assert keyed in pool.core.state.ready
    assert leading.free_cpu_milli > before
    assert pool.wakes.cycle.is_set(), "others may have the resources at once"
    assert pool.core.plan(0, 10) == []
    await concurrency_keys.cool_key(leading.rows.connection, leading.rows.tenant, "upstream", 0)


async def test_a_task_whose_key_can_not_be_read_queues_again_and_the_others_start(
    leading: Leading, tmp_path: Path
) -> None:
    starts, keyed, free = await _planned(leading)
    pool = leading.pool
    away = FencedConnection(Database(f"postgresql://postgres@/postgres?host={tmp_path}"), pool.fence)
    pool.wakes.cycle.clear()
    assert [start.task.id for start in await hold_cooled(pool, away, starts)] == [free]
    assert not pool.wakes.cycle.is_set(), "the slow poll wakes it: no busy loop while the database is away"
    assert [one.task.id for one in pool.core.plan(0, 10) if isinstance(one, Start)] == [keyed]


async def test_the_database_is_not_asked_if_no_task_has_a_key(leading: Leading, tmp_path: Path) -> None:
    await leading.rows.task()
    await leading.pool.loader.poll(leading.rows.connection, 0)
    starts = [one for one in leading.pool.core.plan(0, 10) if isinstance(one, Start)]
    away = FencedConnection(Database(f"postgresql://postgres@/postgres?host={tmp_path}"), leading.pool.fence)
    assert len(starts) == 1
    assert await hold_cooled(leading.pool, away, starts) is starts
