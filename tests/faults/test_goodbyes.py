"""Workers that go in order are seen to have left at once; one that dies is not taken for one of them."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
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


def test_a_server_that_is_stopped_lets_its_waiting_clients_go_at_once(scene: Scene) -> None:
    """They go on at another server. Held back, they would delay the end by three seconds."""
    server = scene.cluster.add_server()
    [task] = scene.submit(scene.command(later_seconds=0))
    headers = {"authorization": f"Bearer {scene.cluster.tokens.admin}", "accept": "text/event-stream"}
    with httpx.Client(base_url=scene.cluster.urls[0], headers=headers, timeout=30, trust_env=False) as http:
        with (
            http.stream("GET", f"/v1/tasks/{task}/log", params={"follow": "true"}) as output,
            http.stream("GET", "/v1/events") as events,
            ThreadPoolExecutor(1) as threads,
        ):
            waiting = threads.submit(http.get, f"/v1/tasks/{task}", params={"wait": 30})
            following = events.iter_lines()
            assert next(following).startswith("id: ")
            eventually(lambda: _connections(server.pid) >= 3, seconds=10, what="the third client has connected")
            began = time.monotonic()
            server.stop()
            seconds = time.monotonic() - began
            assert waiting.result().json()["status"] == "waiting"
            assert list(following)[-1] == ""  # a whole event, and the end in order
            assert "".join(output.iter_lines()) == ""
    assert seconds < 2.5


def _connections(pid: int) -> int:
    """Connections of clients to the port of a server."""
    listing = subprocess.run(["ss", "-tnpH", "state", "established"], capture_output=True, text=True, check=True).stdout
    return sum(f"pid={pid}," in line for line in listing.splitlines())
