"""Why a task waits, previews, and a pool's load: over real HTTP, from the leader's node and from one that must ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.api.served import Said, Served, problem
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

PATIENCE_SECONDS = 20.0
SLEEP = {"command": ["sleep", "300"], "cpu": 2, "memory": "100M", "cap": "10m", "name": "sleeper"}


@pytest.fixture(scope="module")
def led(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two server nodes and a worker of 2 cores that a sleeper of another tenant fills."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("why")) as running:
        running.add_server()
        running.add_server()
        running.add_worker(capacity="cpu=2,memory=2G,disk=10G", options=("--label", "zone=a"))
        served = Served.on(running)
        sleeper = served.submit(served.stranger, **SLEEP)
        until(lambda: why(served, sleeper, token=served.stranger)["reason"] == "running")
        too_big = {"command": ["x"], "cpu": 64}
        until(
            lambda: served.send("POST", "/v1/tasks/preview", too_big).status_code == 422
        )  # admission knows the worker
        yield served
        served.send("POST", f"/v1/tasks/{sleeper}/cancel", token=served.stranger)


def until(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def why(served: Served, task: int, *, token: str = "", server: int = 0) -> dict[str, Any]:
    answer = served.send("GET", f"{served.cluster.urls[server]}/v1/tasks/{task}/why", token=token)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_task_without_room_hears_what_is_short_from_every_server_node(led: Served) -> None:
    task = led.submit(cpu=1, memory="10M", cap="1m")
    for server in (0, 1):
        until(lambda server=server: why(led, task, server=server)["reason"] == "no-free-resources")  # type: ignore[misc]
        found = why(led, task, server=server)
        assert found["sentence"].startswith("no node has 1 core free; none has any left")
        assert (found["position"], found["ahead_of_mine"], found["tenants_ahead"]) == (1, 0, 0)
        assert (found["suitable_nodes"], found["free_nodes"]) == (1, 0)
        assert (found["likely_node"], found["basis"]) == ("node-0", "running-tasks")
        assert found["estimated_start"] is not None
    led.send("POST", f"/v1/tasks/{task}/cancel")


def test_a_task_no_node_could_hold_hears_which_resource_is_short(led: Served) -> None:
    big = led.submit(cpu=64, unplaceable="wait")
    far = led.submit(require={"zone": "b"}, unplaceable="wait")
    until(lambda: why(led, big)["reason"] == "unplaceable")
    assert why(led, big)["sentence"] == ("no node could ever hold it: it asks for 64 cores, the most any node has is 2")
    assert (why(led, big)["estimated_start"], why(led, big)["basis"]) == (None, "unknown")
    assert why(led, far)["reason"] == "no-such-label"
    load = led.send("GET", "/v1/pools/default/load", token=led.tokens["operator"]).json()
    until(lambda: b'rota_pool_unplaceable{pool="default"} 2' in metrics(led))
    assert sum(one["tasks"] for one in load["demand"]["unplaceable"]) <= 2
    led.send("POST", "/v1/tasks/cancel", {"ids": [big, far]})


def metrics(led: Served) -> bytes:
    return b"".join(led.send("GET", f"{url}/metrics").content for url in led.cluster.urls)


def test_what_is_not_ready_says_why_from_its_row(led: Served) -> None:
    parents = [led.submit(delay="1h", cap="1m"), led.submit(delay="1h", cap="1m")]
    child = led.submit(after=parents)
    blocked = why(led, child)
    assert (blocked["reason"], blocked["blocked_by_count"]) == ("blocked", 2)
    assert blocked["blocked_by"] == [{"id": parent, "state": "delayed"} for parent in parents]
    assert blocked["sentence"] == f"it waits for tasks {parents[0]} (delayed), {parents[1]} (delayed)"
    assert blocked["estimated_start"] is not None, "the parents would run for as long as their caps, which are given"
    assert (blocked["basis"], blocked["run_times"]) == ("parents", "cap")
    delayed = why(led, parents[0])
    assert (delayed["reason"], delayed["basis"]) == ("delayed", "its-time")
    assert delayed["estimated_start"] in delayed["sentence"]
    led.send("POST", "/v1/tasks/cancel", {"ids": [child, *parents]})
    ended = why(led, parents[0])
    assert ended["reason"] == "ended"
    assert ended["sentence"].startswith("it has ended cancelled at ")


@pytest.mark.parametrize("task", ["999999999", "x", "-1", "0"])
def test_there_is_no_why_for_what_is_not_there(led: Served, task: str) -> None:
    assert problem(led.send("GET", f"/v1/tasks/{task}/why")) == Said(404, "not-found")


def test_another_tenants_task_is_as_unknown_as_an_unused_number(led: Served) -> None:
    mine = led.submit(delay="1h")
    assert problem(led.send("GET", f"/v1/tasks/{mine}/why", token=led.stranger)) == Said(404, "not-found")
    assert problem(led.send("GET", f"/v1/tasks/{mine}/why", token=None)).status == 401
    assert problem(led.send("GET", f"/v1/tasks/{mine}/why?x=1")).slug == "invalid-filter"


def test_a_task_the_leader_has_not_read_yet_is_counted_in_the_database(led: Served) -> None:
    token = led.add_token(led.add_tenant()[0])
    batches = [
        led.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["x"]}] * 9_000}, token=token) for _ in range(2)
    ]
    first, second = (batch.json()["ids"] for batch in batches)
    found = why(led, first[-1], token=token)
    assert (found["reason"], found["position"], found["ahead_of_mine"]) == ("in-database", 9_000, 8_999)
    assert "number 9,000 of your tasks in the queue in the database" in found["sentence"]
    assert found["start_unknown"].startswith("none of your tasks has ended in the last minutes")
    last = why(led, second[-1], token=token)
    assert (last["reason"], last["position"]) == ("in-database", None)
    assert "behind the first 10,000 of your tasks" in last["sentence"]
    assert last["start_unknown"]
    for ids in (first, second):
        led.send("POST", "/v1/tasks/cancel", {"ids": ids}, token=token)


def test_a_pool_without_nodes_says_so(served: Served) -> None:
    task = served.submit()
    until(lambda: why(served, task)["reason"] == "no-nodes")
    assert why(served, task)["sentence"] == "no node of the pool is connected"


def test_a_leader_that_can_not_be_asked_is_said_and_the_place_counted_in_the_database(
    database: str, tmp_path: Path
) -> None:
    with Cluster(database, tmp_path / "cluster", time_scale=1.0) as running:
        leader = running.add_server()
        running.add_server()
        served = Served.on(running)
        tasks = [served.submit() for _ in range(3)]
        assert "default" in served.send("GET", "/readyz").json()["leads"]
        until(lambda: why(served, tasks[2], server=1)["reason"] == "no-nodes")
        leader.pause()
        try:
            found = why(served, tasks[2], server=1)
            assert (found["reason"], found["position"], found["ahead_of_mine"]) == ("leader-unreachable", 3, 2)
            assert found["sentence"].endswith("it is number 3 of your tasks in the database")
            assert found["start_unknown"] == "only the leader knows how fast the queue moves"
            previewed = served.send("POST", f"{running.urls[1]}/v1/tasks/preview", {"command": ["true"]}).json()
            assert previewed["groups"][0]["reason"] == "leader-unreachable"
            load = served.send("GET", f"{running.urls[1]}/v1/pools/default/load")
            assert problem(load) == Said(503, "unavailable")
        finally:
            leader.resume()


# ---- previews ------------------------------------------------------------------------------------------------------


def test_a_preview_tells_where_and_when_and_stores_nothing(led: Served) -> None:
    before = led.stored()
    found = led.send("POST", "/v1/tasks/preview", {"command": ["true"], "cpu": 1}).json()
    assert (found["accepted"], found["tasks"], found["refusals"], found["limits"]) == (True, 1, [], [])
    group = found["groups"][0]
    assert (group["state"], group["reason"]) == ("ready", "no-free-resources")
    assert (group["suitable_nodes"], group["free_nodes"], group["basis"]) == (1, 0, "running-tasks")
    assert led.stored() == before


def test_a_batch_is_previewed_by_what_differs(led: Served) -> None:
    tasks = [{"command": ["a"], "ref": "a"}, {"command": ["a"]}, {"command": ["b"], "after": ["a"], "cpu": 2}]
    found = led.send("POST", "/v1/tasks/preview", {"tasks": tasks}).json()
    shown = [(one["first"], one["tasks"], one["state"], one["reason"]) for one in found["groups"]]
    assert shown == [(0, 2, "ready", "no-free-resources"), (2, 1, "blocked", "blocked")]
    assert found["tasks"] == 3
    assert [one["name"] for one in found["groups"]] == ["a", "b"]
    assert found["groups"][1]["sentence"] == "it would wait for other tasks of the request first"
    unknown = found["groups"][1]["start_unknown"]
    assert unknown.startswith("nothing is known of how long the tasks before it run")


def test_a_chain_of_a_request_is_told_start_by_start(led: Served) -> None:
    tasks = {
        "tasks": [
            {"command": ["a"], "ref": "a", "cpu": 1, "cap": "1m"},
            {"command": ["b"], "ref": "b", "cpu": 1, "cap": "2m", "after": ["a"]},
            {"command": ["c"], "after": ["b"], "cpu": 2},
        ]
    }
    groups = led.send("POST", "/v1/tasks/preview", tasks).json()["groups"]
    starts = [datetime.fromisoformat(one["estimated_start"]) for one in groups]
    assert [round((later - sooner).total_seconds()) for sooner, later in pairwise(starts)] == [60, 120]
    assert [one["basis"] for one in groups[1:]] == ["parents", "parents"]


def test_alike_tasks_do_not_all_start_at_once(led: Served) -> None:
    tasks = {"tasks": [{"command": ["a"], "cpu": 1, "cap": "1m"}] * 10}
    (group,) = led.send("POST", "/v1/tasks/preview", tasks).json()["groups"]
    first, last = (datetime.fromisoformat(group[name]) for name in ("estimated_start", "last_start"))
    assert (group["tasks"], group["starting_now"], group["without_start"]) == (10, 0, 0)
    assert round((last - first).total_seconds()) == 4 * 60, "two at a time"
    (group,) = led.send("POST", "/v1/tasks/preview", {"tasks": [{"command": ["a"], "cpu": 1}] * 10}).json()["groups"]
    assert (group["tasks"], group["without_start"]) == (10, 8), "nobody knows how long the first two run"


def test_a_paused_tenant_is_said_wherever_the_task_stands(led: Served) -> None:
    name = led.add_tenant()[0]
    token = led.add_token(name)
    tasks = [led.submit(token), led.submit(token, delay="1h"), led.submit(token)]
    tasks += [led.submit(token, after=[tasks[0]]), tasks.pop()]
    led.send("POST", f"/v1/tasks/{tasks[-1]}/hold", {"reason": "later"}, token=token)
    led.send("POST", f"/v1/tenants/{name}/pause", token=led.cluster.tokens.admin)
    for task in tasks:
        until(lambda task=task: "an operator has paused your tenant" in why(led, task, token=token)["sentence"])  # type: ignore[misc]
        found = why(led, task, token=token)
        assert (found["estimated_start"], bool(found["start_unknown"])) == (None, True), found
    previewed = led.send("POST", "/v1/tasks/preview", {"command": ["x"]}, token=token).json()["groups"][0]
    assert "an operator has paused your tenant" in previewed["sentence"]
    led.send("POST", f"/v1/tenants/{name}/resume", token=led.cluster.tokens.admin)
    led.send("POST", "/v1/tasks/cancel", {"ids": tasks}, token=token)


def test_a_preview_names_what_it_would_wait_for(led: Served) -> None:
    waiting = led.submit(cpu=1)
    blocked = led.send("POST", "/v1/tasks/preview", {"command": ["x"], "after": [waiting]}).json()["groups"][0]
    assert (blocked["reason"], blocked["sentence"]) == ("blocked", f"it would wait for task {waiting} first")
    delayed = led.send("POST", "/v1/tasks/preview", {"command": ["x"], "delay": "1h"}).json()["groups"][0]
    assert delayed["sentence"] == f"it would start not before {delayed['estimated_start']}"
    assert (delayed["reason"], delayed["basis"]) == ("delayed", "its-time")
    led.send("POST", f"/v1/tasks/{waiting}/cancel")


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({"command": ["x"], "cpu": 64}, "unsatisfiable"),
        ({"command": ["x"], "after": [999999999]}, "unknown-dependency"),
        ({"command": ["x"], "tier": "nope"}, "unknown-tier"),
        ({"tasks": []}, "out-of-range"),
        ([1], None),
        (b"{", "malformed-json"),
    ],
)
def test_a_preview_is_refused_as_the_submission_would_be(led: Served, body: Any, slug: str | None) -> None:
    previewed = led.send("POST", "/v1/tasks/preview", body)
    path = "/v1/tasks/batch" if isinstance(body, dict) and "tasks" in body else "/v1/tasks"
    submitted = led.send("POST", path, body)
    assert problem(previewed) == problem(submitted)
    assert slug is None or problem(previewed).slug == slug


def test_a_preview_uses_up_no_rate_and_names_the_limits(led: Served) -> None:
    name, _ = led.add_tenant("free")
    token = led.add_token(name)
    plan = led.send("GET", "/v1/me", token=token).json()["plan"]
    burst = plan["burst"]
    for _ in range(3):
        found = led.send("POST", "/v1/tasks/preview", {"tasks": [{"command": ["true"]}] * burst}, token=token).json()
        assert found["accepted"], found
    assert led.send("GET", "/v1/me", token=token).json()["usage"]["burst_left"] == burst
    led.send("POST", "/v1/tasks", {"command": ["true"], "delay": "1h"}, token=token)
    late = led.send("POST", "/v1/tasks/preview", {"tasks": [{"command": ["true"]}] * burst}, token=token).json()
    assert (late["accepted"], [one["type"] for one in late["refusals"]]) == (False, ["rate-limited"])
    (group,) = late["groups"]
    assert (group["estimated_start"], group["starting_now"]) == (None, 0), "what is refused does not start"
    assert group["start_unknown"].startswith("it would be refused now (rate-limited)")


def test_a_key_used_before_is_recognised(led: Served) -> None:
    body = {"command": ["true"], "delay": "1h", "idempotency_key": "once"}
    task = led.send("POST", "/v1/tasks", body).json()["id"]
    assert led.send("POST", "/v1/tasks/preview", body).json()["already_submitted"] == [task]
    other = led.send("POST", "/v1/tasks/preview", {**body, "command": ["false"]})
    assert problem(other).slug == "idempotency-key-reused"


# ---- load ----------------------------------------------------------------------------------------------------------


def test_operators_see_the_whole_pool_from_every_server_node(led: Served) -> None:
    for url in led.cluster.urls:
        load = led.send("GET", f"{url}/v1/pools/default/load", token=led.tokens["operator"]).json()
        assert (load["utilisation"], load["peak"], load["nodes_in_all"]) == (1.0, True, 1)
        assert load["nodes"][0]["name"] == "node-0"
        assert (load["nodes"][0]["state"], load["nodes"][0]["running"], load["nodes"][0]["free"]["cpu"]) == ("up", 1, 0)
        assert [one["share"] for one in load["tenants"] if one["running"]] == [1.0]
        assert {"ready", "running", "lanes", "gated"} <= set(load["lanes"][0])
        cpu = next(one for one in load["resources"] if one["name"] == "cpu")
        assert (cpu["total"], cpu["used"], cpu["utilisation"]) == (2000, 2000, 1.0)


def test_others_see_how_full_it_is_and_their_own_share(led: Served) -> None:
    load = led.send("GET", "/v1/pools/default/load").json()
    assert {"tenants", "nodes", "reservations", "demand", "lanes"}.isdisjoint(load)
    assert (load["utilisation"], load["own"]["share"], load["own"]["running"]) == (1.0, 0.0, 0)
    assert set(load["resources"][0]) == {"name", "utilisation"}
    strangers = led.send("GET", "/v1/pools/default/load", token=led.stranger).json()
    assert (strangers["own"]["share"], strangers["own"]["running"]) == (1.0, 1)
    assert problem(led.send("GET", "/v1/pools/nope/load")) == Said(404, "not-found")
    assert problem(led.send("GET", "/v1/pools/default/load", token=led.tokens["worker"])).status == 403


def test_the_demand_names_nodes_for_what_no_node_could_hold_and_none_for_what_nobody_gave_a_time(led: Served) -> None:
    def demand() -> dict[str, Any]:
        load = led.send("GET", "/v1/pools/default/load", token=led.tokens["operator"]).json()
        return dict(load["demand"])

    plain = [led.submit(cpu=1, memory="10M") for _ in range(20)]
    large = led.submit(cpu=64, memory="1G", unplaceable="wait")
    until(lambda: bool(demand()["missing"]) and demand()["looked_at"] >= 21)
    found = demand()
    (missing,) = found["missing"]
    assert (missing["nodes"], missing["tasks"], missing["require"]) == (1, 1, {})
    assert (missing["capacity"]["cpu"], missing["capacity"]["memory_bytes"]) == (64, 10**9)
    assert (found["late"], found["idle"], found["unplaceable"][0]["asks"]["cpu"]) == (0, [], 64)
    for task in (*plain, large):
        led.send("POST", f"/v1/tasks/{task}/cancel")


def test_the_demand_signal_is_measured(led: Served) -> None:
    text = metrics(led)
    assert b'rota_pool_utilisation{pool="default",resource="cpu"} 1.0' in text
    assert b'rota_pool_missing_nodes{pool="default"}' in text
    assert b'rota_pool_demand_ratio{pool="default",resource="cpu"}' in text


@pytest.mark.parametrize("path", ["/internal/pools/1/load", "/internal/pools/1/waiting"])
def test_server_nodes_tell_nobody_else(led: Served, path: str) -> None:
    assert problem(led.send("POST", path, [], token=led.tokens["admin"])).status == 401
