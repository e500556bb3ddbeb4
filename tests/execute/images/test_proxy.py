"""Where the connections of a pull may go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import httpx
import pytest

from rota.execute.images.proxy import PullProxy
from rota.execute.images.registries import Registries
from rota.public_addresses import Resolve, Unresolved


class Upstream:
    """A server on the loopback address that counts connections."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000)
            await writer.drain()
        writer.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    async with await asyncio.start_server(upstream.serve, "127.0.0.1", 0) as server:
        upstream.port = server.sockets[0].getsockname()[1]
        yield upstream


def resolving(*answers: str) -> Resolve:
    """One answer after the other, the last for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return [left.pop(0) if len(left) > 1 else left[0]]

    return resolve


async def get(proxy: PullProxy, url: str) -> httpx.Response:
    async with httpx.AsyncClient(proxy=proxy.url, trust_env=False, timeout=10) as http:
        return await http.get(url)


async def tunnel(proxy: PullProxy, target: str) -> bytes:
    """The first line that the proxy answers to CONNECT."""
    parts = urlsplit(proxy.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    credentials = httpx.BasicAuth(parts.username or "", parts.password or "")._auth_header
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: {credentials}\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line.strip()


def listed(upstream: Upstream, *, private: bool) -> Registries:
    return Registries(listed=(f"reg.test:{upstream.port}",), private=private)


async def test_a_listed_registry_is_reached_at_its_judged_address(upstream: Upstream) -> None:
    async with PullProxy(listed(upstream, private=True), resolving=resolving("127.0.0.1"), limit_bytes=10_000) as proxy:
        answer = await get(proxy, f"http://reg.test:{upstream.port}/v2/?a=b")
        assert (answer.status_code, len(answer.content)) == (200, 2000)
        assert await tunnel(proxy, f"reg.test:{upstream.port}") == b"HTTP/1.1 200 Connection established"
    head = upstream.heads[0].decode()
    assert head.startswith("GET /v2/?a=b HTTP/1.1\r\n")
    assert f"Host: reg.test:{upstream.port}" in head
    assert "proxy-authorization" not in head.lower()
    assert proxy.received_bytes > 2000
    assert proxy.troubles == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.5", "::1", "::ffff:127.0.0.1", "0.0.0.0"])
async def test_an_address_that_is_not_public_is_refused_unless_private_ones_are_allowed(
    upstream: Upstream, address: str
) -> None:
    registries = listed(upstream, private=False)
    async with PullProxy(registries, resolving=resolving(address), limit_bytes=10_000) as proxy:
        assert (await get(proxy, f"http://reg.test:{upstream.port}/v2/")).status_code == 403
        assert await tunnel(proxy, f"reg.test:{upstream.port}") == b"HTTP/1.1 403 Forbidden"
    assert upstream.connections == 0
    assert "reg.test is not a public address; --private-registries" in proxy.troubles[0]


async def test_a_redirect_to_a_host_that_is_not_listed_reaches_public_addresses_only(upstream: Upstream) -> None:
    """Even if listed registries may be private."""
    registries = listed(upstream, private=True)
    async with PullProxy(registries, resolving=resolving("127.0.0.1"), limit_bytes=10_000) as proxy:
        assert await tunnel(proxy, "other.test:443") == b"HTTP/1.1 403 Forbidden"
        assert await tunnel(proxy, "169.254.169.254:80") == b"HTTP/1.1 403 Forbidden"
        assert await tunnel(proxy, f"other.test:{upstream.port}") == b"HTTP/1.1 403 Forbidden"
    assert upstream.connections == 0
    assert "another port than 443 and 80" in proxy.troubles[2]


async def test_what_is_judged_is_what_is_connected_to(upstream: Upstream) -> None:
    """A name is resolved once for each connection, and all its addresses are judged."""
    asked: list[str] = []
    answers = [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]]

    async def changing(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    async with PullProxy(listed(upstream, private=True), resolving=changing, limit_bytes=10_000) as proxy:
        assert (await get(proxy, f"http://reg.test:{upstream.port}/v2/")).status_code == 200
        assert await tunnel(proxy, "other.test:443") == b"HTTP/1.1 403 Forbidden"
    assert asked == ["reg.test", "other.test"]
    assert upstream.connections == 1


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("CONNECT reg.test HTTP/1.1", "403"),
        ("CONNECT :0 HTTP/1.1", "403"),
        ("CONNECT [::1 HTTP/1.1", "400"),
        ("GET / HTTP/1.1", "400"),
        ("GET https://reg.test/ HTTP/1.1", "400"),
        ("GET file:///etc/passwd HTTP/1.1", "400"),
        ("nonsense", "400"),
    ],
)
async def test_a_request_that_is_none_gets_an_error_and_no_connection(
    upstream: Upstream, request_line: str, status: str
) -> None:
    async with PullProxy(listed(upstream, private=True), resolving=resolving("127.0.0.1"), limit_bytes=100) as proxy:
        parts = urlsplit(proxy.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        credentials = httpx.BasicAuth(parts.username or "", parts.password or "")._auth_header
        writer.write(f"{request_line}\r\nProxy-Authorization: {credentials}\r\n\r\n".encode())
        assert (await reader.readline()).split()[1] == status.encode()
        writer.close()
    assert upstream.connections == 0


async def test_only_the_engine_that_knows_the_password_is_served(upstream: Upstream) -> None:
    async with PullProxy(listed(upstream, private=True), resolving=resolving("127.0.0.1"), limit_bytes=100) as proxy:
        parts = urlsplit(proxy.url)
        for user in ("", "rota:guessed@"):
            async with httpx.AsyncClient(proxy=f"http://{user}127.0.0.1:{parts.port}", trust_env=False) as http:
                assert (await http.get(f"http://reg.test:{upstream.port}/")).status_code == 407
    assert upstream.connections == 0


async def test_more_than_the_limit_is_not_received(upstream: Upstream) -> None:
    async with PullProxy(listed(upstream, private=True), resolving=resolving("127.0.0.1"), limit_bytes=100) as proxy:
        with pytest.raises(httpx.RemoteProtocolError):
            await get(proxy, f"http://reg.test:{upstream.port}/")
    assert proxy.troubles == ["it is larger than 100; --image-limit allows more"]


async def test_a_name_that_can_not_be_resolved_and_a_closed_port_are_told_to_the_operator(
    upstream: Upstream, unused_tcp_port: int
) -> None:
    async def nothing(host: str, port: int) -> list[str]:
        raise Unresolved(f"{host} can't be resolved: no such name")

    cases: list[tuple[Resolve, Callable[[str], bool]]] = [
        (nothing, lambda text: "can't be resolved" in text),
        (resolving("127.0.0.1"), lambda text: "refused" in text.lower() or "Connect call failed" in text),
    ]
    registries = Registries(listed=(f"reg.test:{unused_tcp_port}",), private=True)
    for resolve, is_told in cases:
        async with PullProxy(registries, resolving=resolve, limit_bytes=100) as proxy:
            assert await tunnel(proxy, f"reg.test:{unused_tcp_port}") == b"HTTP/1.1 502 Bad Gateway"
            assert is_told(proxy.troubles[0]), proxy.troubles
