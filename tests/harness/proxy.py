"""A chaos proxy for one link: forwards bytes between a client and a server until it is told not to.

Put one between a server node and PostgreSQL (forwarding to its Unix socket), or between workers and a server
node (give the proxy's `url` to the server as `--url`). It runs an event loop in a thread of its own; every
method may be called from the test's thread and has taken effect when it returns. It understands no protocol:
patterns are bytes as they go over the wire, looked for in what arrives in one piece; both our protocols send
small messages that way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CHUNK_BYTES = 256 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, for no time at all


@dataclass(slots=True)
class Trap:
    """Waits for a pattern. `sprung` counts how often it was seen; `wait` waits for that."""

    pattern: bytes
    times: int
    cuts: bool = False  # springing cuts the whole link, too
    sprung: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def is_armed(self) -> bool:
        return self.sprung < self.times

    def spring(self) -> None:
        with self._changed:
            self.sprung += 1
            self._changed.notify_all()

    def wait(self, times: int = 1, *, seconds: float = 20.0) -> None:
        with self._changed:
            seen = self._changed.wait_for(lambda: self.sprung >= times, seconds)
        assert seen, f"{self.pattern!r} was seen {self.sprung} times in {seconds:g} s, not {times}"


@dataclass(slots=True, eq=False)
class Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    open: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.StreamWriter | None = None
    is_swallowing: Trap | None = None
    is_mute: bool = False  # the server's bytes go nowhere from here on

    def reset(self) -> None:
        """Both ends see a reset, and lose what was on its way."""
        for writer in (self.client, self.server):
            if writer is not None:
                plug = writer.get_extra_info("socket")
                if plug is not None and plug.family == socket.AF_INET:
                    with contextlib.suppress(OSError):  # closed already
                        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                writer.transport.abort()

    def close(self) -> None:
        """In order: what was written arrives first."""
        self.client.close()
        if self.server is not None:
            self.server.close()

    def belongs_to(self, pid: int) -> bool:
        """Whether a process holds the client's end: its port's inode is among the process's descriptors."""
        port = self.client.get_extra_info("peername")[1]
        inode = _inode_of(port, self.client.get_extra_info("sockname")[1])
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{name}") == f"socket:[{inode}]":
                        return True
        return False


class Proxy:
    """Use as a context manager. `target` is a port on loopback, or the path of a Unix socket."""

    def __init__(self, target: int | Path) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos proxy", daemon=True)
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._is_dark: Callable[[Link], bool] = _nobody
        self._is_deaf: Callable[[Link], bool] = _nobody
        self._delay_seconds = 0.0
        self._swallow: Trap | None = None
        self._stranding: Trap | None = None
        self._on_reply: tuple[Trap, Callable[[], None], bool] | None = None
        self._recording: bytes | None = None
        self._recorded: list[bytes] = []
        self.port = 0
        self.accepted = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- faults -----------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Every connection is reset, and so is every new one."""

        async def cut() -> None:
            self._cut_all()

        self._do(cut)

    def blackhole(self, *, of: int | None = None) -> None:
        """Nothing is forwarded any more, not even a close; new connections are accepted and get nothing.

        With `of`, only for connections of that process. Bytes on their way arrive after `heal`, as with TCP, on
        connections both ends still hold.
        """

        async def darken() -> None:
            self._is_dark = _everybody if of is None else (lambda link: link.belongs_to(of))
            for link in self._links:
                if self._is_dark(link):
                    link.open.clear()

        self._do(darken)

    def deafen(self, *, of: int) -> None:
        """A process receives nothing more from the server, which still receives from the process; also on new
        connections.

        Bytes sent meanwhile are lost, on those connections also after `heal`.
        """

        async def deafen() -> None:
            self._is_deaf = lambda link: link.belongs_to(of)
            for link in self._links:
                link.is_mute = link.is_mute or self._is_deaf(link)

        self._do(deafen)

    def strand(self) -> None:
        """Connections of this moment are dead for ever: neither data nor a close gets through, nor will it
        after `heal`. New ones are forwarded.
        """

        async def strand() -> None:
            for link in self._links:
                link.open = asyncio.Event()  # one that nobody will ever set
            self._links.clear()

        self._do(strand)

    def strand_after(self, pattern: bytes) -> Trap:
        """Once, when a client sends the pattern: neither it nor anything else gets through on that connection again."""
        self._stranding = Trap(pattern, 1)
        return self._stranding

    def delay(self, seconds: float) -> None:
        """Every piece waits so long before it goes on."""
        self._delay_seconds = seconds

    def heal(self) -> None:
        async def heal() -> None:
            self._is_cut = False
            self._is_dark = self._is_deaf = _nobody
            self._delay_seconds = 0.0
            for link in self._links:
                link.open.set()

        self._do(heal)

    def swallow_reply(self, *, after: bytes, times: int = 1, and_cut: bool = False) -> Trap:
        """When a client sends the pattern, the server gets it and answers; the client gets a reset instead.

        So the server did what it was asked, and the client can't know; with `and_cut`, nor can it ask.
        """
        self._swallow = Trap(after, times, and_cut)
        return self._swallow

    def when_server_says(self, pattern: bytes, action: Callable[[], None], *, forward: bool) -> Trap:
        """Once, when the server sends the pattern: runs `action` in a thread, after (`forward`) passing it on or
        instead of that. Instead means that nothing more from the server gets through on that connection.
        """
        trap = Trap(pattern, 1)
        self._on_reply = (trap, action, forward)
        return trap

    def record(self, pattern: bytes) -> None:
        """Keeps every piece from the server that contains the pattern."""
        self._recording = pattern

    def replay(self) -> int:
        """Sends everything recorded to every client that is connected, once more; how many pieces."""

        async def replay() -> None:
            for link in self._links:
                for data in self._recorded:
                    link.client.write(data)

        self._do(replay)
        return len(self._recorded)

    # ---- forwarding -------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=CHUNK_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        link.open.set()
        if self._is_cut:
            link.reset()
            return
        if self._is_dark(link):
            link.open.clear()
        link.is_mute = self._is_deaf(link)
        self._links.add(link)
        try:
            await link.open.wait()
            server_reader, link.server = await self._connect()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward_requests(link, reader))
                group.create_task(self._forward_replies(link, server_reader))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # either end is gone; so is the other, below
        finally:
            link.close()
            self._links.discard(link)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, int):
            return await asyncio.open_connection("127.0.0.1", self._target, limit=CHUNK_BYTES)
        return await asyncio.open_unix_connection(str(self._target), limit=CHUNK_BYTES)

    async def _forward_requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        assert link.server is not None
        while data := await reader.read(CHUNK_BYTES):
            await self._pass(link)
            trap = self._stranding
            if trap is not None and trap.is_armed and trap.pattern in data:
                trap.spring()
                link.open = asyncio.Event()  # one that nobody will ever set
                self._links.discard(link)
                await link.open.wait()
            trap = self._swallow
            if trap is not None and trap.is_armed and trap.pattern in data:
                link.is_swallowing = trap
            link.server.write(data)
            await link.server.drain()
        await self._pass(link)
        link.server.write_eof()

    async def _forward_replies(self, link: Link, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._pass(link)
            if link.is_swallowing is not None:
                link.reset()
                if link.is_swallowing.cuts:
                    self._cut_all()
                link.is_swallowing.spring()
                return
            if self._recording is not None and self._recording in data:
                self._recorded.append(data)
            trap = self._on_reply
            if trap is not None and trap[0].pattern in data:
                self._on_reply = None
                link.is_mute = not trap[2]
            else:
                trap = None
            if not link.is_mute:
                link.client.write(data)
                await link.client.drain()
            if trap is not None:
                await asyncio.to_thread(trap[1])
                trap[0].spring()
        await self._pass(link)
        link.client.close()
        raise ConnectionResetError("the server closed")

    def _cut_all(self) -> None:
        self._is_cut = True
        for link in self._links:
            link.reset()

    async def _pass(self, link: Link) -> None:
        await link.open.wait()
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)

    # ---- the thread -------------------------------------------------------------------------------------------

    def _do(self, what: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(what(), self._loop).result(10)  # type: ignore[arg-type]

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _everybody(_: Link) -> bool:
    return True


def _nobody(_: Link) -> bool:
    return False


def _inode_of(local_port: int, remote_port: int) -> str:
    """Of the socket with these ports on this machine. A connection just made may take a moment to be listed."""
    for _ in range(100):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            ports = [int(fields[place].rpartition(":")[2], 16) for place in (1, 2)]
            if ports == [local_port, remote_port]:
                return fields[9]
        time.sleep(0.001)
    return "none"
