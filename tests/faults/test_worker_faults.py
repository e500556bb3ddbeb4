"""A worker dies, sleeps, or is cut off from its leader (I6, I10, I11, I19, I22; F16–F19, F21, F22, F33).

Timings are scaled to a fifth: heartbeat 1 s, grace 6 s (the leader gives an attempt up), fence 4 s (the worker has
frozen it by then, counted from its last heartbeat that was acknowledged).
"""

from __future__ import annotations

import shutil
import time

import pytest

from rota.execute.identity import KEY_FILE
from tests.faults.nemesis import start_without_waiting
from tests.faults.scene import Scene, children_of, eventually, stands_still
from tests.harness.history import leftovers_after
from tests.harness.proxy import Proxy

GRACE_SECONDS = 6.0
DONE_FIRST = [(1, 10, 1)]
LOST_THEN_DONE = [(1, 0, 5), (2, 10, 1)]


def test_tasks_die_with_their_agent_and_are_lost_at_once_when_it_is_back(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    agent = scene.cluster.workers[0]
    functions = scene.submit(*(scene.function(seconds=60, later_seconds=0, cap="1h") for _ in range(4)))
    commands = scene.submit(*(scene.command(seconds=60, later_seconds=0, cap="1h") for _ in range(4)))
    tasks = functions + commands
    scene.until_started(tasks)

    agent.kill()
    assert leftovers_after(scene.data_folders) == [], "its tasks died with it, and their folders and cgroups"
    agent.start()
    scene.until_ended(tasks, seconds=20)  # the grace of such long tasks is 36 s: nobody waited for it

    assert [scene.attempts(task) for task in tasks] == [LOST_THEN_DONE] * 8
    why = scene.query("select distinct failure->>'message' as why from attempts where outcome = 5")
    assert [row["why"] for row in why] == ["its node restarted"]
    scene.judge()


def test_an_agent_that_slept_past_its_grace_changes_nothing_when_it_wakes(scene: Scene) -> None:
    """Its keeper does not sleep, and freezes its tasks in time; results it still holds come too late."""
    scene.start(servers=1, workers=1)
    sleeper = scene.cluster.workers[0]
    long = scene.submit(*(scene.function(seconds=60, later_seconds=0) for _ in range(3)))
    short = scene.submit(scene.function(seconds=1))
    scene.until_started(long + short)

    sleeper.pause()
    paused_at = time.monotonic()
    start_without_waiting(scene.cluster.add_worker(start=False))
    eventually(lambda: stands_still(sleeper, scene.cluster.folder), seconds=GRACE_SECONDS, what="its tasks are frozen")
    frozen_after = time.monotonic() - paused_at
    scene.until_started(long + short, attempt=2)
    assert frozen_after < GRACE_SECONDS - 1, f"frozen {frozen_after:.1f} s after the pause"
    scene.until_ended(long + short)
    assert stands_still(sleeper, scene.cluster.folder)
    sleeper.resume()
    registered = sleeper.log().count('"registered"')
    eventually(lambda: sleeper.log().count('"registered"') > registered, seconds=10, what="it is back")
    frozen = {one.pid for one in scene.executions() if one.task in long and one.attempt == 1}
    eventually(
        lambda: frozen.isdisjoint(children_of(sleeper, scene.cluster.folder)), seconds=5, what="its tasks are killed"
    )

    assert [scene.attempts(task) for task in long + short] == [LOST_THEN_DONE] * 4
    scene.judge()


def _partitioned(scene: Scene) -> Proxy:
    """One server behind a proxy, one worker through it. A second worker joins later."""
    proxy = scene.add_server_behind(workers=True)
    scene.cluster.add_worker(servers=[proxy.url])
    return proxy


def test_a_partition_healed_before_the_fence_restarts_nothing(scene: Scene) -> None:
    proxy = _partitioned(scene)
    tasks = scene.submit(*(scene.function(seconds=3) for _ in range(4)))
    scene.until_started(tasks)

    proxy.blackhole(of=scene.cluster.workers[0].pid)
    time.sleep(1.2)  # the fault itself: shorter than the fence, longer than a heartbeat
    proxy.heal()

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 4
    assert len(scene.executions()) == 4
    scene.judge()


def test_a_partitioned_worker_freezes_its_tasks_before_they_are_given_to_another(scene: Scene) -> None:
    proxy = _partitioned(scene)
    cut_off = scene.cluster.workers[0]
    functions = scene.submit(*(scene.function(seconds=60, later_seconds=0) for _ in range(2)))
    commands = scene.submit(*(scene.command(seconds=60, later_seconds=0) for _ in range(2)))
    tasks = functions + commands
    scene.until_started(tasks)

    proxy.blackhole(of=cut_off.pid)
    cut_at = time.monotonic()
    start_without_waiting(scene.cluster.add_worker(start=False, servers=[proxy.url]))
    eventually(lambda: stands_still(cut_off, scene.cluster.folder), seconds=GRACE_SECONDS, what="its tasks are frozen")
    frozen_after = time.monotonic() - cut_at
    assert all(one.attempt == 1 for one in scene.executions()), "frozen before anything was started elsewhere"
    scene.until_started(tasks, attempt=2)
    given_up_after = time.monotonic() - cut_at
    assert frozen_after < GRACE_SECONDS - 1, (
        f"frozen after {frozen_after:.1f} s, started elsewhere after {given_up_after:.1f} s"
    )
    assert given_up_after > GRACE_SECONDS - 1.5
    scene.until_ended(tasks)
    assert stands_still(cut_off, scene.cluster.folder)
    proxy.heal()
    eventually(lambda: cut_off.log().count('"registered"') == 2, seconds=15, what="it is back")
    eventually(lambda: children_of(cut_off, scene.cluster.folder) == [], seconds=5, what="its tasks are killed")

    assert [scene.attempts(task) for task in tasks] == [LOST_THEN_DONE] * 4
    scene.judge()


def test_a_result_from_a_partition_counts_if_it_arrives_before_the_attempt_is_given_up(scene: Scene) -> None:
    proxy = _partitioned(scene)
    tasks = scene.submit(*(scene.function(seconds=1) for _ in range(4)))
    scene.until_started(tasks)

    proxy.blackhole(of=scene.cluster.workers[0].pid)
    eventually(lambda: all(one.ended_ns for one in scene.executions()), seconds=5, what="they end in the partition")
    proxy.heal()

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 4
    scene.judge()


def test_a_result_that_arrives_after_the_attempt_was_given_up_changes_nothing(scene: Scene) -> None:
    proxy = _partitioned(scene)
    cut_off = scene.cluster.workers[0]
    tasks = scene.submit(*(scene.function(seconds=1, later_seconds=4) for _ in range(4)))
    scene.until_started(tasks)

    proxy.blackhole(of=cut_off.pid)
    start_without_waiting(scene.cluster.add_worker(start=False, servers=[proxy.url]))
    eventually(lambda: all(one.ended_ns for one in scene.executions()), seconds=5, what="they end in the partition")
    scene.until_started(tasks, attempt=2)
    proxy.heal()  # the late results arrive while the second attempts run
    eventually(lambda: cut_off.log().count('"registered"') == 2, seconds=15, what="it is back")
    assert [scene.attempts(task) for task in tasks] == [[(1, 0, 5)]] * 4, "nothing but the loss is recorded"

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [LOST_THEN_DONE] * 4
    scene.judge()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("its own", ["no node node-0 of pool default is known by this key"]),
        ("a copy", ["another agent is connected as node-0", "give each node a name of its own"]),
    ],
)
def test_a_second_agent_with_the_same_name_is_refused_with_a_clear_message(
    scene: Scene, key: str, said: list[str]
) -> None:
    scene.start(servers=1, workers=1)
    tasks = scene.submit(*(scene.function(seconds=2) for _ in range(4)))
    scene.until_started(tasks)

    second = scene.cluster.add_worker(start=False)
    second.arguments[second.arguments.index("--name") + 1] = "node-0"
    if key == "a copy":  # somebody copied the whole data folder to another machine
        shutil.copy(scene.cluster.folder / "node-0" / KEY_FILE, scene.cluster.folder / "node-1" / KEY_FILE)
    second.start(wait=False)
    assert second.popen is not None
    assert second.popen.wait(20) != 0
    last = second.log().strip().splitlines()[-1]
    assert [words for words in said if words not in last] == []
    assert "Traceback" not in second.log()

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 4
    assert scene.cluster.workers[0].log().count('"registered"') == 1, "the first one never noticed"
    scene.judge()


def test_a_second_agent_on_the_same_data_folder_is_refused_with_a_clear_message(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    second = scene.cluster.add_worker(start=False)
    first_data = scene.cluster.workers[0].arguments[scene.cluster.workers[0].arguments.index("--data") + 1]
    second.arguments[second.arguments.index("--data") + 1] = first_data
    second.start(wait=False)
    assert second.popen is not None
    assert second.popen.wait(20) != 0
    assert "another agent is running on" in second.log().strip().splitlines()[-1]
    assert "Traceback" not in second.log()
    scene.submit(scene.function())
    scene.judge()


def test_a_task_that_ends_its_agent_every_time_becomes_a_dead_letter(scene: Scene) -> None:
    scene.start(servers=1, workers=2)
    poison = {"function": "fault_tasks:end_its_agent", "args": [str(scene.log)], "cap": "60s", "attempts": 10}
    [task] = scene.submit(poison)

    def ended() -> bool:
        for agent in scene.cluster.workers:
            if not agent.running:
                agent.start()
        return scene.query("select from queue where id = $1", task) == []

    eventually(ended, seconds=60, what="the poison is found")
    assert scene.attempts(task) == [(1, 0, 5), (2, 0, 5), (3, 11, 5)]
    [letter] = scene.query("select reason from dead_letters where task = $1", task)
    assert letter["reason"].startswith("poison:")
    fresh = scene.submit(*(scene.function() for _ in range(20)))
    scene.until_ended(fresh, seconds=20)
    scene.judge()


def test_a_task_frozen_by_the_fence_goes_on_if_its_node_is_back_before_it_was_given_up(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    sleeper = scene.cluster.workers[0]
    functions = scene.submit(*(scene.function(seconds=5) for _ in range(3)))
    commands = scene.submit(*(scene.command(seconds=5) for _ in range(3)))
    tasks = functions + commands
    scene.until_started(tasks)

    sleeper.pause()
    eventually(lambda: stands_still(sleeper, scene.cluster.folder), seconds=GRACE_SECONDS, what="its tasks are frozen")
    sleeper.resume()

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 6
    scene.judge()
