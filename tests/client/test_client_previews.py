"""`why` and `preview` of both clients: the same request, the same value, and retries through an outage."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota import AsyncClient, Client, NotFound, Refused
from tests.client.stub_server import Lost, Reply, StubServer, problem

WHY = {"id": 7, "state": "ready", "reason": "no-free-resources", "sentence": "no node has 1 core free", "position": 3,
       "estimated_start": "2030-01-31T09:00:00Z", "basis": "running-tasks", "new_in_a_later_server": 1}  # fmt: skip
PREVIEW = {"accepted": True, "groups": [{"reason": "soon", "sentence": "1 node has room", "free_nodes": 1}]}


def test_why_is_a_value_and_is_asked_again_after_a_lost_answer(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/tasks/7/why", Lost(), Reply(200, WHY))
    found = client.handle(7).why()
    assert (found.reason, found.position, found.basis) == ("no-free-resources", 3, "running-tasks")
    assert found.estimated_start == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert client.why(7) == found
    with pytest.raises(NotFound):
        client.why(8)


def test_a_preview_sends_the_request_of_submit_without_an_idempotency_key(server: StubServer, client: Client) -> None:
    server.on_document("POST", "/v1/tasks/preview", PREVIEW)
    found = client.preview(["true"], memory="1G", after=[3])
    assert (found.accepted, found.groups[0].free_nodes) == (True, 1)
    sent = server.asked("POST", "/v1/tasks/preview")[0]
    assert sent.json == {"command": ["true"], "memory": "1G", "after": [3]}
    assert "idempotency-key" not in sent.headers
    server.on("POST", "/v1/tasks/preview", problem(422, "unsatisfiable", "no node could ever hold it"))
    with pytest.raises(Refused, match="no node could ever hold it"):
        client.preview(["true"])


async def test_the_awaiting_client_asks_the_same(server: StubServer) -> None:
    server.on_document("GET", "/v1/tasks/7/why", WHY)
    server.on_document("POST", "/v1/tasks/preview", PREVIEW)
    async with AsyncClient(server.url, "key") as client:
        assert (await client.handle(7).why()).reason == "no-free-resources"
        assert (await client.why(7)).id == 7
        assert (await client.preview(["true"])).accepted
