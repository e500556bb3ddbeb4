"""Accepts connections that begin with a TLS handshake, which is bounded like the headers of a request.

uvicorn would let any number of clients take a minute each for a handshake, and not count them. Here a connection
counts before its first byte, makes room like one that waits for a request, and ends if its handshake takes longer than
a request's headers may. The certificate is that of the moment, so a renewed one needs no restart.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import structlog

from rota.server.certificate import Certificate
from rota.server.connections import Connections
from rota.server.http_protocol import BoundedHttp

log = structlog.get_logger()

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM_SECONDS = 0.5  # until connections have ended


class EncryptedHttp(BoundedHttp):
    """A connection after its handshake. `counted`: called at its beginning, when it counts as one of HTTP."""

    def __init__(self, *arguments: Any, counted: Callable[[], None], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._counted = counted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._counted()
        super().connection_made(transport)


class EncryptedListener:
    """Has the methods of `asyncio.Server` that uvicorn calls."""

    def __init__(
        self,
        listener: socket.socket,
        certificate: Certificate,
        connections: Connections,
        make: Callable[[Callable[[], None]], EncryptedHttp],
    ) -> None:
        self._listener = listener
        self._certificate = certificate
        self._connections = connections
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = self._loop.create_task(self._accept(), name="accept")

    def close(self) -> None:
        """Takes no further connections, and ends those that are not encrypted yet."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                plug, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                is_full = error.errno in _NO_ROOM
                if is_full:
                    self._connections.note("no-room", self._loop.time(), why=str(error))
                await asyncio.sleep(_NO_ROOM_SECONDS if is_full else 0)  # else it was given up before we took it
                continue
            shaking = _Handshake(plug, str(address[0]), self._connections)
            task = self._loop.create_task(self._encrypt(shaking), name="tls handshake")
            shaking.task = task
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            await asyncio.sleep(0)  # a crowd at the door must not keep those who are in from being served

    async def _encrypt(self, shaking: _Handshake) -> None:
        limits = self._connections.limits
        if not shaking.enter(self._loop.time()):
            shaking.plug.close()
            return
        try:
            shaking.plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: self._make(shaking.leave),
                shaking.plug,
                ssl=self._certificate.context,
                ssl_handshake_timeout=limits.header_seconds,
                ssl_shutdown_timeout=limits.stall_seconds,
            )
        except OSError as error:  # also of TLS, and a time-out
            self._connections.note("tls-handshake", self._loop.time(), why=str(error)[:200])
        finally:
            shaking.leave()


class _Handshake:
    """One connection until it is encrypted, as `Connections` sees it."""

    def __init__(self, plug: socket.socket, address: str, connections: Connections) -> None:
        self.plug = plug
        self.task: asyncio.Task[None] | None = None
        self._address = address
        self._connections = connections

    def enter(self, now: float) -> bool:
        """False: there is no room for it."""
        fault = self._connections.enter(self, self._address)
        if fault is not None:
            self._connections.note("refused", now, address=self._address, why=fault)
            return False
        self._connections.waits(self, self)
        return True

    def leave(self) -> None:
        self._connections.works(self)
        self._connections.leave(self)

    def end(self) -> None:
        """To make room for another connection."""
        if self.task is not None:
            self.task.cancel()
