"""Walks along dependencies: both directions, no task twice, a bound, and nothing left behind by retention."""

from __future__ import annotations

from rota.store.cancel_and_rerun import cancel_tasks
from rota.store.dependents import ancestors, descendants
from rota.store.statements import sql
from tests.store.rows import Rows


async def diamonds(rows: Rows, count: int) -> list[list[int]]:
    """One task, then two after it, then one after both, and so on: 2 ** count paths."""
    levels = [[await rows.task()]]
    for number in range(2 * count):
        above = tuple(levels[-1])
        levels.append([await rows.task(after=above) for _ in range(1 + (number + 1) % 2)])
    await rows.connection.execute(sql("admission/keep_dependents"), [task for level in levels for task in level])
    return levels


async def test_a_walk_meets_each_task_once_however_many_paths_lead_to_it(rows: Rows) -> None:
    levels = await diamonds(rows, 20)
    rest = {task for level in levels[1:] for task in level}
    below = await descendants(rows.connection, levels[0], rows.tenant, most=1000)
    assert (below.tasks, below.more) == (rest, False)
    above = await ancestors(rows.connection, levels[-1], rows.tenant, most=1000)
    assert (above.tasks, above.more) == ({task for level in levels[:-1] for task in level}, False)


async def test_a_walk_that_stops_at_its_bound_has_the_nearest_tasks_and_says_so(rows: Rows) -> None:
    levels = await diamonds(rows, 5)
    near = await descendants(rows.connection, levels[0], rows.tenant, most=3)
    assert (near.tasks, near.more) == ({*levels[1], *levels[2]}, True)
    near = await ancestors(rows.connection, levels[-1], rows.tenant, most=3)
    assert (near.tasks, near.more) == ({*levels[-2], *levels[-3]}, True)
    exact = await descendants(rows.connection, levels[-3], rows.tenant, most=3)
    assert (exact.tasks, exact.more) == ({*levels[-2], *levels[-1]}, False)


async def test_a_walk_stays_with_its_tenant(rows: Rows) -> None:
    levels = await diamonds(rows, 2)
    assert (await descendants(rows.connection, levels[0], rows.tenant + 1, most=10)).tasks == frozenset()
    assert (await ancestors(rows.connection, levels[-1], rows.tenant + 1, most=10)).tasks == frozenset()


async def test_retention_forgets_the_dependencies_of_old_tasks_only(rows: Rows) -> None:
    parent = await rows.task()
    old, young = await rows.task(after=(parent,)), await rows.task(after=(parent,))
    await rows.connection.execute(sql("admission/keep_dependents"), [old, young])
    await cancel_tasks(rows.connection, [old, young], rows.tenant, "not wanted")
    await rows.connection.execute("update attempts set ended_at = now() - interval '9 days' where task = $1", old)
    await rows.connection.fetch(sql("retention/forget_old_tasks"), old - 1, 10, 8)
    assert (await descendants(rows.connection, [parent], rows.tenant, most=10)).tasks == {young}
