"""`client.secrets` of both clients; no message and no repr shows a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import AsyncClient, Client
from rota.client.calls import secret_calls
from rota.client.errors import ManifestError
from rota.client.manifest.load import read_manifest
from rota.client.options import request_of
from rota.execute.child.context import TaskContext
from rota.execute.keeper_link import Spawn
from rota.execute.messages.calls import Call
from rota.model.secret import Secret, SecretMap
from rota.model.task import Kind
from rota.wire import Run
from tests.client.stub_server import Reply, StubServer

CANARY = "canary-of-the-client"
SECRET = {"name": "TOKEN", "version": 1, "created_by": "ann", "changed_by": "ann"}


def test_a_secret_is_set_listed_and_removed(server: StubServer, client: Client) -> None:
    server.on("PUT", "/v1/secrets/TOKEN", Reply(201, SECRET))
    server.on_document("GET", "/v1/secrets", {"secrets": [SECRET]})
    server.on("DELETE", "/v1/secrets/TOKEN", Reply(204))
    assert client.secrets.set("TOKEN", CANARY).version == 1
    assert server.asked("PUT", "/v1/secrets/TOKEN")[0].json == {"value": CANARY}
    assert [one.name for one in client.secrets.list()] == ["TOKEN"]
    client.secrets.remove("TOKEN")
    assert len(server.asked("DELETE", "/v1/secrets/TOKEN")) == 1


async def test_the_awaiting_client_does_the_same(server: StubServer) -> None:
    server.on("PUT", "/v1/secrets/TOKEN", Reply(201, SECRET))
    server.on_document("GET", "/v1/secrets", {"secrets": [SECRET]})
    server.on("DELETE", "/v1/secrets/TOKEN", Reply(204))
    async with AsyncClient(server.url, "key") as client:
        assert (await client.secrets.set("TOKEN", CANARY)).name == "TOKEN"
        assert [one.version for one in await client.secrets.list()] == [1]
        await client.secrets.remove("TOKEN")
    assert [one.method for one in server.received] == ["PUT", "GET", "DELETE"]


def test_names_are_a_list() -> None:
    assert request_of({"command": ["true"], "secrets": ("A", "B")}).secrets == ["A", "B"]
    with pytest.raises(TypeError, match="list of names"):
        request_of({"command": ["true"], "secrets": "TOKEN"})


def test_nothing_of_ours_shows_a_value() -> None:
    secret = Secret("TOKEN", CANARY)
    holders: list[object] = [
        secret,
        SecretMap([secret]),
        secret_calls.set_secret("TOKEN", CANARY),
        TaskContext(1, 1, "key", "name", secrets=SecretMap([secret])),
        Run(1, 1, 1, Kind.COMMAND, "name", 1, 1, 1, "key", b"{}", (secret,)),
        Call(1, 1, 1, "key", "name", 1, b"{}", secrets=(secret,)),
        Spawn(program="true", arguments=[], env={}, folder="/", fence_ms=0, secrets=(secret,)),
    ]
    for holder in holders:
        assert CANARY not in f"{holder!r} {holder} {[holder]}"
    assert CANARY not in str(secret.__rich_repr__())


def test_a_manifest_with_an_impossible_name_of_a_secret_is_refused() -> None:
    text = b"command: [echo, hi]\nsecrets: [A, B]\n"
    manifest = read_manifest(text, file="rota.yaml", folder=Path(), variables={})
    assert [request.secrets for request in manifest.tasks] == [["A", "B"]]
    with pytest.raises(ManifestError, match=r"secrets\[0\]: PATH is reserved"):
        read_manifest(text.replace(b"A, B", b"PATH"), file="rota.yaml", folder=Path(), variables={})
