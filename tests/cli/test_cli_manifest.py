"""Manifests on the command line: what is sent, what is shown, and every exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rota.client.manifest.schema import schema_text
from tests.cli.conftest import Rota
from tests.client.stub_documents import chunk, end, ended
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Reply, Stream, StubServer, problem

ONE = "command: [echo, '${WORD}']\nmemory: 1G\nenv: {A: a, B: b}\ndelay: 5s\n"
GRAPH = (
    "name: etl\ndefaults: {cap: 5m}\ntasks:\n  first: {command: [one]}\n  second: {command: [two], after: [first]}\n"
)
SUBMITTED = Reply(201, {"id": 7, "state": "ready", "created": True})
MADE = {"id": 6, "name": "etl", "created": True, "tasks": {"first": 7, "second": 8}}
SUBMITTED_GRAPH = Reply(201, MADE)
PREVIEW = {
    "accepted": True,
    "tasks": 2,
    "refusals": [],
    "already_submitted": [],
    "limits": [],
    "groups": [],
    "groups_left_out": 0,
}


@pytest.fixture
def one(tmp_path: Path) -> str:
    (tmp_path / "one.yaml").write_text(ONE)
    return str(tmp_path / "one.yaml")


@pytest.fixture
def graph(tmp_path: Path) -> str:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    return str(tmp_path / "graph.yaml")


def test_one_task_is_submitted_with_what_the_command_line_says_otherwise(
    server: StubServer, rota: Rota, one: str
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    line = ("--set", "WORD=hi", "--memory", "2G", "--env", "B=other", "--at", "2030-01-31T09:00:00Z")
    ran = rota("submit", "-f", one, *line, "--idempotency-key", "k")
    assert (ran.code, ran.out, ran.err) == (0, "7\n", "")
    assert server.received[0].headers["idempotency-key"] == "k"
    assert server.received[0].json == {
        "command": ["echo", "hi"],
        "memory": "2G",
        "env": {"A": "a", "B": "other"},
        "at": "2030-01-31T09:00:00+00:00",
    }


def test_a_graph_is_one_request_and_its_ids_are_shown_by_name(server: StubServer, rota: Rota, graph: str) -> None:
    server.on("POST", "/v1/graphs", SUBMITTED_GRAPH)
    ran = rota("submit", "-f", graph)
    assert (ran.code, ran.out, ran.err) == (0, "graph   6\nfirst   7\nsecond  8\n", "")
    assert server.received[0].json == {
        "name": "etl",
        "tasks": [
            {"command": ["one"], "name": "first", "tags": {"graph": "etl"}, "cap": "5m", "ref": "first"},
            {
                "command": ["two"],
                "name": "second",
                "tags": {"graph": "etl"},
                "cap": "5m",
                "after": ["first"],
                "ref": "second",
            },
        ],
    }
    assert server.received[0].headers["idempotency-key"] != ""
    machine = rota("submit", "-f", graph, "-o", "json", "--idempotency-key", "k")
    assert json.loads(machine.out) == MADE
    assert server.received[1].headers["idempotency-key"] == "k"


@pytest.mark.parametrize(
    ("state", "code", "said"), [("done", 0, ""), ("failed", 1, "rota: second: task 8 failed with exit code 0\n")]
)
def test_a_graph_is_waited_for_and_what_did_not_end_done_is_named(
    server: StubServer, rota: Rota, graph: str, state: str, code: int, said: str
) -> None:
    server.on("POST", "/v1/graphs", SUBMITTED_GRAPH)
    server.on_document("POST", "/v1/tasks/wait", {"ended": [ended(7), ended(8, state)], "pending": 0})
    ran = rota("submit", "-f", graph, "--wait")
    assert (ran.code, ran.err) == (code, said)


def test_a_dry_run_asks_and_stores_nothing(server: StubServer, rota: Rota, graph: str, one: str) -> None:
    server.on_document("POST", "/v1/tasks/preview", PREVIEW)
    assert rota("submit", "-f", graph, "--dry-run").code == 0
    assert rota("submit", "-f", one, "--set", "WORD=hi", "--dry-run", "--memory", "3G").code == 0
    first, second = server.asked("POST", "/v1/tasks/preview")
    assert [task["ref"] for task in first.json["tasks"]] == ["first", "second"]
    assert second.json["memory"] == "3G"
    assert len(server.received) == 2


def test_run_shows_the_one_task_of_a_manifest(server: StubServer, rota: Rota, one: str) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"hi\n"), end("failed", 42))))
    ran = rota("run", "-f", one, "--set", "WORD=hi")
    assert (ran.code, ran.out) == (42, "hi\n")


def test_a_manifest_is_read_from_stdin(server: StubServer, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"command: [x]\n")))
    assert rota("submit", "-f", "-").out == "7\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"command: x\n")))
    ran = rota("submit", "-f", "-")
    assert (ran.code, ran.err) == (2, 'standard input:1:10: command: "x" is not a list; write [x]\n')


def test_faults_are_a_line_each_exit_2_and_no_request(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text("tasks:\n  a: {command: [x], memory: lots}\n  b: {comand: [x], after: [c]}\n")
    lines = (
        f"{file}:2:29: tasks.a.memory: 'lots' is not a size; write bytes or a number with K, M, G, T (or Ki, Mi, …)\n"
        f"{file}:3:7: tasks.b.comand: there is no field 'comand'; did you mean 'command'?\n"
        f"{file}:3:28: tasks.b.after[0]: there is no task 'c' in this file; there are a, b\n"
    )
    for command in ("submit", "run", "validate"):
        ran = rota(command, "-f", str(file))
        assert (ran.code, ran.out, ran.err) == (2, "", lines)
    problem = json.loads(rota("submit", "-f", str(file), "-o", "json").err)
    assert problem["detail"] == "; ".join(lines.splitlines())
    assert problem["errors"][1] == {
        "file": str(file),
        "line": 3,
        "column": 7,
        "path": "tasks.b.comand",
        "code": "unknown-field",
        "detail": "there is no field 'comand'; did you mean 'command'?",
    }
    assert server.received == []


def test_nothing_in_a_manifest_is_obeyed_by_a_terminal(rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text('"\\e]0;owned\\a": 1\ncommand: [x]\n')
    ran = rota("validate", "-f", str(tmp_path / "rota.yaml"))
    assert (ran.code, "\x1b" in ran.err, "\x07" in ran.err) == (2, False, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["submit", "-f", "{one}", "--", "ls"], "--file: the manifest says what to run; leave out the command, or -f"),
        (["submit", "-f", "{one}", "--script", "x"], "--file: the manifest says what to run"),
        (["submit", "-f", "{one}", "--args", "[1]"], "--file: the manifest says what to run"),
        (
            ["submit", "-f", "{graph}", "--memory", "1G"],
            "--memory: {graph} is a graph; set this in its defaults or in one",
        ),
        (["submit", "-f", "{graph}", "--in", "5s"], "--in: {graph} is a graph"),
        (["submit", "-f", "{graph}", "--mount", "team"], "--mount: {graph} is a graph"),
        (["submit", "-f", "{graph}", "--gpu", "1"], "--gpu: {graph} is a graph"),
        (["run", "-f", "{graph}"], "--file: {graph} is a graph, and rota run shows one task; use rota submit -f"),
        (["submit", "-f", "{one}", "--set", "WORD"], "--set: 'WORD' is not a pair; write NAME=VALUE"),
        (["submit", "-f", "{one}", "--set", "a b=c"], "--set: 'a b' is not a variable's name"),
        (["submit", "-f", "{one}", "--set", "A=1", "--set", "A=2"], "--set: 'A' is given twice"),
        (["submit", "--set", "A=1", "--", "ls"], "--set: only a manifest has variables; give one with -f"),
        (["submit", "-f", "{graph}", "--dry-run", "--wait"], "--wait: there is nothing to wait for in a --dry-run"),
        (["validate"], "FILE: name the manifest: rota validate rota.yaml"),
        (["validate", "{graph}", "-f", "{graph}"], "is given too; name the manifest once"),
        (["validate", "--schema", "-f", "{one}"], "--schema: the schema is the same for every file"),
    ],
)
def test_what_would_be_ambiguous_is_one_line_and_no_request(
    server: StubServer, rota: Rota, one: str, graph: str, arguments: list[str], message: str
) -> None:
    ran = rota(*(word.format(one=one, graph=graph) for word in arguments))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert message.format(one=one, graph=graph) in ran.err
    assert server.received == []


@pytest.mark.parametrize(("name", "message"), [("none.yaml", "no such file"), (".", "a directory, not a file")])
def test_a_file_that_can_not_be_read_is_named(rota: Rota, tmp_path: Path, name: str, message: str) -> None:
    ran = rota("validate", "-f", str(tmp_path / name))
    assert (ran.code, ran.err) == (2, f"{tmp_path / name}: {message}\n")


def test_a_refusal_by_the_server_is_shown_where_it_stands_in_the_file(
    server: StubServer, rota: Rota, graph: str, one: str
) -> None:
    faults = [
        {"pointer": "/tasks/1/after/0", "code": "unknown-dependency", "detail": "no"},
        {"pointer": "/tasks/0/cap", "code": "out-of-range", "detail": "too long"},
    ]
    refusal = problem(422, "unknown-dependency", "2 things", errors=faults)
    for path in ("/v1/graphs", "/v1/tasks/preview"):
        server.on("POST", path, refusal)
    said = f"{graph}:5:36: tasks.second.after[0]: no\n{graph}:2:17: defaults.cap: too long\n"
    for line in (("submit", "-f", graph), ("submit", "-f", graph, "--dry-run"), ("validate", "-f", graph, "--server")):
        ran = rota(*line)
        assert (ran.code, ran.err) == (4, said)
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", "no", errors=[{"pointer": "/memory", "detail": "no"}]))
    ran = rota("run", "-f", one, "--set", "WORD=x")
    assert (ran.code, ran.err) == (125, f"{one}:2:9: memory: no\n")


def test_validate_needs_no_server(rota: Rota, server: StubServer, graph: str, one: str) -> None:
    ran = rota("validate", "-f", graph)
    assert (ran.code, ran.out, ran.err) == (0, f"{graph} is right: a graph of 2 tasks\n", "")
    assert rota("validate", "-f", one, "--set", "WORD=x").out == f"{one} is right: one task\n"
    machine = json.loads(rota("validate", "-f", graph, "-o", "json").out)
    assert (machine["name"], [task["ref"] for task in machine["tasks"]]) == ("etl", ["first", "second"])
    assert server.received == []


def test_validate_asks_the_server_when_told(rota: Rota, server: StubServer, graph: str) -> None:
    server.on_document(
        "POST", "/v1/tasks/preview", {**PREVIEW, "accepted": False, "refusals": [{"type": "x", "detail": "y"}]}
    )
    assert rota("validate", "-f", graph, "--server").code == 4


def test_the_schema_is_printed_as_it_is_published(rota: Rota) -> None:
    assert rota("validate", "--schema").out == schema_text()


def test_submit_and_wait_for_one_task_of_a_manifest(server: StubServer, rota: Rota, one: str) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", exit_code=3))
    ran = rota("submit", "-f", one, "--set", "WORD=x", "--wait")
    assert (ran.code, ran.out, ran.err) == (1, "7\n", "rota: task 7 failed with exit code 3\n")
