"""Workers that go in order are seen to have left at once; one that dies is not taken for one of them."""

from __future__ import annotations

import pytest

from tests.faults.scene import Scene, eventually

SOON_SECONDS = 5.0  # a node that says nothing is shown as before for a minute


def _states(scene: Scene) -> dict[str, str]:
    return {node["name"]: node["state"] for node in scene.get("/v1/nodes").json()["nodes"]}


@pytest.mark.parametrize("options", [(), ("--once",), ("--idle-exit", "1s")], ids=["SIGTERM", "--once", "--idle-exit"])
def test_a_worker_that_goes_in_order_has_left_at_once_and_is_back_when_it_starts_again(
    scene: Scene, options: tuple[str, ...]
) -> None:
    scene.cluster.add_server()
    worker = scene.cluster.add_worker(options=options)
    tasks = scene.submit(scene.command())
    scene.until_ended(tasks)
    if not options:
        worker.stop()
    assert worker.popen is not None
    assert worker.popen.wait(30) == 0
    eventually(lambda: _states(scene) == {"node-0": "left"}, seconds=SOON_SECONDS, what="it has left")
    worker.start()
    assert _states(scene) == {"node-0": "up"}
    scene.judge()


def test_a_worker_that_is_stopped_while_it_works_hands_its_task_on_and_has_left(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    tasks = scene.submit(scene.command(seconds=60, later_seconds=0), scene.function(seconds=60, later_seconds=0))
    scene.until_started(tasks)
    scene.cluster.workers[0].stop()
    eventually(lambda: _states(scene) == {"node-0": "left"}, seconds=SOON_SECONDS, what="it has left")
    scene.cluster.add_worker()
    scene.until_ended(tasks, seconds=20)
    assert [scene.attempts(task) for task in tasks] == [[(1, 0, 10), (2, 10, 1)]] * 2
    scene.judge()


def test_a_worker_that_is_killed_has_not_left(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    scene.cluster.workers[0].kill()
    eventually(
        lambda: scene.get("/v1/nodes/node-0").json()["free"] is None,
        seconds=10,
        what="its leader knows that it is away",
    )
    assert _states(scene) == {"node-0": "up"}, "nobody knows what has become of it, for a minute"
