"""The proxy through which an engine pulls one image: every connection goes to an address that was resolved and judged.

An engine resolves names itself, follows redirects and asks token servers that a registry names. Through this proxy it
can only reach public addresses, on the usual ports; others if the operator listed the host and allows private ones.
The proxy listens on the loopback address, for one pull, and only serves requests with its random password.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import secrets
from types import TracebackType
from urllib.parse import urlsplit

from rota.execute.images.registries import USUAL_PORTS, Host, Registries
from rota.model.units import bytes_text
from rota.public_addresses import ForbiddenTarget, Resolve, Unresolved, judged_address

_USER = "rota"
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_DROPPED = ("proxy-", "connection:", "keep-alive:")  # headers between the engine and this proxy


class _Refused(Exception):
    """The engine gets `status`; the text is for the operator."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class PullProxy:
    """`async with PullProxy(…) as proxy`: listens until the end of the block."""

    def __init__(self, registries: Registries, *, resolving: Resolve, limit_bytes: int) -> None:
        self._registries = registries
        self._resolving = resolving
        self._limit_bytes = limit_bytes
        self._password = secrets.token_urlsafe(16)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.received_bytes = 0
        self.troubles: list[str] = []  # why connections failed, for the operator

    async def __aenter__(self) -> PullProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{_USER}:{self._password}@127.0.0.1:{port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="a pull's connection")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            try:
                await self._forward(reader, writer)
            except _Refused as refusal:
                self.troubles.append(str(refusal))
                writer.write(f"HTTP/1.1 {refusal.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (TimeoutError, asyncio.LimitOverrunError):
            raise _Refused("400 Bad Request", "the engine sent no request") from None
        request, *headers = head.split("\r\n")[:-2]
        self._check_password(headers)
        method, target, version = _words(request)
        host, path = _tunnelled(target) if method == "CONNECT" else _plain(target)
        there, upstream = await self._connect(host)
        with contextlib.closing(upstream):
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = [line for line in headers if not line.lower().startswith(_DROPPED)]
                lines = [f"{method} {path} {version}", *kept, "Connection: close", "", ""]
                upstream.write("\r\n".join(lines).encode("latin-1"))
            sending = asyncio.get_running_loop().create_task(_copy(reader, upstream))
            try:
                await self._receive(there, writer)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    def _check_password(self, headers: list[str]) -> None:
        wanted = "Basic " + base64.b64encode(f"{_USER}:{self._password}".encode()).decode()
        given = [line.partition(":")[2].strip() for line in headers if line.lower().startswith("proxy-authorization:")]
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(), wanted.encode()):
            raise _Refused("407 Proxy Authentication Required", "a request without the proxy's password")

    async def _connect(self, host: Host) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        is_listed = self._registries.lists(host)
        if host.port not in USUAL_PORTS and not is_listed:
            raise _Refused("403 Forbidden", f"{host}: another port than 443 and 80, and not a listed registry")
        try:
            address = await judged_address(
                host.name, host.port, private=is_listed and self._registries.private, resolving=self._resolving
            )
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(address, host.port)
        except ForbiddenTarget as error:
            raise _Refused("403 Forbidden", f"{error}; --private-registries allows it for listed registries") from None
        except Unresolved as error:
            raise _Refused("502 Bad Gateway", str(error)) from None
        except TimeoutError:
            raise _Refused("504 Gateway Timeout", f"{host} ({address}) did not answer") from None
        except OSError as error:
            raise _Refused("502 Bad Gateway", f"{host}: {error.strerror or error}") from None

    async def _receive(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(_PIECE_BYTES):
            self.received_bytes += len(piece)
            if self.received_bytes > self._limit_bytes:
                self.troubles.append(f"it is larger than {bytes_text(self._limit_bytes)}; --image-limit allows more")
                return
            target.write(piece)
            await target.drain()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE_BYTES):
        target.write(piece)
        await target.drain()


def _words(request: str) -> tuple[str, str, str]:
    parts = request.split(" ")
    if len(parts) != 3:
        raise _Refused("400 Bad Request", "the engine sent no HTTP request")
    return parts[0], parts[1], parts[2]


def _tunnelled(target: str) -> tuple[Host, str]:
    try:
        parts = urlsplit(f"//{target}")
        return Host(parts.hostname or "", parts.port or 0), ""
    except ValueError:
        raise _Refused("400 Bad Request", f"{target[:80]!r} is not HOST:PORT") from None


def _plain(target: str) -> tuple[Host, str]:
    """For registries without TLS, which the engine's own configuration must allow."""
    try:
        parts = urlsplit(target)
        host = Host(parts.hostname or "", parts.port or 80)
    except ValueError:
        raise _Refused("400 Bad Request", f"{target[:80]!r} is not a URL") from None
    if parts.scheme != "http":
        raise _Refused("400 Bad Request", f"{target[:80]!r} is not http")
    return host, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
