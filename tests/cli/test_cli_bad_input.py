"""Bad input ends with exit code 2 and one line that names it, before any request (promises, rows 49–51)."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Rota
from tests.client.stub_server import StubServer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "no such command 'lst'. Did you mean 'list'?"),
        (["submit", "--memroy", "1G", "--", "ls"], "Did you mean --memory?"),
        (["list", "--stat", "ready"], "Did you mean --stat"),
        (["dead"], "one of list, show, requeue, discard"),
        (["dead", "requeu"], "Did you mean 'requeue'?"),
        (["show"], "missing argument 'ID'"),
        (["show", "abc"], "invalid value for ID:"),
        (["show", "0"], "invalid value for ID:"),
        (["submit"], "say what to run"),
        (["submit", "--memory", "3x", "--", "ls"], "--memory: '3x' is not a size"),
        (["submit", "--disk", "-1", "--", "ls"], "--disk"),
        (["submit", "--cpu", "many", "--", "ls"], "--cpu: 'many' is not a number of cores"),
        (["submit", "--cpu", "-1", "--", "ls"], "--cpu: '-1' is below zero"),
        (["submit", "--cap", "soon", "--", "ls"], "--cap: 'soon' is not a duration"),
        (["submit", "--in", "1x", "--", "ls"], "--in"),
        (["submit", "--tolerance", "x", "--", "ls"], "--tolerance"),
        (["submit", "--backoff", "x", "--", "ls"], "--backoff"),
        (["submit", "--attempts", "0", "--", "ls"], "--attempts"),
        (["submit", "--gpu", "one", "--", "ls"], "--gpu"),
        (["submit", "--gpu", "1.5", "--", "ls"], "--gpu: '1.5' is neither whole GPUs (1, 2, …) nor a fraction of one"),
        (["submit", "--gpu", "-1", "--", "ls"], "--gpu: '-1' is below zero"),
        (["submit", "--iops", "fast", "--", "ls"], "--iops: 'fast' is not an amount"),
        (["submit", "--bandwidth", "wide", "--", "ls"], "--bandwidth: 'wide' is not a bandwidth"),
        (["submit", "--custom", "license", "--", "ls"], "--custom: 'license' is not a pair"),
        (["submit", "--custom", "license=one", "--", "ls"], "--custom: license=one is not a whole number"),
        (["submit", "--unplaceable", "wat", "--", "ls"], "--unplaceable: 'wat' is not known; did you mean wait?"),
        (["submit", "--port", "0", "--", "ls"], "--port"),
        (["submit", "--env", "PATH", "--", "ls"], "--env: 'PATH' is not a pair; write NAME=VALUE"),
        (["submit", "--env", "A=1", "--env", "A=2", "--", "ls"], "--env: 'A' is given twice"),
        (["submit", "--tag", "=x", "--", "ls"], "--tag"),
        (["submit", "--require", "zone", "--", "ls"], "--require"),
        (["submit", "--after", "7,x", "--", "ls"], "--after: 'x' is not a task's id"),
        (["submit", "--at", "2030-01-31", "--", "ls"], "--at: '2030-01-31' is not a time with a zone"),
        (["submit", "--at", "2030-01-31T00:00:00Z", "--in", "1h", "--", "ls"], "--at or --in"),
        (["submit", "--upstream", "skp", "--", "ls"], "--upstream: 'skp' is not known; did you mean skip?"),
        (["submit", "--function", "nonsense"], "--function: 'nonsense' does not name a function"),
        (["submit", "--function", "a:b", "--args", "{"], "--args: the value is not JSON"),
        (["submit", "--function", "a:b", "--args", "{}"], "--args: the value must be a JSON array"),
        (["submit", "--function", "a:b", "--kwargs", "[]"], "--kwargs: the value must be a JSON object"),
        (["submit", "--function", "a:b", "--path", "/x"], "give one of --script, --path, --upload, --function"),
        (["submit", "--kwargs", "{}", "--", "ls"], "--kwargs: only a --function"),
        (["submit", "--package", "0" * 64, "--", "ls"], "--package: only a --function has a package"),
        (["run", "--memory", "3x", "--", "ls"], "--memory: '3x' is not a size"),
        (["list", "--state", "runing"], "--state: 'runing' is not known; did you mean running?"),
        (["list", "--status", "asleep"], "--status: 'asleep' is not known; use one of waiting"),
        (["list", "--tag", "team"], "--tag: 'team' is not a pair"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "-o", "xml"], "--output"),
        (["wait", "7", "--timeout", "x"], "--timeout"),
        (["dead", "requeue"], "name tasks, or give a filter such as --name, or --all"),
        (["token", "add", "--tenant", "a", "--user", "b", "--role", "king"], "--role: 'king' is not known"),
        (["token", "add", "--user", "b"], "--tenant: a token with a --user needs a --tenant"),
        (["token", "add", "--role", "member"], "--role: a token with a role needs --tenant and --user"),
        (["token", "add", "--tenant", "a", "--user", "b", "--owner", "c"], "--user: a token with a user and a role"),
        (["token", "add", "--owner", "b", "--service-account", "c"], "--owner: give --owner or --service-account"),
        (
            ["token", "add", "--scope", "tasks:sumbit"],
            "--scope: 'tasks:sumbit' is not known; did you mean tasks:submit",
        ),
        (["token", "add", "--bundle", "cd"], "--bundle: 'cd' is not known; use one of ci, dashboard"),
        (["token", "add", "--from", "10.0.0.1/8"], "--from: '10.0.0.1/8' is not a network"),
        (["token", "add", "--expires", "soon"], "--expires: 'soon' is no duration like 90d"),
        (["token", "add", "--name", "a b"], "--name: 'a b' is not a name"),
        (["token", "rotate", "ci", "--overlap", "x"], "--overlap: 'x' is not a duration"),
        (["token", "revoke", "../plans"], "ID|NAME: '../plans' is not a name"),
        (["user", "add", "../plans"], "NAME: '../plans' is not a name"),
        (["user", "add", "ann", "--role", "king"], "--role: 'king' is not known"),
        (["user", "add", "ann", "--role", "member"], "--tenant: a member belongs to a tenant"),
        (["user", "add", "ann", "--tenant", "acme"], "--role: name the role at acme"),
        (["user", "add", "ann", "--role", "viewer", "--pool", "gpu"], "--pool: only operators have a role at a pool"),
        (["user", "add", "ann", "--role", "operator", "--tenant", "a"], "--tenant: operators have no tenant"),
        (["user", "add", "ann", "--role", "operator", "--tenant", "a", "--pool", "b"], "--pool: a role is at a tenant"),
        (["user", "grant", "ann"], "--role"),
        (["user", "set", "ann"], "name at least one thing to change, such as --email"),
        (["service-account", "add", "a b"], "NAME: 'a b' is not a name"),
        (["tenant", "set", "acme"], "at least one thing to change"),
        (["tenant", "set", "acme", "--support", "yes"], "--support: 'yes' is not known; use one of on, off"),
        (["--tenant", "a/b", "list"], "--tenant: 'a/b' is not a name"),
        (["plan", "set", "regular"], "at least one limit"),
        (["plan", "set", "regular", "--burst", "many"], "--burst: 'many' is not a whole number"),
        (["plan", "show", "../tokens"], "is not a name; names have letters, digits"),
    ],
)
def test_bad_input_is_one_line_that_names_it_and_no_request(
    server: StubServer, rota: Rota, arguments: list[str], message: str
) -> None:
    ran = rota(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("rota: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert server.received == []


def _absent(folder: Path) -> Path:
    return folder / "none.sh"


def _directory(folder: Path) -> Path:
    return folder


def _not_utf8(folder: Path) -> Path:
    (folder / "latin.sh").write_bytes(b"echo \xe9\n")
    return folder / "latin.sh"


def _over_limit(folder: Path) -> Path:
    (folder / "big.sh").write_bytes(b"#" * (1024 * 1024 + 1))
    return folder / "big.sh"


def _unknown_language(folder: Path) -> Path:
    (folder / "main.go").write_text("package main")
    return folder / "main.go"


def _empty(folder: Path) -> Path:
    (folder / "empty.sh").write_bytes(b"")
    return folder / "empty.sh"


def _unreadable(folder: Path) -> Path:
    return Path("/proc/self/mem")  # not even root can read it from its start


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_absent, "does not exist"),
        (_directory, "is a directory"),
        (_unreadable, "can't be read: Input/output error"),
        (_not_utf8, "is not UTF-8 text (byte 5)"),
        (_over_limit, "is larger than the limit of 1 MiB"),
        (_empty, "is empty"),
        (_unknown_language, "has no #! line, and no program is known that runs .go files; begin it with"),
    ],
)
def test_a_script_that_cannot_be_sent_is_named_before_any_request(
    server: StubServer, rota: Rota, tmp_path: Path, make: object, message: str
) -> None:
    file = make(tmp_path)  # type: ignore[operator]
    ran = rota("submit", "--script", str(file))
    assert ran.code == 2
    assert f"--script: {file} {message}" in ran.err
    assert server.received == []


@pytest.mark.parametrize(
    "words",
    [
        ("upload",),
        ("run", "--upload"),
        ("submit", "--path", "/x", "--archive"),
        ("run", "--function", "a:b", "--package"),
    ],
)
def test_a_pipe_where_a_file_to_upload_should_be_is_refused_by_name(
    server: StubServer, rota: Rota, tmp_path: Path, words: tuple[str, ...]
) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: opening it would wait for ever
    ran = rota(*words, str(tmp_path / "pipe"))
    assert (ran.code, f"{tmp_path}/pipe is not a regular file" in ran.err) == (2, True)
    assert server.received == []


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a\\b", "a/./b", ""])
def test_a_path_that_leads_out_of_the_work_folder_is_refused_in_words_about_paths(
    server: StubServer, rota: Rota, tmp_path: Path, path: str
) -> None:
    (tmp_path / "data").write_text("1")
    ran = rota("submit", "--bring", f"{path}={tmp_path}/data", "--", "true")
    assert (ran.code, server.received) == (2, [])
    assert "a path is relative, of plain names with / between them" in ran.err or not path


@pytest.mark.parametrize("path", ["checkpoint", "checkpoint/state", ".rota-result"])
def test_a_path_that_is_not_a_tasks_to_bring_is_refused_before_anything_is_sent(
    server: StubServer, rota: Rota, tmp_path: Path, path: str
) -> None:
    (tmp_path / "data").write_text("1")
    ran = rota("submit", "--bring", f"{path}={tmp_path}/data", "--", "true")
    assert (ran.code, server.received) == (2, [])
    assert "reserved" in ran.err


def test_a_script_from_stdin_is_checked_the_same_way(
    server: StubServer, rota: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    ran = rota("submit", "--script", "-")
    assert ran.code == 2
    assert "--script: standard input is not UTF-8" in ran.err


def test_bad_input_is_a_json_document_on_stderr_when_json_is_asked_for(rota: Rota) -> None:
    ran = rota("submit", "--memory", "3x", "-o", "json", "--", "ls")
    assert ran.code == 2
    assert '"detail": "invalid value for --memory' in ran.err


def test_a_broken_profile_is_exit_2_with_file_and_line(
    rota: Rota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.toml").write_text("server = 'http://x'\ntoken = oops\n")
    monkeypatch.setenv("ROTA_PROFILE", str(tmp_path / "broken.toml"))
    monkeypatch.delenv("ROTA_SERVER")
    ran = rota("list")
    assert ran.code == 2
    assert f"profile {tmp_path}/broken.toml: not TOML" in ran.err
    assert "line 2" in ran.err


def test_no_profile_and_no_server_says_how_to_name_one(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_SERVER")
    ran = rota("list")
    assert ran.code == 2
    assert "ROTA_SERVER" in ran.err
