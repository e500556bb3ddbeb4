"""Below JSON: bodies too large, too slow or cut short, broken framing, and odd addresses."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import Request

from rota.api import requests
from rota.model.errors import Problem
from tests.api.served import Said, Served, problem


def _talk(served: Served, data: bytes) -> bytes:
    """Sends bytes as they are; what comes back until the server closes the connection."""
    address = urlsplit(served.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=20) as connection:
        connection.sendall(data)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def _head(served: Served, *lines: str, method: str = "POST", path: str = "/v1/tasks") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "host: rota", f"authorization: Bearer {served.tokens['admin']}",
            "content-type: application/json", *lines]  # fmt: skip
    return ("\r\n".join(head) + "\r\n\r\n").encode()


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# ---- row 3: too large ------------------------------------------------------------------------------------------------


def test_a_body_declared_too_large_is_refused_before_it_is_sent(served: Served) -> None:
    answer = _talk(served, _head(served, "content-length: 999999999999", "connection: close"))
    assert _status(answer) == 413
    assert b"payload-too-large" in answer
    assert b"the body may have at most 33,554,432 bytes" in answer


def test_a_streamed_body_is_refused_when_it_becomes_too_large(served: Served) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * 4096

    answer = served.send("POST", "/v1/tokens", endless(), token=served.tokens["admin"])
    assert problem(answer) == Said(413, "payload-too-large")


@pytest.mark.parametrize("path", ["/v1/tokens", "/v1/tenants", "/v1/dead/requeue", "/v1/tasks/cancel"])
def test_small_routes_have_small_limits_inflated_too(served: Served, path: str) -> None:
    bomb = gzip.compress(b" " * (5 * 1024 * 1024))
    answer = served.send("POST", path, bomb, token=served.tokens["admin"], headers={"content-encoding": "gzip"})
    assert problem(answer) == Said(413, "payload-too-large")


# ---- row 5: too slow, cut short ------------------------------------------------------------------------------------


def _request(*messages: dict[str, object]) -> Request:
    """A request whose body arrives in these pieces and then no more."""
    pieces = list(messages)

    async def receive() -> dict[str, object]:
        if pieces:
            return pieces.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [(b"content-length", b"9")]}
    return Request(scope, receive)  # type: ignore[arg-type]


async def test_a_body_that_does_not_arrive_in_time_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)
    with pytest.raises(Problem) as slow:
        await requests.read_body(_request({"type": "http.request", "body": b"{", "more_body": True}), limit=100)
    assert (slow.value.status, slow.value.slug) == (408, "request-timeout")


async def test_a_body_that_is_cut_short_is_408() -> None:
    with pytest.raises(Problem) as short:
        await requests.read_body(
            _request({"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}), limit=100
        )
    assert (short.value.status, short.value.slug) == (408, "request-timeout")


async def test_large_bodies_are_refused_while_too_much_of_others_is_on_its_way_and_small_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MOST_ARRIVING", 250_000)
    slow = asyncio.create_task(requests.read_body(_request(_piece(200_000)), limit=10**6))
    while not requests._arriving.total:
        await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await requests.read_body(_request(_piece(60_000), _piece(40_000, last=True)), limit=10**6)
    assert (refused.value.status, refused.value.slug) == (503, "unavailable")
    small = await requests.read_body(_request(_piece(60_000, last=True)), limit=10**6)
    assert len(small) == 60_000
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert requests._arriving.total == 0
    assert len(await requests.read_body(_request(_piece(200_000, last=True)), limit=10**6)) == 200_000


def _piece(size: int, *, last: bool = False) -> dict[str, object]:
    return {"type": "http.request", "body": b" " * size, "more_body": not last}


def test_a_connection_that_closes_in_the_middle_of_a_body_stores_nothing_and_hurts_nobody(served: Served) -> None:
    before = served.stored()
    address = urlsplit(served.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=20) as connection:
        connection.sendall(_head(served, "content-length: 100") + b'{"command":["tr')
    assert served.send("GET", "/healthz", token=None).status_code == 200
    assert served.stored() == before


# ---- row 47: framing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: 2", "transfer-encoding: chunked"),
        ("content-length: 2", "content-length: 3"),
        ("content-length: -1",),
        ("content-length: 2x",),
        ("x-odd: a\rb",),
        ("x-odd : a",),
        ("transfer-encoding: chunked, identity",),
    ],
)
def test_broken_framing_is_400_and_the_connection_is_closed(served: Served, lines: tuple[str, ...]) -> None:
    before = served.stored()
    answer = _talk(served, _head(served, *lines) + b"{}")
    assert _status(answer) == 400
    assert answer.count(b"HTTP/1.1") == 1, "nothing behind it was taken for a second request"
    assert served.stored() == before


@pytest.mark.parametrize("path", ["/v1/tasks/%00", "/v1/tasks/1%00", "/%00", "/v1/plans/a%00b"])
def test_nul_in_a_path_is_400_and_the_connection_is_closed(served: Served, path: str) -> None:
    answer = _talk(served, _head(served, "content-length: 0", method="GET", path=path))
    assert _status(answer) == 400
    assert b"application/problem+json" in answer


@pytest.mark.parametrize(
    "path", ["/v1/tasks/../tokens", "/v1//tasks", "/v1/tasks/", "/v1/tasks/1/../2", "/v1/tasks/%2e%2e"]
)
def test_crooked_paths_lead_nowhere(served: Served, path: str) -> None:
    answer = _talk(served, _head(served, "content-length: 0", "connection: close", method="GET", path=path))
    assert _status(answer) in (307, 404)


def test_a_line_that_is_not_http_is_400(served: Served) -> None:
    assert _status(_talk(served, b"EHLO rota\r\n\r\n")) == 400
