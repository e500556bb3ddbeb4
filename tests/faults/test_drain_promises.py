"""Whoever was told that a node takes nothing new sees nothing start there: through any server node, at once (R39)."""

from __future__ import annotations

import pytest

from tests.faults.scene import Scene, eventually

ROUNDS = 5


@pytest.mark.parametrize("servers", [1, 2], ids=["through the leader", "through another"])
def test_what_is_submitted_after_the_answer_to_a_drain_runs_elsewhere(scene: Scene, servers: int) -> None:
    """Node 0 is the smaller one, so it is where the leader would start them."""
    scene.start(servers=servers, workers=0)
    for capacity in ("cpu=2,memory=2G,disk=100G", "cpu=16,memory=16G,disk=100G"):
        scene.cluster.add_worker(capacity=capacity)
    drained = _numbers(scene)["node-0"]
    asked = scene.leader() if servers == 1 else 1 - scene.leader()
    for _ in range(ROUNDS):
        assert _say(scene, asked, "drain")["state"] == "draining"
        tasks = scene.submit(*(scene.command() for _ in range(3)), server=asked)
        scene.until_ended(tasks, seconds=20)
        rows = scene.query("select count(*) from attempts where task = any($1) and node = $2", tasks, drained)
        assert rows[0]["count"] == 0, "none of them was sent to the drained node"
        _say(scene, asked, "undrain")
        eventually(lambda: _takes_work(scene, drained), seconds=20, what="the node takes work again")
    scene.judge()


def _numbers(scene: Scene) -> dict[str, int]:
    return {row["name"]: row["id"] for row in scene.query("select name, id from nodes")}


def _say(scene: Scene, server: int, word: str) -> dict[str, object]:
    answer = scene._http.post(f"{scene.cluster.urls[server]}/v1/nodes/node-0/{word}")
    assert answer.status_code == 200, answer.text
    said: dict[str, object] = answer.json()
    return said


def _takes_work(scene: Scene, node: int) -> bool:
    tasks = scene.submit(scene.command())
    scene.until_ended(tasks)
    return scene.query("select from attempts where task = $1 and node = $2", tasks[0], node) != []
