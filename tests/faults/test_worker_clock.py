"""A worker's wall clock jumps an hour ahead and two hours back while it works (F39, I30): nobody notices.

Timings are scaled to a fifth: heartbeat 1 s, and after three that are not answered a connection is given up; fence 4 s,
grace 6 s. The agent, its keeper and its warm children have the wrong clock; the servers and the database the right one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.faults.scene import Scene, Spec, children_of, eventually, keeper_of
from tests.harness.cluster import Process
from tests.harness.wrong_clock import WrongClock

HOUR = 3600
DONE = [(1, 10, 1)]
TIMED_OUT = [(1, 11, 3)]
CAP_SECONDS = 3.0
EARLY_SECONDS = 0.1  # the leader's idea of the database's time is no more exact
LATE_SECONDS = 2.5  # the grace of what is asked to end is shorter, and it needs none; the rest is for a busy machine


def test_a_wall_clock_that_jumps_loses_kills_and_delays_nothing(scene: Scene, tmp_path: Path) -> None:
    clock = WrongClock(tmp_path / "clock")
    scene.cluster.add_server()
    worker = scene.cluster.add_worker(start=False)
    worker.environment["PYTHONPATH"] = os.pathsep.join((str(clock.folder), worker.environment["PYTHONPATH"]))
    worker.start()
    both = scene.function, scene.command
    long = scene.submit(*(make(seconds=7) for make in both))
    capped = scene.submit(*(make(seconds=60, cap=CAP_SECONDS, attempts=1) for make in both))
    extended = scene.submit(*(make(seconds=60, cap=CAP_SECONDS, attempts=1) for make in both))
    scene.until_started([*long, *capped, *extended])
    _assert_wrong(scene, worker, clock)

    clock.move(seconds=HOUR)
    after = scene.submit(*_short(scene))  # their cap is set while the clock is wrong
    for task in extended:
        answer = scene._http.post(f"{scene.cluster.urls[0]}/v1/tasks/{task}/extend", json={"by": CAP_SECONDS})
        assert answer.status_code == 200, answer.text
    _hear(scene, heartbeats=4)
    assert _said_at(scene) > HOUR / 2, "the clock has really moved"
    clock.move(seconds=-HOUR)
    after += scene.submit(*_short(scene))
    _hear(scene, heartbeats=4)
    assert _said_at(scene) < -HOUR / 2

    scene.until_ended([*long, *capped, *extended, *after], seconds=30)
    assert [scene.attempts(task) for task in long] == [DONE] * 2
    assert [scene.attempts(task) for task in [*capped, *extended, *after]] == [TIMED_OUT] * 8
    for tasks, seconds in ((long, 7.0), (capped, CAP_SECONDS), (extended, 2 * CAP_SECONDS), (after, 1.0)):
        for task in tasks:
            assert seconds - EARLY_SECONDS < _ran_seconds(scene, task) < seconds + LATE_SECONDS
    assert worker.log().count('"registered"') == 1, "it was connected all the time"
    scene.judge(logged=False)  # those that were killed at their cap wrote no end


def _short(scene: Scene) -> list[Spec]:
    return [make(seconds=60, cap=1.0, attempts=1) for make in (scene.function, scene.command)]


def _assert_wrong(scene: Scene, worker: Process, clock: WrongClock) -> None:
    keeper = keeper_of(worker, scene.cluster.folder)
    assert keeper is not None
    assert clock.rules(worker.pid)
    assert clock.rules(keeper)
    assert any(clock.rules(pid) for pid in children_of(worker, scene.cluster.folder)), "warm children have it too"


def _hear(scene: Scene, *, heartbeats: int) -> None:
    """Until the leader has kept the node for so many heartbeats; without a word of it, it gives it up after three."""

    def seen() -> object:
        return scene.query("select seen_at from nodes")[0]["seen_at"]

    for _ in range(heartbeats):
        before = seen()
        eventually(lambda before=before: seen() != before, seconds=10, what="the leader has heard of the node")


def _ran_seconds(scene: Scene, task: int) -> float:
    """By the database's clock: from authorised to settled."""
    rows = scene.query(
        "select extract(epoch from ended_at - started_at)::float8 as ran from attempts where task = $1", task
    )
    return float(rows[0]["ran"])


def _said_at(scene: Scene) -> float:
    """How far the worker's own clock is from ours: a function tells it."""
    [task] = scene.submit({"function": "time:time", "cap": "60s"})
    scene.until_ended([task], seconds=20)
    told = float(scene.query("select result::text as told from attempts where task = $1", task)[0]["told"])
    return told - time.time()
