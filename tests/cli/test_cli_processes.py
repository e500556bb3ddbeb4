"""Behaviour that only a real process shows: Ctrl-C, a closed pipe, a terminal (promises, rows 53 and 54)."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.client.stub_documents import chunk, end
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Reply, Stream, StubServer

ROTA = str(Path(sys.executable).parent / "rota")
SUBMITTED = Reply(201, {"id": 7, "state": "ready", "created": True})


def test_ctrl_c_during_run_ends_it_with_130_and_leaves_the_task_running(server: StubServer) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"started\n"),), hold=True))
    with subprocess.Popen([ROTA, "run", "--", "job"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == (
            b"rota: you ended the wait; these tasks continue: 7 (rota wait, rota logs -f, rota cancel)\n"
        )
        assert process.stdout.read() == b""
        assert process.wait() == 130
    assert server.asked("POST", "/v1/tasks/7/cancel") == []


def test_a_closed_pipe_ends_silently(server: StubServer) -> None:
    page = {"tasks": [task_document(number, name="x" * 200) for number in range(1, 1000)], "next": "more"}
    server.on_document("GET", "/v1/tasks", page)
    with subprocess.Popen(
        [ROTA, "list", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:  # endless pages: only the closed pipe ends it
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() != b""
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_closed_pipe_ends_a_followed_log_silently(server: StubServer) -> None:
    lines = tuple(chunk(b"x" * 10_000, seq=number) for number in range(200))
    server.on("GET", "/v1/tasks/7/log", Stream(lines, hold=True))
    with subprocess.Popen([ROTA, "logs", "-f", "7"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"x"
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait()


def test_escape_codes_of_a_task_are_shown_escaped_on_a_terminal(server: StubServer) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    # The two bytes of é, and a line end, arrive in two pieces.
    pieces = (
        chunk(b"\x1b]0;owned\x07caf\xc3"),
        chunk(b"\xa9\r", seq=1),
        chunk(b"\nover\rwrite\xff\n", seq=2),
    )
    server.on("GET", "/v1/tasks/7/log", Stream((*pieces, end())))
    assert _on_terminal("run", "--", "job") == "\\x1b]0;owned\\x07café\nover\\rwrite\\xff\n"


def test_escape_codes_pass_to_a_terminal_only_when_asked_for(server: StubServer) -> None:
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"\x1b[31mred\x1b[0m\n"), end())))
    assert _on_terminal("logs", "7") == "\\x1b[31mred\\x1b[0m\n"
    assert _on_terminal("logs", "7", "--raw") == "\x1b[31mred\x1b[0m\n"


def test_no_command_line_ends_in_a_traceback(server: StubServer) -> None:
    server.on("GET", "/v1/me", Reply(200, body=b"[]"))
    ran = subprocess.run([ROTA, "me"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.startswith("rota: the answer to GET /v1/me cannot be read")


def test_the_version_is_answered_without_importing_typer_or_http() -> None:
    program = "import sys; from rota.cli.main import run; run(['--version']); print('typer' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("False\n")


def _on_terminal(*arguments: str) -> str:
    """What a terminal is sent by `rota`, with the terminal's own line ends taken back."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([ROTA, *arguments], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux says EIO when the last writer has gone
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    process.communicate()
    return shown.decode().replace("\r\n", "\n")
