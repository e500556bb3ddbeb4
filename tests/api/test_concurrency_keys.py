"""Concurrency keys over HTTP: cooled down, listed, and nobody else's."""

from __future__ import annotations

from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.api.served import Served, problem


def listed(served: Served, name: str, token: str | None = None) -> list[dict[str, object]]:
    sent = (
        served.send("GET", "/v1/concurrency-keys")
        if token is None
        else served.send("GET", "/v1/concurrency-keys", token=token)
    )
    return [one for one in sent.json()["keys"] if one["key"] == name]


@pytest.mark.parametrize("name", ["printer", "https://api.example.com/v1?x=1", "ключ", "a/cool", "100 %"])
def test_any_key_a_task_may_have_can_be_cooled_down(served: Served, name: str) -> None:
    name = f"{name} {uuid4().hex}"
    answer = served.send("POST", f"/v1/concurrency-keys/{quote(name, safe='')}/cool", {"seconds": "90s"})
    assert (answer.status_code, answer.json()["key"]) == (200, name)
    (one,) = listed(served, name)
    assert one == {
        "key": name, "scope": None, "pool": None, "running": 0, "limit": None, "limits": [], "waiting": 0,
        "cooled_until": answer.json()["cooled_until"],
    }  # fmt: skip
    assert (
        served.send("POST", f"/v1/concurrency-keys/{quote(name, safe='')}/cool", {"seconds": 0}).json()["cooled_until"]
        is None
    )
    assert listed(served, name) == []


def test_keys_of_live_tasks_are_listed_by_how_they_are_counted(served: Served) -> None:
    name = uuid4().hex
    for scope, limit in (("pool", 2), ("global", 3), ("global", 5), ("global", 3)):
        task = {"command": ["true"], "concurrency_key": name, "concurrency_limit": limit, "concurrency_scope": scope}
        assert served.send("POST", "/v1/tasks", {**task, "delay": "1h"}).status_code == 201
    found = [(one["scope"], one["pool"], one["running"], one["limit"], one["waiting"]) for one in listed(served, name)]
    assert found == [("global", None, 0, 5, 3), ("pool", "default", 0, 2, 1)]
    assert [one["limits"] for one in listed(served, name)] == [[3, 5], [2]], "each task's own limit counts"


def test_another_tenants_keys_are_neither_seen_nor_cooled(served: Served) -> None:
    name = uuid4().hex
    theirs = served.add_token(served.add_tenant()[0])
    served.send("POST", f"/v1/concurrency-keys/{name}/cool", {"seconds": 60})
    assert listed(served, name, theirs) == []
    assert served.send("POST", f"/v1/concurrency-keys/{name}/cool", {"seconds": 0}, token=theirs).status_code == 200
    assert len(listed(served, name)) == 1


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("k", {"seconds": -1}, "/seconds"), ("k", {"seconds": "2d"}, "/seconds"), ("k", {"seconds": "soon"}, "/seconds"),
        ("k" * 201, {"seconds": 1}, "/key"), ("a%01b", {"seconds": 1}, "/key"), ("k", {}, "/seconds"),
        ("k", {"seconds": None}, "/seconds"), ("k", {"seconds": 1, "more": 2}, "/more"),
    ],
)  # fmt: skip
def test_a_bad_cool_down_is_refused_by_name(served: Served, name: str, body: object, pointer: str) -> None:
    answer = served.send("POST", f"/v1/concurrency-keys/{name}/cool", body)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_a_list_takes_no_other_filter(served: Served) -> None:
    said = problem(served.send("GET", "/v1/concurrency-keys?state=held"))
    assert (said.status, said.slug) == (422, "invalid-filter")
