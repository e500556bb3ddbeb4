"""Bad requests around the body: keys, scopes, ids, filters, methods. Foreign and unknown look exactly alike."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from rota.api.app import ROUTERS
from tests.harness.cluster import Cluster

TRUE = {"command": ["true"]}
ROUTES = [
    (method, route.path)
    for router in ROUTERS
    for route in router.routes
    for method in sorted(getattr(route, "methods", None) or ())
    if route.path.startswith("/v1")
]


def key_of(http: httpx.Client, tenant: str, role: str) -> str:
    http.post("/v1/tenants", json={"name": tenant, "plan": "standard"})
    made = http.post("/v1/tokens", json={"tenant": tenant, "user": role, "role": role})
    return str(made.json()["token"])


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_a_key(cluster: Cluster, method: str, path: str) -> None:
    address = cluster.urls[0] + re.sub(r"\{\w+\}", "1", path)
    answers = [
        httpx.request(method, address, headers=headers, trust_env=False)
        for headers in (
            {},
            {"authorization": "Basic eDp5"},
            bearer("nonsense"),
            bearer("rota_aaaaaaaaaaaa_" + "A" * 43),
        )
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert all("bearer" in answer.headers["www-authenticate"].lower() for answer in answers)
    assert len({json.dumps({**answer.json(), "instance": ""}) for answer in answers}) == 1


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[0] in ("POST", "PATCH", "DELETE")])
def test_a_viewers_key_changes_nothing(cluster: Cluster, http: httpx.Client, method: str, path: str) -> None:
    if path == "/v1/tasks/wait":
        return  # waiting is reading
    viewer = bearer(key_of(http, "onlookers", "viewer"))
    address = cluster.urls[0] + re.sub(r"\{\w+\}", "1", path)
    answer = httpx.request(method, address, headers=viewer, json={}, trust_env=False)
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (403, "forbidden")
    assert "scope" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks/{id}"),
        ("GET", "/v1/tasks/{id}/attempts"),
        ("GET", "/v1/tasks/{id}/log"),
        ("POST", "/v1/tasks/{id}/cancel"),
        ("POST", "/v1/tasks/{id}/retry"),
    ],
)
def test_a_foreign_id_an_unknown_one_and_a_malformed_one_look_alike(
    cluster: Cluster, http: httpx.Client, method: str, path: str
) -> None:
    foreign = http.post("/v1/tasks", json=TRUE).json()["id"]
    stranger = bearer(key_of(http, "strangers", "member"))
    bodies = set()
    for number in (foreign, 987_654_321, "abc", "-1", "0", "1" * 30, "1e3", "%C2%B2"):
        answer = httpx.request(
            method, cluster.urls[0] + path.replace("{id}", str(number)), headers=stranger, trust_env=False
        )
        assert answer.status_code == 404
        bodies.add(json.dumps({**answer.json(), "instance": ""}))
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("query", "status", "slug"),
    [
        ({"limit": "0"}, 422, "out-of-range"),
        ({"limit": "1000000"}, 422, "out-of-range"),
        ({"limit": "ten"}, 422, "out-of-range"),
        ({"cursor": "forged"}, 400, "invalid-cursor"),
        ({"cursor": "AAAAAAAAAAEAAAAAAAAAAA"}, 400, "invalid-cursor"),
        ({"state": "sleeping"}, 422, "invalid-filter"),
        ({"status": "'; drop table tasks; --"}, 422, "invalid-filter"),
        ({"tag": "no-colon"}, 422, "invalid-filter"),
        ({"order": "name"}, 422, "invalid-filter"),
    ],
)
def test_a_bad_filter_is_named(http: httpx.Client, query: dict[str, str], status: int, slug: str) -> None:
    answer = http.get("/v1/tasks", params=query)
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (status, slug)


def test_a_wrong_method_is_told_which_are_right(http: httpx.Client) -> None:
    answer = http.put("/v1/tasks")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].replace(" ", "").split(",")) >= {"GET", "POST"}


def test_cancelling_what_has_ended_and_retrying_what_lives_are_conflicts(http: httpx.Client) -> None:
    ended = http.post("/v1/tasks", json=TRUE).json()["id"]
    assert http.get(f"/v1/tasks/{ended}", params={"wait": 20}).json()["state"] == "done"
    live = http.post("/v1/tasks", json={**TRUE, "delay": "1h"}).json()["id"]
    cancelled, retried = http.post(f"/v1/tasks/{ended}/cancel"), http.post(f"/v1/tasks/{live}/retry")
    assert (cancelled.status_code, cancelled.json()["type"].rpartition("/")[2]) == (409, "already-terminal")
    assert "done" in cancelled.json()["detail"]
    assert (retried.status_code, retried.json()["type"].rpartition("/")[2]) == (409, "not-dead-lettered")
    assert "delayed" in retried.json()["detail"]


def test_a_workers_key_opens_no_tasks_and_a_members_no_work(cluster: Cluster, http: httpx.Client) -> None:
    worker = httpx.get(f"{cluster.urls[0]}/v1/tasks", headers=bearer(cluster.keys.worker), trust_env=False)
    member = http.get("/v1/worker/leader")
    assert (worker.status_code, member.status_code) == (403, 403)
