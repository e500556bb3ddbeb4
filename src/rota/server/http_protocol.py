"""HTTP connections that can't be kept open at no cost: uvicorn's protocol with bounds on time, bytes and number.

uvicorn gives a client all the time it wants for its headers and for reading answers. Here a request's head must end
within a time and a size, an answer must be read at a least rate, and a body that is no longer of interest must end
soon. Bodies that are read are timed where they are read (`api/requests.py`, `api/content.py`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from rota.api.problems import problem_response
from rota.keepalive import Keepalive
from rota.model.errors import Problem, unavailable
from rota.server.certificate import Certificate
from rota.server.connections import Connections
from rota.wire import MAX_FRAME_BYTES

SLOWEST_BYTES_PER_SECOND = 512  # of a reader


class HttpConfig(uvicorn.Config):
    """uvicorn's configuration, and what its connections share."""

    def __init__(
        self,
        app: ASGIApp,
        connections: Connections,
        keepalive: Keepalive,
        *,
        certificate: Certificate | None = None,
    ) -> None:
        self.connections = connections
        self.keepalive = keepalive
        self.certificate = certificate
        super().__init__(
            app,
            loop="none",
            http=BoundedHttp,
            ws=AgentWebSocket,
            ws_per_message_deflate=False,
            ws_max_size=MAX_FRAME_BYTES,
            ws_ping_interval=None,
            ws_ping_timeout=None,
            lifespan="off",
            log_config=None,  # the process decides where its log goes
            log_level="warning",
            access_log=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=3,
            server_header=False,
            proxy_headers=False,
        )


class BoundedHttp(HttpToolsProtocol):
    """One connection. `_in_head`: the next byte belongs to the head of a request, or would begin one."""

    config: HttpConfig

    def __init__(self, config: HttpConfig, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self._connections = config.connections
        self._limits = config.connections.limits
        self._in_head = True
        self._has_begun = self._has_ended = False  # a request: it has begun, one has ended among the last bytes
        self._head_bytes = 0
        self._is_upgraded = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        fault = self._connections.enter(transport, address)
        if fault is not None:
            self._connections.note("refused", self.loop.time(), address=address, why=fault)
            self._refuse(unavailable(fault, 5.0))
            return
        self._connections.waits(self, transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        self._unset_keepalive_if_required()
        self._connections.works(self)
        self._connections.leave(self.transport)
        super().connection_lost(exc)

    def end(self) -> None:
        self.transport.abort()

    # ---- heads -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # refused, and what was on its way is of no interest
        self._has_ended = False
        super().data_received(data)
        if not self._in_head or self._is_upgraded or self.transport.is_closing():
            return
        if not self._has_ended:  # else only the last of these bytes begin the next head, if any does
            self._head_bytes += len(data)
        elif not self._has_begun:
            return
        if self._head_bytes > self._limits.header_bytes:
            self._connections.note("head-too-large")
            self._refuse(_head_too_large(self._limits.header_bytes))
        elif self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        self._connections.works(self)
        self._in_head = False
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.header_bytes:
            self._connections.note("head-too-large")
            self.app = _Refusing(_head_too_large(self._limits.header_bytes))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_head_timer()
        self._in_head = self._has_ended = True
        self._has_begun = False
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_read_timer()  # closed as soon as the answer is read
            return
        if not self.pipeline:
            self._connections.waits(self, self.transport)
        if not self._in_head:
            self._start_head_timer()  # the rest of a body that nobody reads any more

    def handle_websocket_upgrade(self) -> None:
        if isinstance(self.app, _Refusing):
            self._refuse(self.app.problem)
            return
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def _start_head_timer(self) -> None:
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(self._limits.header_seconds, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_head_timer()  # an answer is under way, and its client has begun the next request too early
            return
        self._connections.note("head-too-slow")
        if self._in_head and (self._head_bytes or self._has_begun):
            seconds = self._limits.header_seconds
            detail = f"the headers did not arrive within {seconds:g} s"
            self._refuse(Problem("request-timeout", status=408, title="Too slow", detail=detail))
        else:
            self._close()

    # ---- answers -----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connections.unread(self, self.transport.get_write_buffer_size())
        self._start_read_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_timer()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _close(self) -> None:
        """In order; but an answer that is not read yet is waited for only as long as its reader makes progress."""
        if not self.transport.is_closing():
            self.transport.close()
        self._start_read_timer()

    def _start_read_timer(self) -> None:
        size = self.transport.get_write_buffer_size()
        if self._read_timer is None and size:
            self._unread_bytes = size
            self._read_timer = self.loop.call_later(self._limits.stall_seconds, self._check_reader)

    def _stop_read_timer(self) -> None:
        self._connections.read(self)
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _check_reader(self) -> None:
        self._read_timer = None
        progress = self._unread_bytes - self.transport.get_write_buffer_size()
        if progress < min(self._unread_bytes, self._limits.stall_seconds * SLOWEST_BYTES_PER_SECOND):
            self._connections.note("reader-too-slow")
            self.end()
        else:
            self._start_read_timer()

    # ---- refusals ----------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        detail = "this is not a valid HTTP request"
        self._refuse(Problem("bad-request", status=400, title="Bad request", detail=detail))

    def _refuse(self, problem: Problem) -> None:
        """Answers without a request, and closes."""
        answer = problem_response(problem)
        lines = [f"HTTP/1.1 {problem.status} {problem.title}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", bytes(answer.body)]))
        self._close()


class AgentWebSocket(WebSocketsSansIOProtocol):
    """A connection of an agent. It carries heartbeats, so a silent peer is a dead one."""

    config: HttpConfig

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.config.keepalive.apply(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.connections.leave(self.transport)
        super().connection_lost(exc)


class _Refusing:
    """An ASGI application that answers with a problem and closes the connection."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem_response(self.problem)
        answer.headers["connection"] = "close"
        await answer(scope, receive, send)


def _head_too_large(limit: int) -> Problem:
    return Problem(
        "headers-too-large",
        status=431,
        title="Request header fields too large",
        detail=f"the address and the headers may have {limit} bytes together",
    )
