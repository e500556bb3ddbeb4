"""Bad input, row by row of docs/promises.md: the exact status, slug and pointers, and nothing stored.

Rows 17 to 20, 29 to 31, 39 and 43 are about schedules, uploads and webhooks, which are not there yet; 46 needs a broken
commit (tests/faults); 49 to 54 are the command's (tests/cli).
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.api.served import Said, Served, problem

BOMB = gzip.compress(b" " * (33 * 1024 * 1024))
SURROGATE = b'{"command":["\\ud800"]}'


@dataclass(frozen=True)
class Case:
    row: int
    what: str
    body: object
    said: Said
    path: str = "/v1/tasks"
    headers: dict[str, str] = field(default_factory=dict)


def bad(row: int, what: str, pointer: str | None, slug: str, /, status: int = 422, **task: Any) -> Case:
    """A single task with one thing wrong."""
    body = {"command": ["true"], **task}
    return Case(row, what, body, Said(status, slug, ((pointer, slug),) if pointer is not None else ()))


def raw(
    row: int, what: str, body: bytes, slug: str, pointer: str | None = None, status: int = 400, **more: Any
) -> Case:
    return Case(row, what, body, Said(status, slug, ((pointer, slug),) if pointer is not None else ()), **more)


def batch(row: int, what: str, pointer: str, slug: str, /, *tasks: dict[str, Any]) -> Case:
    body = {"tasks": [{"command": ["true"], **task} for task in tasks]}
    return Case(row, what, body, Said(422, slug, ((pointer, slug),)), "/v1/tasks/batch")


CASES = [
    raw(1, "empty body", b"", "malformed-json"),
    raw(1, "only spaces", b" \n\t ", "malformed-json"),
    raw(1, "broken JSON", b'{"command": ["true"', "malformed-json"),
    raw(1, "two documents", b"{}{}", "malformed-json"),
    raw(1, "UTF-16", '{"command":["true"]}'.encode("utf-16"), "malformed-json"),
    raw(1, "byte order mark", b'\xef\xbb\xbf{"command":["true"]}', "malformed-json"),
    raw(1, "not UTF-8", b'{"command":["\xff"]}', "malformed-json"),
    raw(1, "half characters as bytes", b'{"command":["\xed\xa0\x80"]}', "malformed-json"),
    raw(2, "wrong content type", b"{}", "unsupported-media-type", status=415, headers={"content-type": "text/xml"}),
    raw(2, "a form", b"a=1", "unsupported-media-type", status=415,
        headers={"content-type": "application/x-www-form-urlencoded"}),
    raw(4, "gzip bomb", BOMB, "payload-too-large", status=413, headers={"content-encoding": "gzip"}),
    raw(4, "unknown encoding", b"{}", "unsupported-media-type", status=415, headers={"content-encoding": "br"}),
    raw(4, "two encodings", b"{}", "unsupported-media-type", status=415, headers={"content-encoding": "gzip, gzip"}),
    raw(4, "no gzip at all", b'{"command":["true"]}', "malformed-json", headers={"content-encoding": "gzip"}),
    raw(4, "gzip cut short", gzip.compress(b'{"command":["true"]}')[:-3], "malformed-json",
        headers={"content-encoding": "gzip"}),
    raw(4, "gzip with more behind it", gzip.compress(b'{"command":["true"]}') + b"{}", "malformed-json",
        headers={"content-encoding": "gzip"}),
    raw(4, "deflate called gzip", zlib.compress(b'{"command":["true"]}'), "malformed-json",
        headers={"content-encoding": "gzip"}),
    raw(6, "a name twice", b'{"command":["true"],"name":"a","name":"b"}', "malformed-json"),
    raw(6, "a name twice, deep", b'{"command":["true"],"tags":{"a":"1","a":"2"}}', "malformed-json"),
    raw(6, "NaN", b'{"command":["true"],"cpu":NaN}', "malformed-json"),
    raw(6, "Infinity", b'{"command":["true"],"cpu":-Infinity}', "malformed-json"),
    raw(6, "a number no float holds", b'{"command":["true"],"cpu":1e400}', "malformed-json"),
    raw(7, "65 levels", b'{"function":"a:b","args":' + b"[" * 64 + b"]" * 64 + b"}", "json-too-complex"),
    raw(7, "a hundred thousand levels", b"[" * 100_000, "json-too-complex"),
    raw(7, "5,000 digits", b'{"command":["true"],"priority":' + b"9" * 5000 + b"}", "json-too-complex"),
    raw(8, "NUL", b'{"command":["tr\\u0000ue"]}', "invalid-character", "/command/0", 422),
    raw(8, "NUL in an argument", b'{"function":"a:b","args":[{"x":"\\u0000"}]}', "invalid-character", "/args/0/x", 422),
    raw(8, "NUL in a name", b'{"command":["true"],"tags":{"a\\u0000":"b"}}', "invalid-character", "/tags/a\0", 422),
    raw(8, "half a surrogate pair", SURROGATE, "invalid-character", "/command/0", 422),
    raw(8, "half a pair in a name", b'{"\\ud800":1}', "invalid-character", "/?", 422),
    bad(9, "unknown field", "/comand", "unknown-field", comand=["x"]),
    bad(9, "unknown field, escaped", "/a~1b~0c", "unknown-field", **{"a/b~c": 1}),
    bad(10, "text for a number", "/priority", "invalid-type", priority="5"),
    bad(10, "true for a number", "/attempts", "invalid-type", attempts=True),
    bad(10, "a number for a list", "/command", "invalid-type", command=7),
    bad(10, "a number in a list", "/command/1", "invalid-type", command=["x", 7]),
    bad(10, "a number past 64 bits", "/priority", "out-of-range", priority=2**70),
    bad(10, "an object for a text", "/env/A", "invalid-type", env={"A": {}}),
    raw(10, "a list for the whole", b"[]", "invalid-type", "", 422),
    raw(10, "null for the whole", b"null", "invalid-type", "", 422),
    raw(10, "missing field", b"{}", "missing-field", "/tasks", 422, path="/v1/tasks/batch"),
    bad(10, "arguments that are no list", "/args", "invalid-type", command=None, function="a:b", args={"x": 1}),
    bad(10, "named arguments that are no object", "/kwargs", "invalid-type", command=None, function="a:b", kwargs=[1]),
    bad(11, "name too long", "/name", "invalid-name", name="x" * 201),
    bad(11, "empty name", "/name", "invalid-name", name=" "),
    bad(11, "control characters", "/name", "invalid-name", name="a\x1b[31m"),
    bad(11, "direction marks", "/name", "invalid-name", name="a\u202egnp.exe"),
    bad(11, "tag too long", "/tags", "invalid-name", tags={"a": "x" * 501}),
    bad(11, "too many tags", "/tags", "invalid-name", tags={f"t{n}": "" for n in range(51)}),
    bad(11, "empty concurrency key", "/concurrency_key", "invalid-name", concurrency_key=""),
    bad(11, "strange label", "/require", "invalid-name", require={"zone": "a b"}),
    bad(12, "no cpu", "/cpu", "out-of-range", cpu=0),
    bad(12, "negative cpu", "/cpu", "out-of-range", cpu=-1),
    bad(12, "a crumb of cpu", "/cpu", "out-of-range", cpu="0.0001"),
    bad(12, "absurd cpu", "/cpu", "out-of-range", cpu=1e300),
    bad(12, "cpu that takes minutes to read", "/cpu", "out-of-range", cpu="1e500000"),
    bad(12, "no memory", "/memory", "out-of-range", memory=0),
    bad(12, "memory in parsecs", "/memory", "out-of-range", memory="5parsec"),
    bad(12, "negative disk", "/disk", "out-of-range", disk=-1),
    bad(12, "negative gpus", "/gpus", "out-of-range", gpus=-1),
    bad(12, "too many ports", "/ports", "out-of-range", ports=101),
    bad(12, "one GPU and a half", "/gpus", "out-of-range", gpus=1.5),
    bad(12, "a GPU cut too fine", "/gpus", "out-of-range", gpus=0.0001),
    bad(12, "GPUs in words", "/gpus", "invalid-type", gpus="half"),
    bad(12, "negative disk operations", "/iops", "out-of-range", iops=-1),
    bad(12, "disk operations in words", "/iops", "out-of-range", iops="many"),
    bad(12, "a fraction of a disk operation", "/iops", "invalid-type", iops=0.5),
    bad(12, "negative bandwidth", "/bandwidth", "out-of-range", bandwidth=-1),
    bad(12, "bandwidth in bytes", "/bandwidth", "out-of-range", bandwidth="10MB"),
    bad(12, "more bandwidth than there is", "/bandwidth", "out-of-range", bandwidth="99T"),
    bad(13, "neither refuse nor wait", "/unplaceable", "out-of-range", unplaceable="maybe"),
    bad(13, "perhaps preemptible", "/preemptible", "invalid-type", preemptible="yes"),
    bad(13, "no such category", "/category", "unknown-category", category="no-such"),
    bad(13, "no such lane", "/lane", "unknown-lane", lane="fast"),
    bad(12, "custom without amount", "/custom", "out-of-range", custom={"license": 0}),
    bad(12, "unknown tier", "/tier", "unknown-tier", tier="gigantic"),
    bad(13, "more than any node has", "", "unsatisfiable", pool="small", cpu=5),
    bad(13, "a label no node has", "/require", "unsatisfiable", pool="small", require={"zone": "b"}),
    bad(14, "no cap", "/cap", "out-of-range", cap=0),
    bad(14, "cap past the plan", "/cap", "out-of-range", cap="365d"),
    bad(14, "cap in words", "/cap", "out-of-range", cap="an hour"),
    bad(14, "no attempts", "/attempts", "out-of-range", attempts=0),
    bad(14, "too many attempts", "/attempts", "out-of-range", attempts=101),
    bad(14, "backoff of two days", "/backoff", "out-of-range", backoff="2d"),
    bad(14, "negative backoff limit", "/backoff_limit", "out-of-range", backoff_limit=-1),
    bad(14, "priority past its range", "/priority", "out-of-range", priority=1_000_001),
    bad(14, "limit without a key", "/concurrency_limit", "out-of-range", concurrency_limit=2),
    bad(14, "scope without a key", "/concurrency_scope", "out-of-range", concurrency_scope="global"),
    bad(14, "unknown scope", "/concurrency_scope", "out-of-range", concurrency_key="k", concurrency_scope="cell"),
    bad(15, "time without zone", "/at", "invalid-time", at="2030-01-01T00:00:00"),
    bad(15, "impossible date", "/at", "invalid-time", at="2030-02-31T00:00:00Z"),
    bad(15, "year 9999", "/at", "invalid-time", at="9999-12-31T23:59:59-12:00"),
    bad(15, "year 1", "/at", "invalid-time", at="0001-01-01T00:00:00+14:00"),
    bad(15, "a word", "/at", "invalid-time", at="tomorrow"),
    bad(16, "a time and a delay", "/at", "inconsistent-times", at="2030-01-01T00:00:00Z", delay=5),
    bad(16, "negative tolerance", "/tolerance", "inconsistent-times", tolerance=-1),
    bad(16, "negative delay", "/delay", "out-of-range", delay="-5"),
    batch(21, "cycle", "/tasks/1/after", "dag-cycle", {"ref": "a", "after": ["b"]}, {"ref": "b", "after": ["a"]}),
    batch(21, "self-edge", "/tasks/0/after", "dag-cycle", {"ref": "a", "after": ["a"]}),
    batch(21, "duplicate name", "/tasks/1/ref", "dag-cycle", {"ref": "a"}, {"ref": "a"}),
    batch(22, "unknown name", "/tasks/0/after/0", "unknown-dependency", {"after": ["nobody"]}),
    bad(22, "unknown id", "/after", "unknown-dependency", after=[2**40]),
    bad(22, "impossible id", "/after", "unknown-dependency", after=[-1]),
    bad(22, "a name outside a batch", "/after/0", "unknown-dependency", after=["a"]),
    bad(23, "too many parents", "/after", "dag-too-large", after=list(range(1, 1002))),
    bad(24, "unknown pool", "/pool", "unknown-pool", pool="nowhere"),
    bad(24, "unknown lane", "/lane", "unknown-lane", lane="fast"),
    bad(25, "empty command", "/command", "invalid-command", command=[]),
    bad(25, "nothing to run", "", "invalid-command", command=None),
    bad(25, "two things to run", "", "invalid-command", script="echo"),
    bad(25, "arguments too big", "/command", "invalid-command", command=["x" * 200_000]),
    bad(25, "environment too big", "/env", "invalid-command", env={"A": "x" * 200_000}),
    bad(25, "empty script", "/script", "invalid-command", command=None, script=""),
    bad(25, "script too big", "/script", "invalid-command", command=None, script="#" * 1_100_000),
    bad(25, "interpreter for a command", "/interpreter", "invalid-command", interpreter=["python3"]),
    bad(25, "named arguments for a command", "/kwargs", "invalid-command", kwargs={"a": 1}),
    bad(25, "arguments beside a command", "/args", "invalid-command", args=["a"]),
    bad(26, "the loader's variable", "/env/LD_PRELOAD", "reserved-env", env={"LD_PRELOAD": "x"}),
    bad(26, "our own prefix", "/env/ROTA_TOKEN", "reserved-env", env={"ROTA_TOKEN": "x"}),
    bad(26, "no variable's name", "/env/a-b", "reserved-env", env={"a-b": "x"}),
    bad(27, "function without a module", "/function", "unknown-function", command=None, function="send"),
    bad(27, "function with code in it", "/function", "unknown-function", command=None, function="os:system('x')"),
    bad(28, "relative path", "/path", "invalid-path", command=None, path="../../etc/passwd"),
    bad(28, "windows path", "/path", "invalid-path", command=None, path="C:\\x"),
    Case(36, "empty key", {"command": ["true"]}, Said(400, "idempotency-key-invalid"), headers={"idempotency-key": ""}),
    Case(36, "key too long", {"command": ["true"]}, Said(400, "idempotency-key-invalid"),
         headers={"idempotency-key": "k" * 256}),
    bad(36, "empty key in the body", None, "idempotency-key-invalid", status=400, idempotency_key=""),
    bad(36, "key that is not ASCII", None, "idempotency-key-invalid", status=400, idempotency_key="clé"),
    Case(10, "empty batch", {"tasks": []}, Said(422, "out-of-range", (("/tasks", "out-of-range"),)), "/v1/tasks/batch"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row} {case.what}")
def test_a_bad_submission_is_refused_in_words_and_nothing_is_stored(served: Served, case: Case) -> None:
    before = served.stored()
    answer = served.send("POST", case.path, case.body, headers=case.headers)
    assert problem(answer) == case.said
    assert served.stored() == before


def test_malformed_json_is_located_by_line_and_column(served: Served) -> None:
    answer = served.send("POST", "/v1/tasks", b'{\n  "command": [,]\n}')
    assert "line 2, column 15" in answer.json()["detail"]


def test_an_unknown_field_comes_with_the_nearest_name(served: Served) -> None:
    answer = served.send("POST", "/v1/tasks", {"command": ["x"], "prioritty": 1})
    assert answer.json()["errors"][0]["detail"] == "there is no field 'prioritty'; did you mean 'priority'?"


def test_a_cycle_is_listed(served: Served) -> None:
    tasks = [{"command": ["x"], "ref": "a", "after": ["c"]}, {"command": ["x"], "ref": "b", "after": ["a"]},
             {"command": ["x"], "ref": "c", "after": ["b"]}]  # fmt: skip
    answer = served.send("POST", "/v1/tasks/batch", {"tasks": tasks})
    assert "these wait for each other: b → c → a → b" in answer.json()["detail"]


def test_what_is_short_is_named_when_no_node_is_large_enough(served: Served) -> None:
    answer = served.send("POST", "/v1/tasks", {"command": ["x"], "pool": "small", "cpu": 5})
    assert "it asks for 5 cores, the most that one has is 4" in answer.json()["detail"]


def test_all_faults_of_a_batch_come_at_once_each_with_its_place(served: Served) -> None:
    tasks = [{"command": ["x"], "cpu": -1}, {"command": ["x"]}, {"command": [], "attempts": 0}]
    answer = served.send("POST", "/v1/tasks/batch", {"tasks": tasks})
    assert problem(answer) == Said(
        422,
        "out-of-range",
        (
            ("/tasks/0/cpu", "out-of-range"),
            ("/tasks/2/command", "invalid-command"),
            ("/tasks/2/attempts", "out-of-range"),
        ),
    )


def test_a_batch_of_faults_is_answered_with_a_bounded_number(served: Served) -> None:
    answer = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": [], "cpu": -1}] * 500})
    assert len(answer.json()["errors"]) == 100


def test_one_batch_more_than_allowed_is_refused(served: Served) -> None:
    answer = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["x"]}] * 10_001})
    assert problem(answer) == Said(422, "out-of-range", (("/tasks", "out-of-range"),))


def test_a_good_gzip_is_read(served: Served) -> None:
    body = gzip.compress(json.dumps({"command": ["true"]}).encode())
    assert served.send("POST", "/v1/tasks", body, headers={"content-encoding": "gzip"}).status_code == 201


# ---- idempotency ---------------------------------------------------------------------------------------------------


def test_row_37_the_same_key_with_another_body(served: Served) -> None:
    headers = {"idempotency-key": "row-37"}
    first = served.send("POST", "/v1/tasks", {"command": ["true"]}, headers=headers).json()["id"]
    before = served.stored()
    answer = served.send("POST", "/v1/tasks", {"command": ["false"]}, headers=headers)
    assert problem(answer) == Said(422, "idempotency-key-reused", (("/idempotency_key", "idempotency-key-reused"),))
    assert f"task {first}" in answer.json()["detail"]
    assert served.stored() == before


def test_row_37_a_batch_key_with_another_body(served: Served) -> None:
    headers = {"idempotency-key": "row-37-batch"}
    first = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["true"]}] * 2}, headers=headers)
    again = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["true"]}] * 2}, headers=headers)
    other = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["true"]}] * 3}, headers=headers)
    assert again.json() == {"ids": first.json()["ids"], "replayed": [0, 1]}
    assert problem(other).slug == "idempotency-key-reused"


# ---- edits and reads -----------------------------------------------------------------------------------------------


def test_row_40_cancelling_what_has_ended(served: Served) -> None:
    task = served.submit()
    assert served.send("POST", f"/v1/tasks/{task}/cancel").json() == {
        "id": task, "state": "cancelled", "status": "cancelled", "cancelling": False,
    }  # fmt: skip
    before = served.stored()
    answer = served.send("POST", f"/v1/tasks/{task}/cancel")
    assert problem(answer) == Said(409, "already-terminal")
    assert "it is cancelled" in answer.json()["detail"]
    assert served.stored() == before


def test_row_40_running_a_live_task_again(served: Served) -> None:
    task = served.submit(delay="1h")
    answer = served.send("POST", f"/v1/tasks/{task}/retry")
    assert problem(answer) == Said(409, "not-dead-lettered")
    assert "it is delayed" in answer.json()["detail"]


def test_row_40_running_a_task_again_twice_names_the_first(served: Served) -> None:
    task = served.submit()
    served.send("POST", f"/v1/tasks/{task}/cancel")
    again = served.send("POST", f"/v1/tasks/{task}/retry").json()["id"]
    answer = served.send("POST", f"/v1/tasks/{task}/retry")
    assert problem(answer) == Said(409, "already-retried")
    assert answer.json()["retried_as"] == again


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/tasks?cursor=forged", Said(400, "invalid-cursor")),
        ("/v1/tasks?cursor=AAAAAAAAAAAAAAAAAAAAAA", Said(400, "invalid-cursor")),
        ("/v1/tasks?cursor=%00", Said(400, "invalid-cursor")),
        ("/v1/dead?cursor=ñ", Said(400, "invalid-cursor")),
        ("/v1/tasks?limit=0", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks?limit=1000000", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks?limit=-1", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks?limit=٣", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks?limit=" + "9" * 5000, Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks?colour=red", Said(422, "invalid-filter", (("/colour", "invalid-filter"),))),
        ("/v1/tasks?sort=name;drop%20table%20tasks", Said(422, "invalid-filter", (("/sort", "invalid-filter"),))),
        ("/v1/tasks?state=happy", Said(422, "invalid-filter", (("/state", "invalid-filter"),))),
        ("/v1/tasks?state=done'%20or%201=1--", Said(422, "invalid-filter", (("/state", "invalid-filter"),))),
        ("/v1/tasks?status=sleepy", Said(422, "invalid-filter", (("/status", "invalid-filter"),))),
        ("/v1/tasks?tag=nocolon", Said(422, "invalid-filter", (("/tag", "invalid-filter"),))),
        ("/v1/tasks?tag=a:%00", Said(422, "invalid-filter", (("/tag", "invalid-filter"),))),
        ("/v1/tasks?name=%00", Said(422, "invalid-filter", (("/name", "invalid-filter"),))),
        ("/v1/nodes?all=1", Said(422, "invalid-filter", (("/all", "invalid-filter"),))),
        ("/v1/tasks/1?wait=31", Said(422, "out-of-range", (("/wait", "out-of-range"),))),
        ("/v1/tasks/1?wait=nan", Said(422, "out-of-range", (("/wait", "out-of-range"),))),
        ("/v1/tasks/1/log?stream=stdin", Said(422, "invalid-filter", (("/stream", "invalid-filter"),))),
        ("/v1/tasks/1/log?follow=maybe", Said(422, "invalid-filter", (("/follow", "invalid-filter"),))),
        ("/v1/tasks/1/log?lines=perhaps", Said(422, "invalid-filter", (("/lines", "invalid-filter"),))),
        ("/v1/tasks/1/log?cursor=forged", Said(400, "invalid-cursor")),
        ("/v1/tasks/1/attempts?limit=0", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks/1/results?limit=101", Said(422, "out-of-range", (("/limit", "out-of-range"),))),
        ("/v1/tasks/1/log?attempt=99999", Said(422, "out-of-range", (("/attempt", "out-of-range"),))),
        ("/v1/tasks/1/log?after=-5", Said(422, "out-of-range", (("/after", "out-of-range"),))),
    ],
)
def test_rows_41_and_42_bad_cursors_limits_and_filters(served: Served, path: str, said: Said) -> None:
    assert problem(served.send("GET", path)) == said


def test_row_42_sql_in_a_filter_is_just_a_name_nobody_has(served: Served) -> None:
    answer = served.send("GET", "/v1/tasks", params={"name": "x' or '1'='1", "tag": "a:b'; drop table tasks; --"})
    assert answer.json() == {"tasks": [], "next": None}


def test_row_41_a_cursor_of_one_cluster_is_forged_in_another(served: Served) -> None:
    for _ in range(3):
        served.submit()
    cursor = served.send("GET", "/v1/tasks", params={"limit": 1}).json()["next"]
    assert served.send("GET", "/v1/tasks", params={"cursor": cursor, "limit": 1}).status_code == 200
    flipped = ("A" if cursor[0] != "A" else "B") + cursor[1:]
    assert problem(served.send("GET", "/v1/tasks", params={"cursor": flipped})) == Said(400, "invalid-cursor")


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/tasks/wait", {"ids": []}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
        ("/v1/tasks/wait", {"ids": [1] * 10_001}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
        ("/v1/tasks/wait", {"ids": [2**62]}, Said(404, "not-found")),
        ("/v1/tasks/wait", {"ids": [-1]}, Said(404, "not-found")),
        ("/v1/tasks/wait", {"ids": ["1"]}, Said(422, "invalid-type", (("/ids/0", "invalid-type"),))),
        ("/v1/tasks/wait", {"ids": [1], "timeout": -1}, Said(422, "out-of-range", (("/timeout", "out-of-range"),))),
        ("/v1/tasks/cancel", {"ids": []}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
        ("/v1/dead/requeue", {"ids": []}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
        ("/v1/dead/requeue", {"ids": list(range(1, 1002))}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
        ("/v1/dead/discard", {"ids": [0]}, Said(422, "out-of-range", (("/ids", "out-of-range"),))),
    ],
)  # fmt: skip
def test_bad_lists_of_ids(served: Served, path: str, body: dict[str, Any], said: Said) -> None:
    before = served.stored()
    assert problem(served.send("POST", path, body)) == said
    assert served.stored() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/v1/tenants", {"name": "Ä"}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ("POST", "/v1/tenants", {"name": "x", "plan": "gold"}, Said(422, "unknown-plan", (("/plan", "unknown-plan"),))),
        ("POST", "/v1/tenants", {"name": "default", "plan": "free"}, Said(409, "tenant-exists")),
        ("POST", "/v1/tokens", {"tenant": "nobody", "user": "a b", "role": "king"},
         Said(422, "out-of-range",
              (("/role", "out-of-range"), ("/user", "invalid-name"), ("/tenant", "unknown-tenant")))),
        ("POST", "/v1/tokens", {"tenant": "default", "user": "a", "expires": "1e999999"},
         Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ("DELETE", "/v1/tokens/" + "9" * 5000, None, Said(404, "not-found")),
        ("DELETE", "/v1/tokens/-1", None, Said(404, "not-found")),
        ("GET", "/v1/plans/gold", None, Said(404, "not-found")),
        ("PATCH", "/v1/plans/gold", {"weight": 2}, Said(404, "not-found")),
        ("PATCH", "/v1/plans/free", {"burst": 0, "weight": 0, "tiers": ["x"], "longest_cap": "0s", "running_cpu": -1},
         Said(422, "out-of-range", (("/burst", "out-of-range"), ("/running_cpu", "out-of-range"),
                                    ("/longest_cap", "out-of-range"), ("/tiers", "unknown-tier"),
                                    ("/weight", "out-of-range")))),
        ("PATCH", "/v1/plans/free", {"running_memory": "1e999999"},
         Said(422, "out-of-range", (("/running_memory", "out-of-range"),))),
    ],
)  # fmt: skip
def test_bad_administration(served: Served, method: str, path: str, body: object, said: Said) -> None:
    question = """select (select count(*) from tenants), (select count(*) from tokens),
        (select plans::text from plans where name = 'free')"""
    before = served.ask(question)
    assert problem(served.send(method, path, body, token=served.tokens["admin"])) == said
    assert served.ask(question) == before


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_row_44_a_rate_over_the_limit_and_a_full_quota(served: Served) -> None:
    name, _ = served.add_tenant("free")
    token = served.add_token(name)
    full = served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["x"]}] * 50}, token=token)
    assert full.status_code == 201
    limited = served.send("POST", "/v1/tasks", {"command": ["x"]}, token=token)
    assert problem(limited) == Said(429, "rate-limited")
    assert 1 <= int(limited.headers["retry-after"]) <= 36
    assert (limited.json()["allowed_now"], limited.json()["asked"]) == (0, 1)
    served.ask("update rate_limits set arrival = '-infinity'")
    for _ in range(3):
        served.send("POST", "/v1/tasks/batch", {"tasks": [{"command": ["x"]}] * 50}, token=token)
        served.ask("update rate_limits set arrival = '-infinity'")
    quota = served.send("POST", "/v1/tasks", {"command": ["x"]}, token=token)
    assert problem(quota) == Said(429, "quota-exceeded")
    assert quota.headers["retry-after"] == "30"


def test_row_44_a_tier_or_a_cap_beyond_the_plan(served: Served) -> None:
    token = served.add_token(served.add_tenant("free")[0])
    answer = served.send("POST", "/v1/tasks", {"command": ["x"], "tier": "premium", "cap": "2h"}, token=token)
    assert problem(answer) == Said(422, "tier-not-allowed", (("/tier", "tier-not-allowed"), ("/cap", "out-of-range")))
