"""Every line that a server node or a worker writes is JSON, whoever writes it: libraries, warnings, crashes, keepers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import CALM, Cluster, Process
from tests.harness.postgres import TestPostgres

STRAY = str(Path(__file__).parent / "stray")
SECONDS = 60.0
# What `stray/sitecustomize.py` provokes, by the logger that it comes from, and whether a traceback is part of the line.
PROVOKED = [
    ("uvicorn.error", "stray: uvicorn.error has failed", True),
    ("asyncpg", "stray: asyncpg has failed", True),
    ("websockets.client", "stray: websockets.client has failed", True),
    ("careless", "stray: %d arguments ('no number',)", False),
    ("py.warnings", "RuntimeWarning: stray: a warning", False),
    ("stderr", "stray: printed, line 1", False),
    ("stderr", "line 2", False),
    ("stderr", "ValueError: stray: printed as a traceback", False),
    ("asyncio", "Task exception was never retrieved", True),
]


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("logs"), time_scale=CALM) as running:
        running.add_server(PYTHONPATH=STRAY)
        running.add_worker(PYTHONPATH=STRAY)
        yield running


def lines(process: Process) -> list[dict[str, Any]]:
    """Every whole line of its log, parsed."""
    *whole, _ = process.log().split("\n")
    found = []
    for line in whole:
        try:
            found.append(json.loads(line))
        except ValueError:
            raise AssertionError(f"not JSON: {line!r}") from None
    assert all(isinstance(one, dict) and {"event", "level", "timestamp"} <= one.keys() for one in found)
    return found


def until(process: Process, seen: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + SECONDS
    while not any(seen(line) for line in lines(process)):
        assert time.monotonic() < deadline, process.log()[-4000:]
        time.sleep(0.05)
    return lines(process)


@pytest.mark.parametrize("which", ["server", "worker"])
def test_what_libraries_log_warn_of_print_and_crash_with_is_json(cluster: Cluster, which: str) -> None:
    process = cluster.servers[0] if which == "server" else cluster.workers[0]
    found = until(process, lambda line: line["event"] == "stray: over")
    for logger, text, has_traceback in PROVOKED:
        line = next(one for one in found if one.get("logger") == logger and text in one["event"])
        assert ("Traceback (most recent call last)" in line.get("exception", "")) == has_traceback
    thread = next(one for one in found if one["event"] == "thread.crashed")
    assert thread["thread"] == "stray-thread"
    assert "ValueError: stray: raised in a thread" in thread["exception"]
    assert any("stray: raised by a finaliser" in one.get("exception", "") for one in found)
    both_lines = next(one for one in found if "stray: in asyncpg" in one.get("exception", ""))
    assert "in two lines" in both_lines["exception"]


def test_what_a_keeper_writes_and_its_death_are_json(cluster: Cluster) -> None:
    worker = cluster.workers[0]
    until(worker, lambda line: (line["event"], line.get("line")) == ("keeper.wrote", "stray: a keeper's last line"))
    keepers = subprocess.run(
        ["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    keeper = next(pid for pid in keepers if b"rota.execute.keeper.main" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(keeper), signal.SIGKILL)
    until(worker, lambda line: line["event"].startswith("the keeper died"))


def test_bytes_that_are_no_http_are_one_json_line_of_the_server(cluster: Cluster) -> None:
    host, port = cluster.urls[0].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"\x00\x01 no HTTP\r\n\r\n")
        connection.recv(1024)
    until(cluster.servers[0], lambda line: line["event"] == "Invalid HTTP request received.")


def test_an_error_that_nobody_expected_ends_a_server_with_a_json_line(cluster: Cluster, tmp_path: Path) -> None:
    crashing = (
        "import rota.server.node as node\ndef broken(*a, **b): raise ZeroDivisionError('at once')\nnode.listen = broken"
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"{crashing}\nfrom rota.cli.main import main; main()", "serve", "--port", "0"],
        env={**os.environ, "ROTA_DATABASE": cluster.database},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=SECONDS,
    )
    (line,) = map(json.loads, ended.stderr.splitlines())
    assert (ended.returncode, line["event"], line["level"]) == (125, "node.crashed", "error")
    assert "ZeroDivisionError: at once" in line["exception"]


def test_a_second_worker_of_a_name_ends_with_its_reason_as_a_json_line(cluster: Cluster) -> None:
    twin = Process("twin", [*cluster.workers[0].arguments], cluster.workers[0].environment, cluster.folder)
    twin.start(wait=False)
    assert twin.popen is not None
    assert twin.popen.wait(SECONDS) == 1
    found = [line for line in lines(twin) if line["event"] == "process.failed"]
    assert [(line["exit_code"], line["level"]) for line in found] == [(1, "error")]
