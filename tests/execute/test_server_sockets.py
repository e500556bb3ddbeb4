"""A server socket: bytes go to a server node and back, unread; the next node is used when one is away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.execute import server_sockets
from rota.execute.server_sockets import NAME, ServerSockets
from tests.harness.cluster import free_port

PATIENCE_SECONDS = 10.0


class Echo:
    """A server that answers each line with its own name before it."""

    def __init__(self, name: str) -> None:
        self.name = name.encode()
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while line := await reader.readline():
            writer.write(self.name + b" " + line)
        writer.close()


@contextlib.asynccontextmanager
async def serving(echo: Echo, port: int) -> AsyncIterator[str]:
    server = await asyncio.start_server(echo, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


async def asked(folder: Path, text: bytes) -> bytes:
    """What comes back until the end, over a connection of its own."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(folder / NAME))
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer


async def test_bytes_go_to_a_server_and_back(tmp_path: Path) -> None:
    async with serving(Echo("a"), free_port()) as url:
        sockets = ServerSockets((url,))
        sockets.open(str(tmp_path / "own"))
        assert await asked(tmp_path / "own", b"one\ntwo\n") == b"a one\na two\n"
        assert stat.S_IMODE(os.stat(tmp_path / "own" / NAME).st_mode) == 0o666
        assert stat.S_IMODE(os.stat(tmp_path / "own").st_mode) == 0o755
        sockets.close_all()


async def test_the_next_server_is_used_when_one_is_away(tmp_path: Path) -> None:
    first, second = Echo("a"), Echo("b")
    ports = free_port(), free_port()
    sockets = ServerSockets(tuple(f"http://127.0.0.1:{port}" for port in ports))
    sockets.open(str(tmp_path / "own"))
    async with serving(second, ports[1]):
        assert await asked(tmp_path / "own", b"x\n") == b"b x\n"
    async with serving(first, ports[0]):
        assert await asked(tmp_path / "own", b"y\n") == b"a y\n"
    answer = await asked(tmp_path / "own", b"z\n")
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert answer.endswith(b'"detail":"this node reaches no server node right now; try again"}')
    sockets.close_all()


async def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sockets, "MOST_CONNECTIONS", 2)
    async with serving(Echo("a"), free_port()) as url:
        sockets = ServerSockets((url,))
        sockets.open(str(tmp_path / "own"))
        path = str(tmp_path / "own" / NAME)
        kept = [await asyncio.open_unix_connection(path) for _ in range(2)]
        for reader, writer in kept:
            writer.write(b"x\n")
            assert await reader.readline() == b"a x\n"
        reader, _ = await asyncio.open_unix_connection(path)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        sockets.close_all()


async def test_bytes_of_a_connection_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sockets, "MOST_BYTES", 10)
    async with serving(Echo("a"), free_port()) as url:
        sockets = ServerSockets((url,))
        sockets.open(str(tmp_path / "own"))
        assert len(await asked(tmp_path / "own", b"12345\n12345\n12345\n")) < 24
        sockets.close_all()


async def test_a_closed_socket_is_gone_with_its_folder_and_its_connections(tmp_path: Path) -> None:
    async with serving(Echo("a"), free_port()) as url:
        sockets = ServerSockets((url,))
        folder = tmp_path / ("long" * 40) / "own"  # longer than a socket's own path may be
        folder.parent.mkdir()
        sockets.open(str(folder))
        directory = os.open(folder, os.O_PATH)
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{NAME}")
        os.close(directory)
        writer.write(b"x\n")
        assert await reader.readline() == b"a x\n"
        sockets.close(str(folder))
        sockets.close("never opened")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.read() == b""
            while folder.exists():
                await asyncio.sleep(0.01)


def test_a_folder_that_exists_is_an_error_of_the_system(tmp_path: Path) -> None:
    sockets = ServerSockets(("http://127.0.0.1:1",))
    with pytest.raises(FileExistsError):
        sockets.open(str(tmp_path))
    with socket.socket(socket.AF_UNIX) as plug, pytest.raises(FileNotFoundError):
        plug.connect(str(tmp_path / NAME))
