"""Links between a worker and its leader that are neither whole nor gone: deaf one way, flapping, slow (F20, F23, F26).

Timings are scaled to a fifth, as in `test_worker_faults.py`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.faults.nemesis import start_without_waiting
from tests.faults.scene import Scene, eventually, stands_still
from tests.faults.test_worker_faults import DONE_FIRST, GRACE_SECONDS
from tests.harness.cluster import Process
from tests.harness.proxy import Proxy

pytestmark = pytest.mark.long

FLAPS = 6
DONE = 1
OUTPUT_BYTES = 4_000_000
MOST_GROWTH_BYTES = 64 * 1024**2


def _behind(scene: Scene) -> Proxy:
    proxy = scene.add_server_behind(workers=True)
    scene.cluster.add_worker(servers=[proxy.url])
    return proxy


def test_a_worker_that_is_heard_but_hears_nothing_freezes_its_tasks_before_another_begins_them(scene: Scene) -> None:
    proxy = _behind(scene)
    deaf = scene.cluster.workers[0]
    tasks = scene.submit(
        scene.function(seconds=60, later_seconds=0), scene.command(seconds=60, later_seconds=0)
    )  # fmt: skip
    scene.until_started(tasks)

    proxy.deafen(of=deaf.pid)
    start_without_waiting(scene.cluster.add_worker(start=False, servers=[proxy.url]))
    eventually(lambda: stands_still(deaf, scene.cluster.folder), seconds=GRACE_SECONDS, what="its tasks are frozen")
    assert all(one.attempt == 1 for one in scene.executions()), "frozen before anything was started elsewhere"
    # Its last words may still have been heard, and an answer to them lost: then a second attempt is lost as well.
    scene.until_ended(tasks, seconds=60)

    last = [scene.attempts(task)[-1] for task in tasks]
    assert [outcome for _, _, outcome in last] == [DONE] * 2
    assert all(number in (2, 3) for number, _, _ in last)
    scene.judge()


def test_a_connection_that_flaps_restarts_nothing_and_leaves_no_session_behind(scene: Scene) -> None:
    proxy = _behind(scene)
    worker = scene.cluster.workers[0]
    tasks = scene.submit(scene.function(seconds=4), scene.command(seconds=4), scene.function(seconds=0.2))
    scene.until_started(tasks)

    for flap in range(2, FLAPS + 2):
        proxy.cut()
        proxy.heal()
        eventually(lambda: worker.log().count('"registered"') >= flap, seconds=10, what="it is back")  # noqa: B023

    scene.until_ended(tasks)
    assert [scene.attempts(task) for task in tasks] == [DONE_FIRST] * 3
    assert len(scene.executions()) == 3
    server = scene.cluster.servers[0].log()
    assert server.count('"node.joined"') == FLAPS + 1
    scene.judge()


def test_a_leader_that_reads_slowly_gets_every_result_and_the_worker_does_not_grow(scene: Scene) -> None:
    proxy = _behind(scene)
    worker = scene.cluster.workers[0]
    before = _resident_bytes(worker.pid)

    proxy.delay(0.02)  # for every piece: a link of a few megabytes a second, with a worker that has much to say
    talk = ["sh", "-c", f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x"]
    loud = scene.submit(*({"command": talk, "cap": "60s"} for _ in range(4)))
    quiet = scene.submit(*(scene.function() for _ in range(20)))
    scene.until_ended(loud + quiet, seconds=60)
    grown = _resident_bytes(worker.pid) - before
    proxy.heal()

    assert [scene.attempts(task) for task in loud + quiet] == [DONE_FIRST] * 24
    assert grown < MOST_GROWTH_BYTES, f"the agent grew by {grown / 1e6:.0f} MB"


def test_output_that_a_slow_link_keeps_back_waits_on_the_workers_disk_and_is_all_there_in_the_end(scene: Scene) -> None:
    proxy = scene.add_server_behind(workers=True, ROTA_LOG_LIMIT="20M")
    worker = scene.cluster.add_worker(servers=[proxy.url])
    before = _resident_bytes(worker.pid)

    proxy.delay(0.05)
    talk = ["sh", "-c", f"head -c {4 * OUTPUT_BYTES} /dev/zero | tr '\\0' x; echo end"]
    loud = scene.submit(*({"command": talk, "cap": "60s"} for _ in range(4)))
    eventually(lambda: _spilt_bytes(worker) > OUTPUT_BYTES, seconds=30, what="output is on the worker's disk")
    scene.until_ended(loud, seconds=60)
    assert [scene.attempts(task) for task in loud] == [DONE_FIRST] * 4
    proxy.heal()

    with scene.cluster.client() as client:
        for task in loud:
            eventually(
                lambda: client.log(task).endswith(b"end\n"),  # noqa: B023
                seconds=60, what="all of its output is stored",
            )  # fmt: skip
            assert client.log(task) == b"x" * 4 * OUTPUT_BYTES + b"end\n"
    grown = _resident_bytes(worker.pid) - before
    assert grown < MOST_GROWTH_BYTES, f"the agent grew by {grown / 1e6:.0f} MB"
    eventually(lambda: _spilt_bytes(worker) == 0, seconds=30, what="the disk is free again")


def _spilt_bytes(worker: Process) -> int:
    total = 0
    for path in worker.folder.glob("node-*/output/*"):
        with contextlib.suppress(FileNotFoundError):  # sent since it was listed
            total += path.stat().st_size
    return total


def _resident_bytes(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024
