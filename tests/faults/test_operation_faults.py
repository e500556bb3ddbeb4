"""A server node dies while it works on an operation: another one ends it, and every task is changed exactly once."""

from __future__ import annotations

from typing import Any

import httpx

from tests.faults.scene import Scene, eventually

TASKS = 10_000
CANCELLED, READY = 12, 3


def submit_array(scene: Scene) -> int:
    with httpx.Client(timeout=60, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"
        body = {"command": ["true"], "name": "mass", "array": f"0-{TASKS - 1}"}
        answer = http.post(f"{scene.cluster.urls[0]}/v1/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])


def start(scene: Scene, server: int, body: dict[str, Any]) -> int:
    with httpx.Client(timeout=60, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"
        answer = http.post(f"{scene.cluster.urls[server]}/v1/operations", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])


def kill_in_the_middle(scene: Scene, operation: int, server: int) -> int:
    """Kills the node after a batch, before the last one; returns how many tasks were changed by then."""

    def changed() -> int:
        [row] = scene.query("select changed, state from operations where id = $1", operation)
        assert row["state"] == 1, "the operation is too short to be cut"
        return int(row["changed"])

    eventually(changed, seconds=20, what="a batch")
    scene.cluster.servers[server].kill()
    [row] = scene.query("select changed, state from operations where id = $1", operation)
    return int(row["changed"])


def ended(scene: Scene, operation: int, server: int) -> dict[str, Any]:
    document: dict[str, Any] = scene.get(f"/v1/operations/{operation}?wait=30", server=server, seconds=60).json()
    return document


def test_an_operation_survives_the_death_of_the_node_that_works_on_it(scene: Scene) -> None:
    scene.cluster.add_server()
    scene.query("update plans set waiting_tasks = null, tasks_per_hour = null, graphs = null")
    scene.query("update pools set elastic = true")
    array = submit_array(scene)
    first = scene.cluster.servers[0]

    # A cancel begins on the only node, which dies; a node that was not there goes on.
    operation = start(scene, 0, {"verb": "cancel", "where": {"graph": array}})
    before = kill_in_the_middle(scene, operation, 0)
    assert 0 < before < TASKS
    scene.cluster.add_server()
    document = ended(scene, operation, 1)
    assert (document["state"], document["matched"], document["changed"]) == ("done", TASKS, TASKS)
    assert (document["ended"], document["refused"]) == (0, 0)
    rows = scene.query("select task, state from attempts")
    assert len({row["task"] for row in rows}) == len(rows) == TASKS
    assert {row["state"] for row in rows} == {CANCELLED}
    assert scene.query("select id from queue") == []

    # New runs are made once, whichever of two nodes dies.
    first.start()
    operation = start(scene, 1, {"verb": "retry", "where": {"graph": array, "state": "cancelled"}})
    kill_in_the_middle(scene, operation, 1)
    document = ended(scene, operation, 0)
    assert (document["state"], document["changed"], document["refused"]) == ("done", TASKS, 0)
    runs = scene.query("select retry_of from tasks where retry_of is not null")
    assert len({row["retry_of"] for row in runs}) == len(runs) == TASKS
    states = scene.query("select state, count(*) as tasks from queue group by state")
    assert [(row["state"], row["tasks"]) for row in states] == [(READY, TASKS)]
    for process in scene.cluster.servers:
        assert "operations.crashed" not in process.log()
