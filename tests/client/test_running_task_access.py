"""The client inside of a running call: the server and the key come from the call, not from the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from rota import AsyncClient, Client, running_task
from rota.client.calls import cluster_calls
from rota.client.errors import ConfigurationError
from rota.client.functions import _default_client
from rota.client.transport.profile import Profile, resolve
from rota.running_task import RunningTask
from rota.servers import addresses_of

OUTSIDE = {"ROTA_SERVER": "http://outside:1", "ROTA_TOKEN": "of-the-process"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        key = self.headers["Authorization"]
        body = f"{key} {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[str]:
    with UnixStreamServer(str(tmp_path / "server"), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http+unix:{tmp_path}/server"
        server.shutdown()
        thread.join()


def test_both_clients_take_the_address_of_a_socket(socket: str) -> None:
    with Client(socket, "a-key") as client:
        assert client.exchange(cluster_calls.me()) == b"Bearer a-key rota"

    async def ask() -> bytes:
        async with AsyncClient(socket, "b-key") as client:
            return await client.exchange(cluster_calls.me())

    assert asyncio.run(ask()) == b"Bearer b-key rota"


@pytest.mark.parametrize(
    "text", ["http+unix:", "http+unix:run/rota", "http+unix:/run/a,http+unix:/run/b", "http+unix:/run/"]
)
def test_a_wrong_address_of_a_socket_says_what_is_right(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not the path of a socket; write http\\+unix:/run/rota/server, and only one"
    ):
        addresses_of(text)
    with pytest.raises(ConfigurationError):
        resolve(text, "key", {})


async def test_each_of_several_concurrent_calls_has_its_own_key() -> None:
    async def call(number: int) -> Profile:
        running_task.here.set(RunningTask(number, f"http://server:{number}", f"key-{number}"))
        await asyncio.sleep(0)
        return resolve(environment=OUTSIDE)

    found = await asyncio.gather(*(call(number) for number in range(1, 4)))
    assert [(one.servers, one.token) for one in found] == [
        ((f"http://server:{number}",), f"key-{number}") for number in range(1, 4)
    ]
    assert resolve(environment=OUTSIDE).token == "of-the-process"


def test_a_named_server_is_not_sent_the_calls_key() -> None:
    running_task.enter(RunningTask(7, "http://localhost:1", "our-key"))
    try:
        elsewhere = resolve("http://elsewhere:1", environment={"ROTA_PROFILE": ""})
        assert (elsewhere.servers, elsewhere.token) == (("http://elsewhere:1",), None)
        assert resolve(environment=OUTSIDE) == Profile(("http://localhost:1",), "our-key")
        inside = _default_client()
        assert _default_client() is inside
    finally:
        running_task.enter(None)
    running_task.enter(RunningTask(8, "http://localhost:1", "next-key"))
    try:
        assert _default_client() is not inside
    finally:
        running_task.enter(None)


def test_the_default_client_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SERVER", "http://first:1")
    first = _default_client()
    assert _default_client() is first
    monkeypatch.setenv("ROTA_SERVER", "http://second:1")
    assert _default_client() is not first


def test_a_call_that_may_not_submit_finds_what_its_process_has() -> None:
    running_task.enter(RunningTask(7))
    try:
        assert resolve(environment=OUTSIDE).servers == ("http://outside:1",)
    finally:
        running_task.enter(None)
