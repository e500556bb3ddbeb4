"""Slow and greedy HTTP clients, with and without a token: each loses its connection, and nobody else notices."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import httpx
import pytest
from websockets.sync.client import connect

from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

HEADER_SECONDS, STALL_SECONDS = 0.6, 1.0
HEADER_LIMIT = 8 * 1024
PER_ADDRESS = 12
BIG = 24 * 1024 * 1024  # more than the kernel's buffers of a connection hold


@dataclass
class Node:
    cluster: Cluster
    port: int
    artifact: str  # of BIG bytes

    def open(self, *, address: str = "127.0.0.1", data: bytes = b"") -> socket.socket:
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        plug.settimeout(20)
        plug.bind((address, 0))
        plug.connect(("127.0.0.1", self.port))
        plug.sendall(data)
        return plug

    def head(self, line: str, *headers: str) -> bytes:
        token = f"authorization: Bearer {self.cluster.tokens.admin}"
        return ("\r\n".join([f"{line} HTTP/1.1", "host: rota", token, *headers]) + "\r\n\r\n").encode()

    def ended(self, reason: str) -> int:
        """How many connections the node has ended for this reason, by its own count."""
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False).text
        found = re.search(rf'^rota_http_connections_ended_total{{reason="{reason}"}} (\d+)', text, re.MULTILINE)
        return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def node(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("bounds"), time_scale=CALM) as cluster:
        cluster.add_server(
            ROTA_HEADER_TIMEOUT=f"{HEADER_SECONDS * 1000:.0f}ms",
            ROTA_STALL_TIMEOUT=f"{STALL_SECONDS:g}s",
            ROTA_HEADER_LIMIT=f"{HEADER_LIMIT}",
            ROTA_CONNECTIONS="40",
            ROTA_CONNECTIONS_PER_ADDRESS=f"{PER_ADDRESS}",
        )
        headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
        sent = httpx.post(f"{cluster.urls[0]}/v1/artifacts", content=os.urandom(BIG), headers=headers, trust_env=False)
        yield Node(cluster, int(cluster.urls[0].rpartition(":")[2]), sent.raise_for_status().json()["id"])


def _rest(plug: socket.socket) -> bytes:
    """What arrives until the server ends the connection."""
    received = bytearray()
    try:
        while part := plug.recv(256 * 1024):
            received += part
    except ConnectionError:
        pass
    return bytes(received)


def _trickle(plug: socket.socket, piece: bytes) -> bytes:
    """Sends the piece every tenth of a second until the server ends the connection; what it said."""
    plug.settimeout(0.1)
    received = b""
    for _ in range(200):
        try:
            plug.sendall(piece)
            part = plug.recv(65536)
            if not part:
                return received
            received += part
        except TimeoutError:
            continue
        except ConnectionError:
            return received
    raise AssertionError("the connection is still open after 20 s")


def _slug(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    return int(head.split(b" ", 2)[1]), json.loads(body)["type"].rpartition("/")[2]


# ---- heads -----------------------------------------------------------------------------------------------------------


def test_headers_that_never_end_are_408_and_the_connection_is_closed(node: Node) -> None:
    before = node.ended("head-too-slow")
    with node.open(data=b"GET /v1/tasks HTTP/1.1\r\nhost: rota\r\n") as plug:
        assert _slug(_trickle(plug, b"x")) == (408, "request-timeout")
    assert node.ended("head-too-slow") == before + 1


def test_a_connection_that_says_nothing_is_closed(node: Node) -> None:
    with node.open() as plug:
        assert _rest(plug) == b""


def test_empty_lines_keep_no_connection_open(node: Node) -> None:
    with node.open() as fresh:
        assert _slug(_trickle(fresh, b"\r\n")) == (408, "request-timeout")
    with node.open(data=b"GET /healthz HTTP/1.1\r\nhost: rota\r\n\r\n") as used:
        assert _trickle(used, b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["whole", "endless"])
def test_headers_above_the_limit_are_431(node: Node, end: bytes) -> None:
    with node.open(data=b"GET /healthz HTTP/1.1\r\nhost: rota\r\nx: " + b"a" * HEADER_LIMIT + end) as plug:
        assert _slug(_rest(plug)) == (431, "headers-too-large")


def test_an_address_above_the_limit_is_431(node: Node) -> None:
    with node.open(data=b"GET /healthz?" + b"a" * HEADER_LIMIT + b" HTTP/1.1\r\nhost: rota\r\n\r\n") as plug:
        assert _slug(_rest(plug)) == (431, "headers-too-large")


def test_the_headers_of_an_upgrade_have_the_same_limit(node: Node) -> None:
    upgrade = "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: " + "A" * 22
    with node.open(data=node.head("GET /v1/worker/logs", *upgrade, "x: " + "a" * HEADER_LIMIT)) as plug:
        assert _slug(_rest(plug)) == (431, "headers-too-large")


def test_headers_just_below_the_limit_are_taken_again_and_again_on_one_connection(node: Node) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: rota\r\nx: " + b"a" * (HEADER_LIMIT - 100)
    with node.open() as plug:
        for last in (b"", b"", b"\r\nconnection: close"):
            plug.sendall(request + last + b"\r\n\r\n")
        assert _rest(plug).count(b'{"status":"ok"}') == 3


def test_the_next_request_of_a_connection_may_come_later_than_the_time_for_headers(node: Node) -> None:
    with node.open(data=node.head("GET /healthz")) as plug:
        assert plug.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(2):
            with node.open() as silent:
                assert _rest(silent) == b""  # so long a time has passed
        plug.sendall(node.head("GET /healthz", "connection: close"))
        assert b"HTTP/1.1 200" in _rest(plug)  # behind the rest of the first answer


def test_a_head_that_begins_behind_a_request_must_end_too(node: Node) -> None:
    with node.open(data=node.head("GET /healthz") + b"GET /healthz HT") as plug:
        answers = _rest(plug)
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answers


# ---- bodies ----------------------------------------------------------------------------------------------------------


def test_a_body_that_nobody_reads_any_more_must_end_soon(node: Node) -> None:
    with node.open(data=b"POST /v1/tasks HTTP/1.1\r\nhost: rota\r\ncontent-length: 100000\r\n\r\n") as plug:
        assert _trickle(plug, b"x").startswith(b"HTTP/1.1 401")


def test_an_upload_that_trickles_is_408(node: Node) -> None:
    with node.open(data=node.head("POST /v1/artifacts", "content-length: 100000", "connection: close")) as plug:
        assert _slug(_trickle(plug, b"x")) == (408, "request-timeout")


# ---- readers ---------------------------------------------------------------------------------------------------------


def test_an_answer_that_nobody_reads_is_ended_and_one_that_is_read_in_pauses_is_not(node: Node) -> None:
    request = node.head(f"GET /v1/artifacts/{node.artifact}/content", "connection: close")
    before = node.ended("reader-too-slow")
    with node.open(data=request) as stalled, node.open(data=request) as paused:
        received = len(paused.recv(65536))
        # Both have been answered for as long as a reader may stall, and the second reads some of it again and again.
        while node.ended("reader-too-slow") == before:
            for _ in range(16):
                received += len(paused.recv(65536))
        received += len(_rest(paused))
        assert received > BIG
        assert len(_rest(stalled)) < BIG


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_silent_connections_make_room_for_those_that_ask_something(node: Node) -> None:
    silent = [node.open(address="127.0.3.1") for _ in range(3 * PER_ADDRESS)]
    with node.open(address="127.0.3.1", data=node.head("GET /healthz", "connection: close")) as plug:
        assert b'{"status":"ok"}' in _rest(plug)
    for one in silent:
        one.close()


def test_an_address_with_too_many_busy_connections_is_refused_and_another_is_not(node: Node) -> None:
    task = httpx.post(
        f"{node.cluster.urls[0]}/v1/tasks",
        json={"command": ["true"], "delay": "1h"},
        headers={"authorization": f"Bearer {node.cluster.tokens.admin}"},
        trust_env=False,
    ).json()["id"]
    body = json.dumps({"ids": [task], "timeout": 20}).encode()
    ask = node.head("POST /v1/tasks/wait", "content-type: application/json", f"content-length: {len(body)}") + body
    busy = [node.open(address="127.0.3.2", data=ask) for _ in range(PER_ADDRESS)]
    for _ in count():  # until the node has read all of them
        with node.open(address="127.0.3.2", data=node.head("GET /healthz", "connection: close")) as plug:
            answer = _rest(plug)
        if not answer.startswith(b"HTTP/1.1 200"):
            break
    if answer:  # the kernel may drop it, because the node did not read the request
        assert _slug(answer) == (503, "unavailable")
        assert b"retry-after: 5" in answer
    assert node.ended("refused") > 0
    with node.open(address="127.0.3.3", data=node.head("GET /healthz", "connection: close")) as plug:
        assert b'{"status":"ok"}' in _rest(plug)
    for one in busy:
        one.close()


# ---- those that may stay ---------------------------------------------------------------------------------------------


def test_a_connection_of_an_agent_and_a_waiting_client_outlive_these_limits(node: Node) -> None:
    url = f"ws://127.0.0.1:{node.port}/v1/worker/logs"
    headers = {"authorization": f"Bearer {node.cluster.worker_token}"}
    with (
        connect(url, additional_headers=headers, compression=None, proxy=None) as agent,
        ThreadPoolExecutor() as threads,
    ):
        following = threads.submit(_follow_events, node)
        for _ in range(3):
            with node.open() as silent:
                assert _rest(silent) == b""  # so long a time has passed
        agent.ping().wait(10)
        following.result()


def _follow_events(node: Node) -> None:
    """Reads a stream of events on which nothing happens for longer than every limit."""
    with node.open(data=node.head("GET /v1/events?follow=true")) as plug:
        assert plug.recv(65536).startswith(b"HTTP/1.1 200")
        plug.settimeout(2 * STALL_SECONDS)
        try:
            while plug.recv(65536):
                pass
            raise AssertionError("the stream ended")
        except TimeoutError:
            return
