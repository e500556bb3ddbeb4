"""The database is away for longer than any fence (I6, I11; F35): running tasks stand still, and go on when it is back.

Timings are scaled to a fifth: a leader trusts its lease for 1.6 s, the fence is 4 s, the grace 6 s. Twelve seconds are
a minute of real time.
"""

from __future__ import annotations

import time

from tests.faults.scene import Scene, eventually, stands_still

AWAY_SECONDS = 12.0
DONE_FIRST = [(1, 10, 1)]


def test_a_database_that_is_away_for_a_minute_ends_no_running_task(scene: Scene) -> None:
    proxies = [scene.add_server_behind(database=True) for _ in range(2)]
    scene.cluster.add_worker()
    worker = scene.cluster.workers[0]
    functions = scene.submit(*(scene.function(seconds=8) for _ in range(2)))
    commands = scene.submit(*(scene.command(seconds=8) for _ in range(2)))
    tasks = functions + commands
    scene.until_started(tasks)

    for proxy in proxies:
        proxy.blackhole()
    away_at = time.monotonic()
    eventually(lambda: stands_still(worker, scene.cluster.folder), seconds=6, what="its tasks are frozen")
    time.sleep(away_at + AWAY_SECONDS - time.monotonic())  # the fault itself
    assert stands_still(worker, scene.cluster.folder)
    for proxy in proxies:
        proxy.heal()

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 4
    assert len(scene.executions()) == 4
    scene.judge()
