"""Keys counted across pools: the store decides, so the core only learns when a start would certainly be refused.

And keys that are cooled down, whichever way they are counted.
"""

from __future__ import annotations

import pytest

from rota.decide.messages import KeysCooled, KeysFreed, KeysSeen, PlaceRefused, StartRefused
from rota.model.queue import ReadyTask
from tests.decide.auditor import audit
from tests.decide.scene import SECOND_US, Scene, Worker

KEY = (1, "upstream")


def stage(count: int, *, limit: int = 1, **each: object) -> tuple[Scene, Worker, list[ReadyTask]]:
    scene = Scene()
    tasks = scene.tasks(count, key="upstream", limit=limit, everywhere=True, **each)
    return scene, scene.worker(cpus=16), tasks


def test_no_more_start_than_have_places_even_as_far_as_this_pool_knows() -> None:
    scene, worker, tasks = stage(4, limit=2)
    worker.expects(*tasks[:2])
    scene.decide()


def test_a_place_is_free_only_when_its_settlement_is_written() -> None:
    scene, worker, (first, second) = stage(2)
    worker.expects(first)
    scene.decide()
    scene.ends(first)
    scene.decide()
    scene.apply(KeysFreed([KEY]))
    worker.expects(second)
    scene.decide()
    audit(scene.core.state)


def test_a_task_that_found_no_place_waits_without_asking_again_and_again() -> None:
    scene, worker, (only,) = stage(1)
    for _ in range(3):
        worker.expects(only)
        scene.decide()
        scene.apply(PlaceRefused(only))
        scene.decide()
        assert scene.core.watched_keys() == [KEY]
        scene.apply(KeysSeen({KEY: 1}))
        scene.decide()
        scene.apply(KeysSeen({KEY: 0}))
    worker.expects(only)
    scene.decide()
    audit(scene.core.state)


def test_who_is_refused_a_place_gives_back_all_it_was_counted_for() -> None:
    scene, worker, (only,) = stage(1, cpus=16)
    worker.expects(only)
    scene.decide()
    scene.apply(PlaceRefused(only))
    assert worker.free.cpu_milli == 16_000
    other = scene.task(cpus=16)
    worker.expects(other)
    scene.decide()
    audit(scene.core.state)


def test_places_held_elsewhere_count() -> None:
    scene, worker, tasks = stage(4, limit=3)
    worker.expects(*tasks[:3])
    scene.decide()
    for task in tasks[:3]:
        scene.apply(PlaceRefused(task))
    scene.apply(KeysSeen({KEY: 2}))
    worker.expects(tasks[0])
    scene.decide()


def test_the_same_name_counted_in_this_pool_alone_is_another_key() -> None:
    scene, worker, (everywhere,) = stage(1)
    here = scene.task(key="upstream")
    worker.expects(everywhere, here)
    scene.decide()


def test_a_cancelled_task_keeps_no_key_in_memory() -> None:
    scene, worker, (only,) = stage(1)
    worker.expects(only)
    scene.decide()
    scene.apply(PlaceRefused(only))
    scene.decide()
    scene.cancels(only)
    for _ in range(2):  # polls: somebody may have been about to ask
        scene.apply(KeysSeen({KEY: 1}))
    assert scene.core.watched_keys() == []
    assert not scene.core.state.keys


def test_a_stale_start_bars_nobody() -> None:
    scene, worker, (first, second) = stage(2)
    worker.expects(first)
    scene.decide()
    scene.apply(StartRefused(first.id))
    worker.expects(second)
    scene.decide()


def test_an_adopted_attempt_counts_for_its_key() -> None:
    scene, worker, (held, waiting) = stage(2)
    scene.holds(worker, held)
    scene.decide()
    assert waiting.id in scene.core.state.ready


def test_why_says_that_the_key_is_busy_across_pools() -> None:
    scene, worker, tasks = stage(2, limit=2)
    worker.expects(*tasks)
    scene.decide()
    scene.apply(PlaceRefused(tasks[1]))
    scene.decide()
    scene.apply(KeysSeen({KEY: 1}))
    scene.decide()
    found = scene.core.explain(tasks[1].id, scene.now_us, {})
    assert found is not None
    assert found.reason == "key-busy"
    assert found.sentence == (
        "its concurrency key upstream is busy across pools: of 2 places 1 are held here and 1 elsewhere"
    )


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_cooled_key_lets_no_task_start_until_it_is_over(everywhere: bool) -> None:
    scene = Scene()
    tasks = scene.tasks(2, key="upstream", limit=2, everywhere=everywhere)
    worker = scene.worker()
    scene.apply(KeysCooled({KEY: 60 * SECOND_US}))
    other = scene.task(key="another", everywhere=everywhere)
    worker.expects(other)
    scene.decide()
    found = scene.core.explain(tasks[0].id, scene.now_us, {})
    assert found is not None
    assert (found.reason, found.sentence, found.estimated_start_us, found.basis) == (
        "key-cooled",
        "its concurrency key upstream is cooled down for another 60 s",
        60 * SECOND_US,
        "cool-down",
    )
    scene.apply(KeysCooled({}))
    worker.expects(*tasks)
    scene.decide()
    audit(scene.core.state)


def test_a_cool_down_stops_nothing_that_runs_and_outlasts_its_end() -> None:
    scene = Scene()
    running, waiting = scene.tasks(2, key="upstream")
    worker = scene.worker().expects(running)
    scene.decide()
    scene.apply(KeysCooled({KEY: 60 * SECOND_US}))
    scene.ends(running)
    scene.decide()
    scene.apply(KeysCooled({}))
    worker.expects(waiting)
    scene.decide()


def test_a_key_that_was_cooled_down_after_the_plan_frees_its_resources() -> None:
    scene = Scene()
    late = scene.task(key="upstream")
    worker = scene.worker(cpus=1).expects(late)
    scene.decide()
    scene.apply(KeysCooled({KEY: 60 * SECOND_US}))
    scene.apply(PlaceRefused(late))
    other = scene.task()
    worker.expects(other)
    scene.decide()
    scene.ends(other)
    scene.apply(KeysCooled({}))
    worker.expects(late)
    scene.decide()
    audit(scene.core.state)


def test_a_cooled_key_is_one_tenants_alone() -> None:
    scene = Scene()
    theirs = scene.task(tenant=2, key="upstream")
    scene.apply(KeysCooled({KEY: 60 * SECOND_US}))
    scene.worker().expects(theirs)
    scene.decide()
