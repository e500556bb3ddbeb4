"""`rota secret`: the sources of a value, which appears in no argument and no message."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from rota.model.secret import MOST_VALUE_BYTES
from tests.cli.conftest import Rota
from tests.client.stub_server import Reply, StubServer

ROTA = str(Path(sys.executable).parent / "rota")
CANARY = "canary-in-the-shell"
SECRET = {
    "name": "API_KEY",
    "version": 2,
    "created_by": "ann",
    "changed_by": "bob",
    "changed_at": "2024-01-31T09:00:00Z",
}


def _piped(data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([ROTA, "secret", "set", *words], input=data, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("piped", "kept"),
    [(b"canary-in-the-shell\n", CANARY), (b"two\nlines\n\n", "two\nlines\n"), ("é\r\n".encode(), "é")],
)
def test_a_piped_value_goes_without_its_last_line_end(server: StubServer, piped: bytes, kept: str) -> None:
    server.on("PUT", "/v1/secrets/API_KEY", Reply(201, SECRET))
    ran = _piped(piped, "API_KEY")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"API_KEY is set (version 2)\n", b"")
    assert [one.json for one in server.asked("PUT", "/v1/secrets/API_KEY")] == [{"value": kept}]


def test_a_file_is_taken_exactly(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on("PUT", "/v1/secrets/API_KEY", Reply(201, SECRET))
    (tmp_path / "key.pem").write_text("-----BEGIN\nabc\n")
    assert (
        rota("secret", "set", "API_KEY", "--file", str(tmp_path / "key.pem"), "-o", "json").out
        == json.dumps(SECRET) + "\n"
    )
    assert server.asked("PUT", "/v1/secrets/API_KEY")[0].json == {"value": "-----BEGIN\nabc\n"}


def test_a_terminal_is_asked_and_shows_nothing_of_the_answer(server: StubServer) -> None:
    server.on("PUT", "/v1/secrets/API_KEY", Reply(201, SECRET))
    process, terminal = pty.fork()
    if process == 0:
        os.execv(ROTA, [ROTA, "secret", "set", "API_KEY"])
    shown = b""
    while b"(not shown): " not in shown:
        assert select.select([terminal], [], [], 30)[0]
        shown += os.read(terminal, 4096)
    os.write(terminal, CANARY.encode() + b"\n")
    while select.select([terminal], [], [], 30)[0]:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how a terminal says that its last process has gone
            break
        shown += part
        if not part:
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert CANARY.encode() not in shown
    assert server.asked("PUT", "/v1/secrets/API_KEY")[0].json == {"value": CANARY}


def test_a_terminal_that_is_closed_instead_of_answered_is_a_usage_error(server: StubServer) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(ROTA, [ROTA, "secret", "set", "API_KEY"])
    shown = b""
    while b"(not shown): " not in shown:
        assert select.select([terminal], [], [], 30)[0]
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x04")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 2
    os.close(terminal)
    assert server.received == []


def test_a_value_among_the_words_is_refused_and_not_repeated(server: StubServer, rota: Rota) -> None:
    for words in (("API_KEY", CANARY), ("API_KEY", CANARY, "more")):
        ran = rota("secret", "set", *words)
        assert (ran.code, ran.out) == (2, "")
        assert "never given on the command line" in ran.err
        assert CANARY not in ran.err
    assert server.received == []


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("1ST", b"x", "not a variable's name"),
        ("PATH", b"x", "reserved"),
        ("API_KEY", b"", "1 to 65536 bytes, not 0"),
        ("API_KEY", b"\n", "1 to 65536 bytes, not 0"),
        ("API_KEY", b"a\0b", "NUL"),
        ("API_KEY", b"\xff\xfe", "UTF-8"),
        ("API_KEY", b"x" * (MOST_VALUE_BYTES + 1), "1 to 65536 bytes"),
        ("API_KEY", "é".encode() * MOST_VALUE_BYTES, "1 to 65536 bytes"),
    ],
)
def test_a_bad_name_or_value_ends_here(
    server: StubServer, rota: Rota, tmp_path: Path, name: str, data: bytes, complaint: str
) -> None:
    (tmp_path / "value").write_bytes(data.rstrip(b"\n"))
    ran = rota("secret", "set", name, "--file", str(tmp_path / "value"))
    assert (ran.code, ran.out, complaint in ran.err) == (2, "", True), ran
    assert server.received == []


def test_secrets_are_listed_removed_and_rotated(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/secrets", {"secrets": [SECRET]})
    server.on("DELETE", "/v1/secrets/API_KEY", Reply(204))
    listed = rota("secret", "list")
    assert (listed.code, "API_KEY" in listed.out, "bob" in listed.out) == (0, True, True)
    assert rota("secret", "remove", "API_KEY").out == "API_KEY is removed\n"
    assert rota("secret", "remove", "NONE").code == 3
    answer = {
        "key": "aa",
        "rewrapped": 3,
        "failed": [{"tenant": 7, "name": "X", "reason": "no key"}],
        "keys": [{"id": "aa", "known": True, "secrets": 3}, {"id": "bb", "known": True, "secrets": 0}],
    }
    server.on_document("POST", "/v1/master-keys/rotate", answer)
    assert rota("secret", "rotate").out.splitlines() == [
        "3 encrypted again with key aa",
        "tenant 7, X: not done: no key",
        "key bb is in the file and no longer used: it can go",
    ]


def test_a_task_names_its_secrets(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    assert rota("submit", "--secret", "A", "--secret", "B", "--", "true").code == 0
    assert server.asked("POST", "/v1/tasks")[0].json == {"command": ["true"], "secrets": ["A", "B"]}


@pytest.mark.parametrize("content", [None, "nonsense", ""])
def test_a_server_node_does_not_start_with_keys_it_can_not_use(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
        path.chmod(0o600)
    ran = subprocess.run(
        [ROTA, "serve", "--database", "postgresql://nobody@127.0.0.1:1/none", "--secrets-key", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr.startswith(f"rota: secrets_key: {path}")) == (2, True), ran.stderr
