"""Bad bodies: each gets its own answer, names the field and what would be right, and stores nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import httpx
import pytest

TRUE = {"command": ["true"]}


def problem(answer: httpx.Response) -> tuple[int, str, list[str]]:
    """Status, slug and pointers; the document must be well formed."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    assert document["instance"].startswith("urn:uuid:")
    return (
        answer.status_code,
        document["type"].rpartition("/")[2],
        [error["pointer"] for error in document.get("errors", [])],
    )


def deep(levels: int) -> bytes:
    return b'{"function":"a:b","args":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        (b"", "malformed-json"),
        (b"   ", "malformed-json"),
        (b'{"command": ["true"]', "malformed-json"),
        (b'{"command": ["true"], "command": ["false"]}', "malformed-json"),
        (b'{"function": "a:b", "args": [{"x": 1, "x": 2}]}', "malformed-json"),
        (b'{"command": ["true"], "priority": NaN}', "malformed-json"),
        (b'{"function": "a:b", "args": [Infinity]}', "malformed-json"),
        (b"\xff\xfe", "malformed-json"),
        (deep(65), "json-too-complex"),
        (b'{"function": "a:b", "args": [' + b"9" * 5000 + b"]}", "json-too-complex"),
    ],
    ids=[
        "empty",
        "blank",
        "cut",
        "duplicate",
        "nested duplicate",
        "nan",
        "infinity",
        "not utf-8",
        "deep",
        "long number",
    ],
)
def test_json_that_is_not_json_is_refused(
    http: httpx.Client, newest: Callable[[], int], body: bytes, slug: str
) -> None:
    before = newest()
    answer = http.post("/v1/tasks", content=body)
    assert problem(answer)[:2] == (400, slug)
    assert newest() == before


def test_a_syntax_error_is_named_by_line_and_column(http: httpx.Client) -> None:
    detail = http.post("/v1/tasks", content=b'{\n  "command": [true,]\n}').json()["detail"]
    assert "line 2" in detail
    assert "column" in detail


def test_brackets_inside_strings_are_not_nesting(http: httpx.Client) -> None:
    answer = http.post("/v1/tasks", json={"function": "sample_tasks:noop", "args": ["[" * 100 + "{" * 100]})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("change", "slug", "pointer"),
    [
        ({"comand": ["true"]}, "unknown-field", "/comand"),
        ({"priority": "5"}, "invalid-type", "/priority"),
        ({"attempts": True}, "invalid-type", "/attempts"),
        ({"env": {"A": 1}}, "invalid-type", "/env/A"),
        ({"command": []}, "invalid-command", "/command"),
        ({"command": ["a\u0000b"]}, "invalid-character", "/command/0"),
        ({"command": ["x" * 200_000]}, "invalid-command", "/command"),
        ({"name": "a\u202eb"}, "invalid-name", "/name"),
        ({"name": "x" * 201}, "invalid-name", "/name"),
        ({"name": "\ud800"}, "invalid-character", "/name"),
        ({"cpu": 0}, "out-of-range", "/cpu"),
        ({"cpu": -1}, "out-of-range", "/cpu"),
        ({"cpu": "abc"}, "out-of-range", "/cpu"),
        ({"memory": "12 parsecs"}, "out-of-range", "/memory"),
        ({"memory": 1}, "out-of-range", "/memory"),
        ({"gpus": -1}, "out-of-range", "/gpus"),
        ({"cpu": 5000}, "unsatisfiable", ""),
        ({"require": {"zone": "nowhere"}}, "unsatisfiable", "/require"),
        ({"attempts": 0}, "out-of-range", "/attempts"),
        ({"attempts": 101}, "out-of-range", "/attempts"),
        ({"backoff": "2d"}, "out-of-range", "/backoff"),
        ({"cap": "0s"}, "out-of-range", "/cap"),
        ({"cap": "1000d"}, "out-of-range", "/cap"),
        ({"tolerance": -5}, "inconsistent-times", "/tolerance"),
        ({"at": "2030-01-01T00:00:00"}, "invalid-time", "/at"),
        ({"at": "2030-02-30T00:00:00Z"}, "invalid-time", "/at"),
        ({"at": "9999-12-31T23:59:59Z"}, "invalid-time", "/at"),
        ({"at": "2030-01-01T00:00:00Z", "delay": 5}, "inconsistent-times", "/at"),
        ({"pool": "no-such-pool"}, "unknown-pool", "/pool"),
        ({"lane": "fast"}, "unknown-lane", "/lane"),
        ({"tier": "gold"}, "unknown-tier", "/tier"),
        ({"env": {"LD_PRELOAD": "x"}}, "reserved-env", "/env/LD_PRELOAD"),
        ({"env": {"ROTA_TASK_ID": "x"}}, "reserved-env", "/env/ROTA_TASK_ID"),
        ({"env": {"A-B": "x"}}, "reserved-env", "/env/A-B"),
        ({"script": "true"}, "invalid-command", ""),
        ({"args": [1]}, "invalid-command", "/args"),
        ({"kwargs": {}}, "invalid-command", "/kwargs"),
        ({"after": [999_999_999]}, "unknown-dependency", "/after"),
        ({"after": ["nobody"]}, "unknown-dependency", "/after/0"),
        ({"upstream": "maybe"}, "out-of-range", "/upstream"),
        ({"concurrency_limit": 3}, "out-of-range", "/concurrency_limit"),
        ({"tags": {"": "x"}}, "invalid-name", "/tags"),
        ({"priority": 10**18}, "out-of-range", "/priority"),
        ({"priority": 10**30}, "out-of-range", "/priority"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else None,
)
def test_a_field_that_can_not_be_is_named(
    http: httpx.Client, newest: Callable[[], int], change: dict[str, object], slug: str, pointer: str
) -> None:
    before = newest()
    answer = http.post("/v1/tasks", content=json.dumps({**TRUE, **change}))
    assert problem(answer) == (422, slug, [pointer])
    assert newest() == before


def test_the_nearest_name_is_suggested(http: httpx.Client) -> None:
    assert "did you mean 'priority'?" in http.post("/v1/tasks", json={**TRUE, "prioriti": 1}).json()["detail"]


def test_all_faults_are_told_at_once(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/tasks/batch",
        json={"tasks": [{"command": [], "attempts": 0}, TRUE, {"command": ["x"], "pool": "nope", "cpu": 0}]},
    )
    assert problem(answer)[2] == ["/tasks/0/command", "/tasks/0/attempts", "/tasks/2/cpu", "/tasks/2/pool"]


def test_all_faults_of_structure_are_told_at_once(http: httpx.Client) -> None:
    answer = http.post("/v1/tasks", json={"command": "true", "priority": "high", "nmae": "x"})
    assert problem(answer)[2] == ["/command", "/priority", "/nmae"]


def test_a_batch_is_taken_whole_or_not_at_all(http: httpx.Client, newest: Callable[[], int]) -> None:
    before = newest()
    assert http.post("/v1/tasks/batch", json={"tasks": [TRUE, TRUE, {"command": []}]}).status_code == 422
    assert newest() == before


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_batch_has_a_size(http: httpx.Client, count: int) -> None:
    answer = http.post("/v1/tasks/batch", json={"tasks": [TRUE] * count})
    assert problem(answer) == (422, "out-of-range", ["/tasks"])


def test_another_content_type_is_refused(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/tasks", content=b"command=true", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert problem(answer)[:2] == (415, "unsupported-media-type")


def test_an_unknown_encoding_is_refused(http: httpx.Client) -> None:
    answer = http.post("/v1/tasks", content=b"{}", headers={"content-encoding": "br"})
    assert problem(answer)[:2] == (415, "unsupported-media-type")


def test_a_packed_body_is_unpacked(http: httpx.Client) -> None:
    body = gzip.compress(json.dumps(TRUE).encode())
    assert http.post("/v1/tasks", content=body, headers={"content-encoding": "gzip"}).status_code == 201


def test_a_body_that_unpacks_beyond_the_limit_is_refused(http: httpx.Client) -> None:
    bomb = gzip.compress(b" " * (40 * 1024 * 1024))
    answer = http.post("/v1/tasks", content=bomb, headers={"content-encoding": "gzip"})
    assert problem(answer)[:2] == (413, "payload-too-large")


def test_a_body_declared_too_large_is_refused_before_it_is_read(http: httpx.Client) -> None:
    answer = http.post("/v1/tasks", content=b" " * (33 * 1024 * 1024))
    assert problem(answer)[:2] == (413, "payload-too-large")


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_an_idempotency_key_is_short_and_printable(http: httpx.Client, key: str) -> None:
    answer = http.post("/v1/tasks", json=TRUE, headers={"idempotency-key": key})
    assert problem(answer)[:2] == (400, "idempotency-key-invalid")


def test_a_key_used_for_another_body_is_refused(http: httpx.Client) -> None:
    first = http.post("/v1/tasks", json=TRUE, headers={"idempotency-key": "k-1"})
    same = http.post("/v1/tasks", json=TRUE, headers={"idempotency-key": "k-1"})
    other = http.post("/v1/tasks", json={"command": ["false"]}, headers={"idempotency-key": "k-1"})
    assert (first.status_code, same.status_code, same.json()["id"]) == (201, 200, first.json()["id"])
    assert problem(other)[:2] == (422, "idempotency-key-reused")


def test_a_batchs_key_answers_with_the_same_ids(http: httpx.Client) -> None:
    first = http.post("/v1/tasks/batch", json={"tasks": [TRUE] * 3}, headers={"idempotency-key": "b-1"}).json()
    again = http.post("/v1/tasks/batch", json={"tasks": [TRUE] * 3}, headers={"idempotency-key": "b-1"}).json()
    other = http.post("/v1/tasks/batch", json={"tasks": [TRUE] * 2}, headers={"idempotency-key": "b-1"})
    assert again == {"ids": first["ids"], "replayed": [0, 1, 2]}
    assert problem(other)[:2] == (422, "idempotency-key-reused")
