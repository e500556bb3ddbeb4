"""`submit_manifest` of both clients: one request for a graph, handles by name, faults with their positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import AsyncClient, Client, ManifestError, ManifestRefused
from tests.client.stub_server import Lost, Reply, StubServer, problem

GRAPH = "tasks:\n  a: {command: [x]}\n  b: {command: ['${WORD}'], after: [a]}\n"
MADE = Reply(201, {"id": 6, "tasks": {"a": 7, "b": 8}})


def test_a_graph_is_submitted_once_although_its_answer_was_lost(
    server: StubServer, client: Client, tmp_path: Path
) -> None:
    server.on("POST", "/v1/graphs", Lost(), MADE)
    (tmp_path / "rota.yaml").write_text(GRAPH)
    handles = client.submit_manifest(tmp_path / "rota.yaml", {"WORD": "y"})
    assert {name: handle.id for name, handle in handles.items()} == {"a": 7, "b": 8}
    first, second = server.received
    assert first.json["tasks"][1]["command"] == ["y"]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] != ""


def test_one_task_is_called_by_its_name(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "created": True}))
    assert client.submit_manifest("name: nightly\ncommand: [x]\n")["nightly"].id == 7


def test_faults_are_raised_before_anything_is_sent(server: StubServer, client: Client) -> None:
    with pytest.raises(ManifestError) as caught:
        client.submit_manifest(GRAPH)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.path, fault.code) == (3, 17, "tasks.b.command[0]", "undeclared-variable")
    assert server.received == []


async def test_the_awaited_client_does_the_same(server: StubServer) -> None:
    errors = [{"pointer": "/tasks/1/after/0", "code": "x", "detail": "no"}]
    server.on("POST", "/v1/graphs", MADE, problem(422, "x", "no", errors=errors))
    async with AsyncClient(server.url, "key") as client:
        handles = await client.submit_manifest(GRAPH, {"WORD": "y"})
        assert {name: handle.id for name, handle in handles.items()} == {"a": 7, "b": 8}
        with pytest.raises(ManifestRefused) as caught:
            await client.submit_manifest(GRAPH, {"WORD": "y"})
    assert str(caught.value) == "manifest:3:37: tasks.b.after[0]: no"
    assert (caught.value.status, caught.value.slug) == (422, "x")
