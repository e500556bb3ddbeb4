"""The HTTP server of a node: its listening socket, as many open files as it needs, and uvicorn without its signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from rota.server.certificate import Certificate
from rota.server.connections import Connections
from rota.server.encrypted_listener import EncryptedHttp, EncryptedListener
from rota.server.http_protocol import HttpConfig
from rota.server.trusted_proxies import TrustedProxies
from rota.settings import HttpLimits, Settings

log = structlog.get_logger()

OWN_FILES = 256  # files and connections that are not of HTTP clients: the database, other nodes, objects


class CantListen(Exception):
    """The address is in use, or not this machine's; the message says which."""


class HttpServer(uvicorn.Server):
    """Leaves signals to `node.py`, which decides the order of stopping."""

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        self.connections = config.connections
        self.certificate = config.certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, certificate = self.config, self.certificate
        if certificate is None:
            await super().startup(sockets=sockets)
            return
        await self.lifespan.startup()

        def make(counted: Callable[[], None]) -> EncryptedHttp:
            return EncryptedHttp(config, self.server_state, self.lifespan.state, counted=counted)

        listeners = [EncryptedListener(each, certificate, self.connections, make) for each in sockets or ()]
        self.servers = cast(list[asyncio.base_events.Server], listeners)
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


def http_server(app: ASGIApp, settings: Settings, certificate: Certificate | None = None) -> HttpServer:
    connections = Connections(_within_open_files(settings.http))
    if settings.trusted_proxies:
        app = TrustedProxies(app, settings.trusted_proxies)
    return HttpServer(HttpConfig(app, connections, settings.timings.keepalive, certificate=certificate))


def listen(settings: Settings) -> socket.socket:
    try:
        listener = socket.create_server((settings.host, settings.port), backlog=2048, reuse_port=False)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # below 0: of a name
        raise CantListen(f"can't listen on {settings.host}:{settings.port}: {why}") from error
    settings.timings.keepalive.apply(listener, unread_seconds=settings.http.stall_seconds)
    listener.setblocking(False)
    return listener


def _within_open_files(limits: HttpLimits) -> HttpLimits:
    """Raises this process's limit of open files as far as it may. A connection beyond it could not be refused."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + OWN_FILES
    chosen = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < chosen:
        resource.setrlimit(resource.RLIMIT_NOFILE, (chosen, most))
    possible = max(chosen - OWN_FILES, chosen // 2)
    if possible >= limits.connections:
        return limits
    log.info("http.fewer_connections", open_files=chosen, asked=limits.connections, connections=possible)
    return replace(limits, connections=possible)
