"""Sockets through which tasks without a network reach a server node, and nothing else.

A task that may submit needs a server's address. One that sees the node's network gets the addresses themselves. Any
other gets a Unix socket, alone in a folder that its sandbox shows at `SEEN_AT`; the agent passes bytes between the
socket and a server node, unread, and goes on to the next node when one fails. Nothing of the agent's own travels with
them: what a request may do is up to the key that it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from urllib.parse import urlsplit

import structlog

from rota import keepalive, tls
from rota.execute.linux import work_folder
from rota.servers import Servers

log = structlog.get_logger()

SEEN_AT = "/run/rota"  # where a sandbox or a container shows the folder
NAME = "server"  # of the socket in it
SEEN_ADDRESS = f"http+unix:{SEEN_AT}/{NAME}"

MOST_CONNECTIONS = 32  # of one socket; further ones are closed at once
MOST_BYTES = 256 * 1024 * 1024  # through one connection
_PIECE_BYTES = 64 * 1024
_CONNECT_SECONDS = 2.0
_BACKLOG = 64
_UNREACHABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_PROBLEM = (
    b'{"type":"https://rota.dev/problems/unavailable","title":"Unavailable","status":503,'
    b'"detail":"this node reaches no server node right now; try again"}'
)

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ServerSockets:
    """All sockets of this agent, by the folder that holds each."""

    def __init__(self, servers: tuple[str, ...]) -> None:
        self._servers = Servers(servers)
        self._count = len(servers)
        self._open: dict[str, asyncio.Task[None]] = {}
        self._removals: set[asyncio.Task[None]] = set()

    def open(self, folder: str) -> None:
        """Makes the folder with a socket that takes connections from now on. OSError if it can't be made."""
        os.mkdir(folder, 0o755)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{directory}/{NAME}"  # a socket's own path may have no more than 107 bytes
            listener.bind(path)
            # The task has a user number of its own. Nobody else can follow the path to it, and a key is needed.
            os.chmod(path, 0o666)
            os.chmod(folder, 0o755)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        finally:
            os.close(directory)
        self._open[folder] = asyncio.get_running_loop().create_task(self._serve(listener), name="server socket")

    def close(self, folder: str) -> None:
        """Ends all connections and removes the folder; nothing happens if none was opened."""
        serving = self._open.pop(folder, None)
        if serving is not None:
            serving.cancel()
            removal = asyncio.get_running_loop().create_task(_remove(folder), name="remove a server socket")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    def close_all(self) -> None:
        """The agent ends; the next one removes the folders."""
        for serving in self._open.values():
            serving.cancel()
        self._open.clear()

    async def _serve(self, listener: socket.socket) -> None:
        connections: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(connections) >= MOST_CONNECTIONS:
                writer.transport.abort()
                return
            passing = asyncio.get_running_loop().create_task(self._pass_on((reader, writer)), name="pass on")
            connections.add(passing)
            passing.add_done_callback(connections.discard)

        server = await asyncio.start_unix_server(accepted, sock=listener, limit=_PIECE_BYTES)
        try:
            await server.serve_forever()
        finally:
            server.close()
            for passing in connections:
                passing.cancel()

    async def _pass_on(self, task: Stream) -> None:
        """One connection of a task, until either side closes it."""
        try:
            server = await self._connect()
            if server is None:
                task[1].write(_UNREACHABLE % (len(_PROBLEM), _PROBLEM))
                await task[1].drain()
                return
            try:
                ways = [
                    asyncio.ensure_future(_copy(task[0], server[1])),
                    asyncio.ensure_future(_copy(server[0], task[1])),
                ]
                try:
                    # A task may close its sending side early, but a server that has closed says nothing more.
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    if not ways[1].done() and ways[0].exception() is None:
                        await asyncio.wait([ways[1]])
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                server[1].close()
        except OSError:
            return  # either side is gone: the other one sees the end of its connection
        finally:
            task[1].close()

    async def _connect(self) -> Stream | None:
        """The current server, else the next one that takes the connection; None: none does."""
        for _ in range(self._count):
            url = urlsplit(self._servers.current)
            secure = url.scheme == "https"
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    stream = await asyncio.open_connection(
                        url.hostname,
                        url.port or (443 if secure else 80),
                        limit=_PIECE_BYTES,
                        ssl=tls.trusted_at(self._servers.current),
                    )
            except OSError as error:  # a time-out is one
                log.info(
                    "a server does not answer a task",
                    server=self._servers.current,
                    why=(tls.explain(error, self._servers.current) or str(error))[:200],
                )
                self._servers.advance()
                continue
            keepalive.DEFAULT.apply(stream[1].get_extra_info("socket"))
            return stream
        return None


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    left = MOST_BYTES
    while left > 0 and (piece := await source.read(min(left, _PIECE_BYTES))):
        left -= len(piece)
        target.write(piece)
        await target.drain()  # no more than a piece or two is ever in memory
    if target.can_write_eof():
        with contextlib.suppress(OSError):
            target.write_eof()


async def _remove(folder: str) -> None:
    if not await asyncio.to_thread(work_folder.remove, folder):
        log.error("the folder of a server socket could not be removed", folder=folder)
