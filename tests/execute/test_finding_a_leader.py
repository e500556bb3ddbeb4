"""A worker that starts before its servers, or outlives them: what it says in its log, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from rota.execute import connection
from rota.execute.connection import ControlConnection, Introduction
from rota.execute.identity import WorkerToken


async def _ask(times: int, answer: Callable[[httpx.Request], httpx.Response]) -> list[Any]:
    introduction = Introduction(
        servers=("http://a", "http://b"), credential=WorkerToken("t"), pool="default", hello=None
    )  # type: ignore[arg-type]
    agent = ControlConnection(introduction=introduction, workbench=None, outbox=None)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with capture_logs() as lines:
            for _ in range(times):
                await agent._find_leader(client)
    return [(line["event"], line["server"], line["why"]) for line in lines]


def _away(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("All connection attempts failed")


async def test_servers_that_are_away_are_in_the_log_once_each_and_not_at_every_try() -> None:
    lines = await _ask(100, _away)
    why = "All connection attempts failed"
    expected = [("a server does not answer", f"http://{name}", why) for name in "ab"]
    assert sorted(lines) == expected


async def test_a_reminder_comes_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REMIND_SECONDS", 0.0)
    assert len(await _ask(10, _away)) == 10


async def test_a_server_that_waits_for_its_database_tells_workers_so() -> None:
    why = "this server node is starting: the database does not answer"
    document = {"type": "https://rota.dev/problems/unavailable", "title": "…", "status": 503, "detail": why}
    lines = await _ask(10, lambda _: httpx.Response(503, json=document))
    assert sorted(lines) == [("no leader yet", f"http://{name}", why) for name in "ab"]


async def test_a_server_that_answered_in_between_is_said_to_be_away_again() -> None:
    asked = 0

    def flapping(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked in (3, 4):
            return httpx.Response(200, json={"url": "http://localhost", "epoch": 1})
        return _away(request)

    assert len(await _ask(8, flapping)) == 4
