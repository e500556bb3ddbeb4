"""`rota why`, `rota submit --dry-run` and `rota top` on the command line."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.cli.conftest import Rota
from tests.client.stub_server import Reply, StubServer, problem

WAITING = {
    "reason": "no-free-resources",
    "sentence": "no node has 8GB of memory free; the most is 3.1GB on node-2",
    "position": 5,
    "ahead_of_mine": 3,
    "tenants_ahead": 1,
    "estimated_start": "2030-01-31T09:00:00Z",
    "basis": "running-tasks",
    "likely_node": "node-2",
    "suitable_nodes": 4,
    "free_nodes": 0,
    "tolerance_seconds": 3600,
    "tolerance_source": "plan",
}
WHY = {
    "id": 7,
    "state": "ready",
    "status": "waiting",
    **WAITING,
    "blocked_by": [],
    "blocked_by_count": 0,
    "start_by": None,
}
PREVIEW = {
    "accepted": True,
    "tasks": 1,
    "refusals": [],
    "already_submitted": [],
    "limits": [{"limit": "running_memory_bytes", "most": 8e9, "used": 1e9, "asked": 9e9}],
    "groups": [{"first": 0, "tasks": 1, "state": "ready", **WAITING}],
    "groups_left_out": 0,
}
OWN = {"tenant": "acme", "weight": 1, "share": 0.25, "charged_share": 0.5, "ready": 3, "running": 2}
BASIC = {
    "pool": "default",
    "leader": "server-0",
    "epoch": 3,
    "at": "2024-01-31T09:00:00Z",
    "utilisation": 0.93,
    "peak": True,
    "peak_mark": 0.8,
    "resources": [{"name": "cpu", "utilisation": 0.93}],
    "own": OWN,
}
AMOUNTS = {"cpu": 8, "memory_bytes": 16_000_000_000}
FULL = {
    **BASIC,
    "resources": [{"name": "memory", "utilisation": 0.5, "total": 16_000_000_000, "used": 8_000_000_000, "asked": 0}],
    "ready": 40,
    "running": 12,
    "lanes": [{"lanes": ["normal", "periodic"], "gated": False, "ready": 40, "running": 12}],
    "tenants": [OWN, {**OWN, "tenant": "zebra"}],
    "tenants_in_all": 2,
    "nodes": [
        {
            "name": "n1",
            "state": "draining",
            "capacity": AMOUNTS,
            "free": {**AMOUNTS, "cpu": 1.5},
            "running": 6,
            "prefetched": 2,
        }
    ],
    "nodes_in_all": 1,
    "reservations": [{"task": 99, "node": "n1", "at": "2024-01-31T09:01:00Z", "preempting": False}],
    "demand": {
        "ready": 40,
        "looked_at": 40,
        "late": 9,
        "idle": ["n4"],
        "missing": [
            {"nodes": 2, "capacity": AMOUNTS, "tasks": 9, "require": {}},
            {"nodes": 1, "capacity": {"cpu": 64}, "tasks": 1, "require": {"zone": "b"}},
        ],
        "unplaceable": [{"tasks": 1, "asks": {"cpu": 64}, "require": {"zone": "b"}}],
    },
}


def test_why_says_it_in_words_and_gives_the_exact_json(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/tasks/7/why", WHY)
    shown = rota("why", "7")
    assert shown.code == 0
    for words in (
        WAITING["sentence"],
        "3 of yours and 1 other tenant",
        "4 could hold it, 0 have free resources now",
        "node-2",
        "1h00m (its plan's default)",
    ):
        assert str(words) in shown.out
    machine = rota("why", "7", "-o", "json")
    assert json.loads(machine.out) == WHY


@pytest.mark.parametrize(
    ("arguments", "code"), [(("why", "8"), 3), (("why", "x"), 2), (("why",), 2), (("why", "0"), 2)]
)
def test_why_of_nothing_ends_with_a_code_and_one_line(rota: Rota, arguments: tuple[str, ...], code: int) -> None:
    ran = rota(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.strip().split("\n")) == 1


def test_a_dry_run_previews_and_submits_nothing(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/tasks/preview", PREVIEW)
    shown = rota("submit", "--dry-run", "--memory", "9G", "--", "true")
    assert shown.code == 0
    for words in (
        "accepted",
        "running memory: 1G in use, 9G asked for, 8G at most at once",
        "would be",
        "node-2",
        "1h00m (its plan's default)",
    ):
        assert words in shown.out
    assert server.asked("POST", "/v1/tasks") == []
    assert server.asked("POST", "/v1/tasks/preview")[0].json == {"command": ["true"], "memory": "9G"}
    assert json.loads(rota("submit", "--dry-run", "-o", "json", "--", "true").out) == PREVIEW


def test_a_dry_run_that_would_be_turned_away_ends_with_4(server: StubServer, rota: Rota) -> None:
    refused = {**PREVIEW, "accepted": False, "refusals": [{"type": "rate-limited", "detail": "0 would be allowed now"}]}
    server.on_document("POST", "/v1/tasks/preview", refused)
    ran = rota("submit", "--dry-run", "--", "true")
    assert ran.code == 4
    assert "rate-limited: 0 would be allowed now" in ran.out
    server.on("POST", "/v1/tasks/preview", problem(422, "unsatisfiable", "no node could ever hold it"))
    assert rota("submit", "--dry-run", "--", "true").code == 4
    assert rota("submit", "--dry-run", "--wait", "--", "true").code == 2


def test_top_into_a_pipe_is_one_frame(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/pools/default/load", FULL)
    shown = rota("top")
    assert shown.code == 0
    for words in (
        "led by server-0, epoch 3",
        "peak: gated lanes wait (mark 80%)",
        "██████████░░░░░░░░░░",
        "normal, periodic",
        "zebra",
        "1.5/8",
        "draining",
        "99",
        "in 1m00s",
        "missing: 2 more of 8 cpu, 16G memory to start 9 tasks in time",
        "missing: 1 more of 64 cpu, 0 memory with zone=b to start 1 task in time",
        "late: 9 tasks can't start by the time asked for",
        "no present node could hold 1 task of 64 cpu",
        "idle: 1 (n4)",
    ):
        assert words in shown.out
    assert "\x1b" not in shown.out
    assert json.loads(rota("top", "-o", "json").out) == FULL
    assert len(server.asked("GET", "/v1/pools/default/load")) == 2


def test_top_for_others_shows_their_own_share_only(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/pools/render/load", BASIC)
    shown = rota("top", "--pool", "render", "--once")
    assert (shown.code, "acme" in shown.out, "NODE" in shown.out) == (0, True, False)
    assert "25.0%" in shown.out


def test_top_of_an_unknown_pool_or_a_lost_leader_says_so(server: StubServer, rota: Rota) -> None:
    assert rota("top", "--pool", "nope").code == 3
    away = problem(503, "unavailable", "the leader of pool default can't be asked right now; try again")
    server.on("GET", "/v1/pools/default/load", away)
    ran = rota("top", "--once")
    assert ran.code == 5
    assert "can't be asked" in ran.err


class Terminal:
    """`rota top` on a real terminal of 30 lines."""

    def __init__(self, server: StubServer) -> None:
        self.master, child = pty.openpty()
        environment = {**os.environ, "ROTA_SERVER": server.url, "ROTA_TOKEN": "key", "COLUMNS": "100", "LINES": "30"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli", "top"],
            env=environment,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)
        self.seen = ""

    def until(self, words: str, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode()

    def ended(self) -> int:
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            os.close(self.master)


@pytest.mark.parametrize("how", ["q", "interrupt"])
def test_top_on_a_terminal_draws_again_and_ends_when_told(server: StubServer, how: str) -> None:
    changed: dict[str, Any] = {**FULL, "epoch": 4}
    away = problem(503, "unavailable", "nobody home")
    server.on("GET", "/v1/pools/default/load", Reply(200, FULL), away, Reply(200, changed))
    terminal = Terminal(server)
    terminal.until("epoch 3")
    terminal.until("not up to date")
    terminal.until("epoch 4")
    if how == "q":
        os.write(terminal.master, b"q")
    else:
        terminal.process.send_signal(signal.SIGINT)
    terminal.until("\x1b[?1049l")
    assert terminal.ended() == 0
