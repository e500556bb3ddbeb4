"""Whoever was told of a pause sees nothing of it start, through any server node; other changes hold within two seconds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.faults.scene import Scene, Spec, eventually

ROUNDS = 3
ONE_AT_A_TIME = "cpu=0.25,memory=4G,disk=100G"  # a plain task is a quarter of a CPU


@pytest.mark.parametrize("through", ["the leader", "another"])
def test_a_tenant_that_is_paused_with_nothing_waiting_starts_nothing(scene: Scene, through: str) -> None:
    """Its leader has no task of it, so it has no reason to look at the tenant."""
    scene.start(servers=2, workers=1)
    other_token = _add_tenant(scene, "beta")
    asked = scene.leader() if through == "the leader" else 1 - scene.leader()
    scene.until_ended(scene.submit(scene.command()))
    for _ in range(ROUNDS):
        assert _say(scene, asked, "tenants/default/pause")["may_still_start"] == 0
        held = [task for server in (0, 1) for task in scene.submit(scene.command(), scene.command(), server=server)]
        scene.until_ended(_submit_as(scene, other_token, {"command": ["true"]}))  # the leader has started other work
        assert _states(scene, held) == {3}, "all are ready, none has started"
        _say(scene, asked, "tenants/default/resume")
        scene.until_ended(held, seconds=20)


@pytest.mark.parametrize("what", ["tenants/default/pause", "pools/default/pause", "nodes/node-0/drain"])
def test_what_waits_on_a_node_when_it_is_paused_does_not_start_there(scene: Scene, what: str) -> None:
    """Short calls are sent ahead to a node, to wait there behind the running one, which takes longer than expected."""
    scene.start(servers=2, workers=1, capacity=ONE_AT_A_TIME)
    asked = 1 - scene.leader()
    scene.until_ended(scene.submit(*(scene.function(seconds=0.002) for _ in range(30))))
    (long,) = scene.submit(scene.function(seconds=3.0))
    eventually(lambda: any(one.task == long for one in scene.executions()), seconds=20, what="the long call runs")
    short = scene.submit(*(scene.function(seconds=0.002) for _ in range(10)))
    eventually(lambda: 4 in _states(scene, short), seconds=20, what="calls wait on the node")
    answer = _say(scene, asked, what)
    assert answer["may_still_start"] == 0
    assert long not in [one.task for one in scene.executions() if one.ended_ns], "the answer did not wait for its end"
    eventually(lambda: _states(scene, short) == {3}, seconds=20, what="all of them wait in the queue again")
    scene.until_ended([long], seconds=20)
    assert {one.task for one in scene.executions()}.isdisjoint(short)
    _say(scene, asked, what.replace("pause", "resume").replace("drain", "undrain"))
    scene.judge()


def test_a_pause_outlives_the_leader_that_was_told_of_it(scene: Scene) -> None:
    scene.start(servers=2, workers=1)
    leader = scene.leader()
    scene.until_ended(scene.submit(scene.command()))
    _say(scene, 1 - leader, "tenants/default/pause")
    scene.cluster.servers[leader].kill()
    held = scene.submit(scene.command(), scene.command(), server=1 - leader)
    scene.leader(besides=leader)
    other_token = _add_tenant(scene, "beta", server=1 - leader)
    scene.until_ended(_submit_as(scene, other_token, {"command": ["true"]}, server=1 - leader), seconds=30)
    assert _states(scene, held) == {3}
    _say(scene, 1 - leader, "tenants/default/resume")
    scene.until_ended(held, seconds=20)


def test_an_operators_change_holds_on_every_server_node_within_two_seconds(scene: Scene) -> None:
    """The plan of a tenant, what a plan allows, a category, a lane, a revoked token."""
    scene.start(servers=2, workers=0)
    scene.leader()
    token = _add_tenant(scene, "acme", plan="free")
    changes: list[tuple[str, str, dict[str, Any], Spec]] = [
        ("patch", "tenants/acme", {"plan": "standard"}, {"command": ["true"], "cap": "10h"}),
        ("patch", "plans/standard", {"longest_cap": "20d"}, {"command": ["true"], "cap": "19d"}),
        ("patch", "plans/standard", {"tiers": ["basic", "premium"]}, {"command": ["true"], "tier": "premium"}),
        ("put", "categories/late", {"tolerance": "2h"}, {"command": ["true"], "category": "late"}),
        ("post", "lanes", {"name": "batch", "level": 2}, {"command": ["true"], "lane": "batch"}),
    ]
    for method, path, body, spec in changes:
        for server in (0, 1):  # both have just looked the caller up
            assert _try(scene, token, spec, server) == 422, path
        scene._http.request(method, f"{scene.cluster.urls[0]}/v1/{path}", json=body).raise_for_status()
        changed_at = time.monotonic()
        assert _try(scene, token, spec, 0) == 201, f"{path}: at once on the server node that made the change"
        eventually(lambda: _try(scene, token, spec, 1) == 201, seconds=2, what=f"{path} holds on the other")  # noqa: B023
        assert time.monotonic() - changed_at < 2
    number = scene.query("select id from tokens order by id desc limit 1")[0]["id"]
    scene._http.delete(f"{scene.cluster.urls[0]}/v1/tokens/{number}").raise_for_status()
    eventually(lambda: _try(scene, token, {"command": ["true"]}, 1) == 401, seconds=2, what="the token is revoked")


def _say(scene: Scene, server: int, order: str) -> dict[str, Any]:
    answer = scene._http.post(f"{scene.cluster.urls[server]}/v1/{order}")
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def _states(scene: Scene, tasks: list[int]) -> set[int]:
    rows = scene.query("select state from queue where id = any($1)", tasks)
    assert len(rows) == len(tasks), "none has ended"
    return {row["state"] for row in rows}


def _add_tenant(scene: Scene, name: str, *, plan: str = "unlimited", server: int = 0) -> str:
    url = scene.cluster.urls[server]
    scene._http.post(f"{url}/v1/tenants", json={"name": name, "plan": plan, "trusted": True}).raise_for_status()
    made = scene._http.post(f"{url}/v1/tokens", json={"tenant": name, "user": "ann"})
    token: str = made.json()["token"]
    return token


def _submit_as(scene: Scene, token: str, spec: Spec, *, server: int = 0) -> list[int]:
    answer = scene._http.post(
        f"{scene.cluster.urls[server]}/v1/tasks", json=spec, headers={"authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 201, answer.text
    return [answer.json()["id"]]


def _try(scene: Scene, token: str, spec: Spec, server: int) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return scene._http.post(f"{scene.cluster.urls[server]}/v1/tasks", json=spec, headers=headers).status_code
