"""Error messages are one sentence that names the input and says what would be right."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Rota
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import StubServer, problem


def test_an_extension_that_is_refused_names_what_was_typed(server: StubServer, rota: Rota) -> None:
    why = "the cap would be 9d; plan free allows at most 1h, counted from the start"
    faults = [{"pointer": "/by", "code": "out-of-range", "detail": why}]
    server.on("POST", "/v1/tasks/7/extend", problem(422, "out-of-range", f"/by: {why}", errors=faults))
    ran = rota("extend", "7", "+9d")
    assert (ran.code, ran.err) == (4, f"rota: DURATION +9d: {why}\n")


def test_the_attempt_that_runs_is_listed_with_its_run_time_so_far(server: StubServer, rota: Rota) -> None:
    began = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    lost = {
        "number": 1,
        "outcome": "lost",
        "node": "node-1",
        "run_seconds": 19.0,
        "started_at": began,
        "lane": "normal",
    }
    runs = {"number": 2, "node": "node-2", "started_at": began, "lane": "urgent"}
    server.on_document("GET", "/v1/tasks/7/attempts", {"attempts": [lost, runs]})
    first, second = (line.split() for line in rota("attempts", "7").out.splitlines()[1:])
    assert (first[:3], first[5]) == (["1", "lost", "node-1"], "19s")
    assert (second[:3], second[5]) == (["2", "running", "node-2"], "1m30s")
    server.on_document("GET", "/v1/tasks/7/attempts", {"attempts": []})
    assert rota("attempts", "7").out == "no attempts yet\n"


@pytest.mark.parametrize(
    ("state", "spec", "said"),
    [
        ("failed", {"outputs": ["out/*"]}, "no outputs: they are kept when a task ends well, and it ended failed\n"),
        ("running", {"outputs": ["a"]}, "no outputs: they are kept when it has ended well; it is in progress\n"),
        ("done", {"outputs": ["a", "b/**"]}, "no outputs: it left nothing that fits 'a', 'b/**'\n"),
        ("failed", {}, "no outputs: name them with rota submit --keep PATTERN\n"),
    ],
)
def test_why_there_are_no_outputs_is_told(
    server: StubServer, rota: Rota, state: str, spec: dict[str, object], said: str
) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, state, spec=spec))
    assert rota("outputs", "7").out == said


def test_a_file_that_can_be_opened_and_not_read_is_named(rota: Rota) -> None:
    ran = rota("upload", "/proc/self/mem")
    assert (ran.code, ran.err.split(" (see")[0]) == (
        2,
        "rota: invalid value for FILE: /proc/self/mem: Input/output error",
    )


@pytest.mark.parametrize("words", [("submit", "--script"), ("run", "--script"), ("validate", "-f"), ("submit", "-f")])
def test_a_named_pipe_that_nobody_writes_to_is_refused_at_once(
    rota: Rota, tmp_path: Path, words: tuple[str, ...]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ran = rota(*words, str(pipe))
    assert ran.code == 2
    assert f"{pipe} is a named pipe" in ran.err or f"{pipe}: is a named pipe" in ran.err


def test_what_a_shell_hands_over_as_a_pipe_is_read() -> None:
    line = f"{sys.executable} -m rota.cli validate -f <(echo 'command: [x]')"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_doctor_knows_two_ways_to_tell(rota: Rota) -> None:
    ran = rota("doctor", "-o", "yaml")
    assert ran.code == 2
    assert "'yaml' is not one of" in ran.err
    assert ran.out == ""


def test_a_downloaded_artifact_can_be_told_as_a_document(rota: Rota) -> None:
    assert "--output" in rota("artifact", "download", "--help").out


def test_what_is_not_there_is_named_as_it_was_typed(server: StubServer, rota: Rota) -> None:
    for words, path, noun in (
        (("show", "99"), "/v1/tasks/99", "task"),
        (("node", "show", "nod-1"), "/v1/nodes/nod-1", "node"),
    ):
        server.on("GET", path, problem(404, "not-found", f"there is no such {noun}"))
        server.on("GET", "/v1/graphs/99", problem(404, "not-found", "there is no such graph"))
        ran = rota(*words)
        assert (ran.code, ran.err) == (3, f"rota: there is no such {noun}: {words[-1]}\n")


def test_every_fault_of_a_refusal_has_a_line_and_of_very_many_the_rest_is_counted(
    server: StubServer, rota: Rota
) -> None:
    faults = [{"pointer": f"/tasks/{number}/cap", "code": "out-of-range", "detail": "too long"} for number in range(25)]
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", "…", errors=faults))
    said = rota("submit", "--", "true").err.splitlines()
    assert said[:2] == ["rota: /tasks/0/cap: too long", "rota: /tasks/1/cap: too long"]
    assert (len(said), said[-1]) == (21, "rota: and 5 more")


@pytest.mark.parametrize("key", ["", "  ", "a\tb", "x" * 256])
def test_an_idempotency_key_that_cannot_be_one_is_refused_before_anything_is_sent(
    server: StubServer, rota: Rota, key: str
) -> None:
    ran = rota("submit", "--idempotency-key", key, "--", "true")
    assert ran.code == 2
    assert "--idempotency-key: an idempotency key has 1 to 255 printable ASCII characters" in ran.err
    assert server.received == []


@pytest.mark.parametrize(
    ("words", "pointer", "named"),
    [
        (("submit", "--cpu", "9", "--", "true"), "/cpu", "--cpu"),
        (("submit", "--cpu=9", "--", "true"), "/cpu", "--cpu"),
        (("submit", "--in", "9h", "--", "true"), "/delay", "--in"),
        (("submit", "--env", "A=b", "--", "true"), "/env/A", "--env"),
        (("submit", "--at", "1960-01-01T00:00Z", "--", "true"), "/at", "--at"),
        (("submit", "--", "true", "--cpu", "9"), "/cpu", "/cpu"),
        (("submit", "--", "true"), "/cpu", "/cpu"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(
    server: StubServer, rota: Rota, words: tuple[str, ...], pointer: str, named: str
) -> None:
    fault = {"pointer": pointer, "code": "out-of-range", "detail": "it is too much"}
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", f"{pointer}: it is too much", errors=[fault]))
    ran = rota(*words)
    assert (ran.code, ran.err) == (4, f"rota: {named}: it is too much\n")


def test_a_name_is_said_once_however_the_server_and_the_command_line_put_it(server: StubServer, rota: Rota) -> None:
    server.on("GET", "/v1/dead/7", problem(404, "not-found", "there is no dead letter 7"))
    assert rota("dead", "show", "7").err == "rota: there is no dead letter 7\n"
    fault = {"pointer": "/at", "code": "out-of-range", "detail": "at is a time after 1970"}
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", "/at: at is a time after 1970", errors=[fault]))
    ran = rota("submit", "--at", "1960-01-01T00:00Z", "--", "true")
    assert ran.err == "rota: --at is a time after 1970\n"


def test_an_option_is_named_without_quotes_whoever_checks_it(rota: Rota) -> None:
    assert rota("list", "--limit", "0").err.startswith("rota: invalid value for --limit: 0 is too small")
    assert rota("list", "--state", "x").err.startswith("rota: invalid value for --state: 'x' is not known")


def test_a_folder_that_may_not_be_written_is_named_before_and_during_a_download(
    server: StubServer, rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [{"name": "report.txt", "artifact": "sha256:00"}]
    server.on_document("GET", "/v1/tasks/7", task_document(7, "done", outputs=kept))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root may write everywhere

    monkeypatch.setattr(Path, "mkdir", refuse)
    ran = rota("outputs", "7", "--download", str(tmp_path))
    path = tmp_path / "report.txt"
    assert (ran.code, f"--download: {path} can't be written: Permission denied" in ran.err) == (2, True), ran.err
