"""The leader dies, sleeps or loses its database, at exact moments (I6, I7, I9, I10; F7–F11).

Timings are scaled to a fifth: lease 2 s, trust 1.6 s, grace 6 s.
"""

from __future__ import annotations

import re
import time

from tests.faults.scene import Scene, eventually

START = b"\xa5Start"  # how a frame of starts begins, in msgpack, on its way to an agent
FAILOVER_SECONDS = 15.0  # at full scale


def _epoch(scene: Scene) -> int:
    return int(scene.query("select epoch from leases where pool > 0")[0]["epoch"])


def test_when_the_leader_is_killed_another_takes_over_and_running_tasks_go_on(scene: Scene) -> None:
    scene.cluster.time_scale = 0.4  # what a busy machine adds must stay small beside what is measured
    scene.start(servers=2, workers=1)
    leader = scene.leader()
    running = scene.submit(*(scene.function(seconds=7, cap="1h") for _ in range(8)))
    scene.until_started(running)
    before = _epoch(scene)

    scene.cluster.servers[leader].kill()
    killed_at = time.monotonic()
    other = 1 - leader
    fresh = scene.submit(scene.function(), server=other)

    scene.leader(besides=leader)
    took = time.monotonic() - killed_at
    assert took <= FAILOVER_SECONDS * scene.cluster.time_scale, f"a new leader after {took:.2f} s"
    assert _epoch(scene) > before
    scene.until_ended(fresh + running)
    assert [scene.attempts(task) for task in running] == [[(1, 10, 1)]] * 8
    assert len(scene.executions()) == 9
    scene.judge()


def test_an_attempt_committed_but_never_sent_is_given_up_and_runs_as_the_next(scene: Scene) -> None:
    """The leader dies after the commit, before the frame has left."""
    proxy = scene.add_server_behind(workers=True)
    scene.cluster.add_worker(servers=[proxy.url])
    scene.cluster.add_server()
    scene.cluster.workers[0].arguments[2] = ",".join([proxy.url, scene.cluster.urls[1]])
    scene.cluster.workers[0].stop()
    scene.cluster.workers[0].start()
    assert scene.leader() == 0

    trap = proxy.when_server_says(START, scene.cluster.servers[0].kill, forward=False)
    [task] = scene.submit(scene.function(), server=1)
    trap.wait()

    scene.until_ended([task])
    assert scene.attempts(task) == [(1, 0, 10), (2, 10, 1)]
    assert [one.attempt for one in scene.executions()] == [2]
    scene.judge()


def test_an_attempt_sent_just_before_the_leader_dies_is_adopted_not_started_again(scene: Scene) -> None:
    proxy = scene.add_server_behind(workers=True)
    scene.cluster.add_server()
    scene.cluster.add_worker(servers=[proxy.url, scene.cluster.urls[1]])
    assert scene.leader() == 0

    trap = proxy.when_server_says(START, scene.cluster.servers[0].kill, forward=True)
    [task] = scene.submit(scene.function(seconds=1), server=1)
    trap.wait()

    scene.until_ended([task])
    assert scene.attempts(task) == [(1, 10, 1)]
    assert [one.attempt for one in scene.executions()] == [1]
    scene.judge()


def test_a_leader_paused_beyond_its_lease_steps_down_and_starts_nothing_twice(scene: Scene) -> None:
    scene.start(servers=2, workers=2)
    leader = scene.leader()
    other = 1 - leader
    long = scene.submit(*(scene.function(seconds=5, cap="1h") for _ in range(4)))
    scene.until_started(long)
    before = _epoch(scene)
    short = scene.submit(*(scene.function(seconds=0.05) for _ in range(100)), server=leader)
    scene.until_started(short[:1])

    sleeper = scene.cluster.servers[leader]
    sleeper.pause()  # in the middle of the batch: starts and results are under way
    scene.leader(besides=leader)
    taken_over = _epoch(scene)
    assert taken_over > before
    scene.until_ended(short)
    logged = len(sleeper.log())
    sleeper.resume()
    resumed_at = time.monotonic()
    more = scene.submit(*(scene.function() for _ in range(100)), server=other)
    eventually(lambda: "leader.stepped_down" in sleeper.log()[logged:], seconds=10, what="the sleeper steps down")
    assert time.monotonic() - resumed_at <= 1.0

    scene.until_ended(long + more)
    assert _epoch(scene) == taken_over, "nobody took the pool from the one who leads it"
    assert [scene.attempts(task) for task in long] == [[(1, 10, 1)]] * 4
    scene.judge()


def test_a_leader_that_wakes_up_with_a_batch_in_hand_can_not_write_it(scene: Scene) -> None:
    """I7: what it had sent arrives after its lease was taken, what it would send is fenced: neither changes a thing."""
    proxy = scene.add_server_behind(database=True)
    assert scene.leader() == 0  # before another server campaigns
    scene.cluster.add_server()
    scene.cluster.add_worker()
    before = _epoch(scene)
    long = scene.submit(*(scene.function(seconds=4) for _ in range(2)))
    scene.until_started(long)

    proxy.blackhole()  # its batches are held back on their way
    scene.submit(*(scene.function() for _ in range(20)), server=1)
    scene.leader(besides=0)
    scene.cluster.servers[0].pause()
    proxy.heal()  # now they arrive, long after another has taken over
    scene.until_ended(long)
    scene.cluster.servers[0].resume()

    scene.judge()
    epochs = [int(found) for found in re.findall(r'"epoch": (\d+), .*"leader.began"', scene.cluster.servers[1].log())]
    assert epochs
    assert all(epoch > before for epoch in epochs)


def test_a_leader_cut_off_from_the_database_stops_dispatching_and_loses_no_result(scene: Scene) -> None:
    proxy = scene.add_server_behind(database=True)
    scene.cluster.add_server()
    scene.cluster.add_worker()
    assert scene.leader() == 0
    running = scene.submit(*(scene.function(seconds=1) for _ in range(8)))
    scene.until_started(running)

    proxy.blackhole()
    cut_at = time.monotonic()
    [waiting] = scene.submit(scene.function(), server=1)
    scene.leader(besides=0)
    scene.until_ended([*running, waiting], seconds=15)

    assert time.monotonic() - cut_at < 10
    assert [scene.attempts(task) for task in running] == [[(1, 10, 1)]] * 8
    assert scene.attempts(waiting) == [(1, 10, 1)]
    cut_off = scene.cluster.servers[0]
    eventually(lambda: "leader.stepped_down" in cut_off.log(), seconds=5, what="it has stepped down")
    proxy.heal()
    eventually(lambda: scene.get("/readyz").status_code == 200, seconds=10, what="the node is back")
    scene.cluster.servers[1].kill()
    assert scene.leader(besides=1) == 0, "it leads again when it must"
    scene.submit(scene.function())
    scene.judge()


def test_replayed_starts_start_nothing(scene: Scene) -> None:
    """I9: frames of the same epoch meet attempts that were here before, frames of an older one are refused."""
    proxy = scene.add_server_behind(workers=True)
    scene.cluster.add_worker(servers=[proxy.url])
    proxy.record(START)
    tasks = scene.submit(*(scene.function() for _ in range(20)))
    scene.until_ended(tasks)
    agent = scene.cluster.workers[0]

    assert proxy.replay() >= 1
    eventually(lambda: "was here before is ignored" in agent.log(), seconds=5, what="the agent knows them")
    scene.cluster.servers[0].kill()
    scene.cluster.servers[0].start()
    scene.leader()
    eventually(lambda: agent.log().count('"registered"') == 2, seconds=10, what="the agent is back")
    proxy.replay()
    eventually(lambda: "older epoch is refused" in agent.log(), seconds=5, what="the agent refuses them")

    assert len(scene.executions()) == 20
    scene.judge()
