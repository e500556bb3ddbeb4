"""The chaos proxy does what fault tests believe it does."""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.harness.proxy import Proxy


class _Echo(socketserver.BaseRequestHandler):
    """Answers every piece with itself in capitals."""

    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data.upper())


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Proxy(server.server_address[1]) as running:
            yield running
        server.shutdown()


def _connect(proxy: Proxy) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port))
    connection.settimeout(5)
    return connection


def _ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(65536)


def _is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)
    return False


def test_bytes_go_both_ways(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        assert _ask(connection, b"hello") == b"HELLO"


def test_a_cut_resets_what_is_connected_and_what_tries(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        assert _ask(connection, b"hello") == b"HELLO"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            _ask(connection, b"again")
    with _connect(proxy) as connection, pytest.raises(ConnectionResetError):
        _ask(connection, b"again")
    proxy.heal()
    with _connect(proxy) as connection:
        assert _ask(connection, b"hello") == b"HELLO"


def test_a_black_hole_holds_everything_back_until_it_is_healed(proxy: Proxy) -> None:
    with _connect(proxy) as old, _connect(proxy) as other:
        assert _ask(old, b"hello") == b"HELLO"
        assert _ask(other, b"hello") == b"HELLO"
        proxy.blackhole()
        with _connect(proxy) as new:
            for connection in (old, new):
                connection.sendall(b"anybody")
                assert _is_silent(connection)
            proxy.heal()
            assert old.recv(100) == new.recv(100) == b"ANYBODY"


def test_a_black_hole_can_be_for_one_process_alone(proxy: Proxy) -> None:
    program = f"""
import socket, sys
connection = socket.create_connection(("127.0.0.1", {proxy.port}))
for line in sys.stdin:
    connection.sendall(line.encode())
    print(connection.recv(100).decode(), end="", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        print("one", file=other.stdin)
        assert other.stdout.readline() == "ONE\n"
        with _connect(proxy) as mine:
            assert _ask(mine, b"hello") == b"HELLO"
            proxy.blackhole(of=os.getpid())
            mine.sendall(b"anybody")
            print("two", file=other.stdin)
            assert other.stdout.readline() == "TWO\n"
            assert _is_silent(mine)
            proxy.heal()
            assert mine.recv(100) == b"ANYBODY"
        other.stdin.close()


def test_a_stranded_connection_is_dead_for_ever_and_a_new_one_works(proxy: Proxy) -> None:
    with _connect(proxy) as old:
        assert _ask(old, b"hello") == b"HELLO"
        proxy.strand()
        old.sendall(b"anybody")
        proxy.heal()
        assert _is_silent(old)
        with _connect(proxy) as new:
            assert _ask(new, b"hello") == b"HELLO"


def test_a_swallowed_reply_is_a_reset_after_the_server_has_answered(proxy: Proxy) -> None:
    trap = proxy.swallow_reply(after=b"commit\0", times=2)
    for _ in range(2):
        with _connect(proxy) as connection:
            assert _ask(connection, b"begin\0") == b"BEGIN\0"
            with pytest.raises(ConnectionResetError):
                _ask(connection, b"commit\0")
    trap.wait(2)
    with _connect(proxy) as connection:
        assert _ask(connection, b"commit\0") == b"COMMIT\0"


@pytest.mark.parametrize("forward", [True, False])
def test_something_can_happen_just_when_the_server_says_a_word(proxy: Proxy, forward: bool) -> None:
    happened = threading.Event()
    trap = proxy.when_server_says(b"START", happened.set, forward=forward)
    with _connect(proxy) as connection:
        assert _ask(connection, b"hello") == b"HELLO"
        connection.sendall(b"start")
        trap.wait()
        assert happened.is_set()
        if forward:
            assert connection.recv(100) == b"START"
        else:
            assert _is_silent(connection)


def test_what_was_recorded_can_be_said_again(proxy: Proxy) -> None:
    proxy.record(b"START")
    with _connect(proxy) as old:
        assert _ask(old, b"start 1") == b"START 1"
        assert _ask(old, b"other") == b"OTHER"
    with _connect(proxy) as new:
        assert _ask(new, b"hello") == b"HELLO"
        assert proxy.replay() == 1
        assert new.recv(100) == b"START 1"
