"""Lesson 7: everything the client does is plain HTTP and JSON; any program can do it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from rota import Client
from tests.harness.cluster import Cluster


@pytest.fixture
def http(cluster: Cluster) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    with httpx.Client(base_url=cluster.urls[0], headers=headers, timeout=60) as ready:
        yield ready


def test_submit_then_ask_with_a_wait(http: httpx.Client) -> None:
    created = http.post("/v1/tasks", json={"command": ["echo", "hi"]})
    assert created.status_code == 201
    number = created.json()["id"]
    assert created.json() == {"id": number, "created": True, "state": "ready"}
    document = http.get(f"/v1/tasks/{number}", params={"wait": 30}).json()
    assert (document["state"], document["exit_code"]) == ("done", 0)
    assert http.get(f"/v1/tasks/{number}/log").text == "hi\n"


def test_a_batch_is_one_request_and_so_is_waiting_for_it(http: httpx.Client) -> None:
    batch = [{"function": "sample_tasks:add", "args": [n, n]} for n in range(50)]
    ids = http.post("/v1/tasks/batch", json={"tasks": batch}).json()["ids"]
    answer = http.post("/v1/tasks/wait", json={"ids": ids, "timeout": 30}).json()
    assert answer["pending"] == 0
    assert {one["id"]: one["result"] for one in answer["ended"]} == {number: 2 * n for n, number in enumerate(ids)}


def test_the_same_idempotency_key_gives_the_first_task_with_200(http: httpx.Client) -> None:
    body, headers = {"command": ["true"]}, {"idempotency-key": "once-and-only-once"}
    first, second = (http.post("/v1/tasks", json=body, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == {"id": first.json()["id"], "created": False}
    other = http.post("/v1/tasks", json={"command": ["false"]}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "https://rota.dev/problems/idempotency-key-reused")


def test_every_fault_of_a_request_is_in_one_answer(http: httpx.Client) -> None:
    answer = http.post("/v1/tasks", json={"command": ["x"], "cpu": -1, "attempts": 0, "pool": "nowhere"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
        ("/cpu", "out-of-range"),
        ("/pool", "unknown-pool"),
        ("/attempts", "out-of-range"),
    ]


def test_anothers_task_looks_exactly_like_one_that_never_was(http: httpx.Client, neighbour: Client) -> None:
    theirs = neighbour.submit(["true"], delay="1h").id
    foreign, unknown = http.get(f"/v1/tasks/{theirs}"), http.get("/v1/tasks/999999999")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert {**foreign.json(), "instance": ""} == {**unknown.json(), "instance": ""}


def test_the_server_describes_itself(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["info"]["title"] == "Rota"
    assert {"/v1/tasks", "/v1/tasks/batch", "/v1/tasks/{task}", "/v1/dead"} <= set(document["paths"])
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ready", "leads": ["default"]}
    assert "rota_tasks_admitted" in http.get("/metrics").text
