"""Row 48: what an agent's two connections refuse, and with which close code. No worker harms the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from rota import wire
from rota.model.attempt import LogChunk, Outcome
from rota.model.resources import Resources
from tests.api.served import Served

CAPACITY = Resources(cpu_milli=1)  # too small for any task: these agents only talk


def _hello(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "protocol": wire.PROTOCOL, "name": "prober", "boot": 4711, "floor": 0, "capacity": CAPACITY, "labels": {},
        "capabilities": [], "version": "test",
    }  # fmt: skip
    return wire.encode(wire.Hello(**{**fields, **changes}))  # type: ignore[arg-type]


def _open(served: Served, path: str = "/v1/worker/control", token: str = "worker") -> ClientConnection:
    headers = {"Authorization": f"Bearer {served.tokens.get(token, token)}"}
    return connect(served.url.replace("http", "ws") + path, additional_headers=headers, max_size=None, proxy=None)


def _close_code(served: Served, *frames: bytes | str, path: str = "/v1/worker/control") -> int:
    """The code with which the server ends a connection that says this."""
    with _open(served, path) as socket:
        return _code_after(socket, lambda: [socket.send(frame) for frame in frames])


def _code_after(socket: ClientConnection, say: Callable[[], object]) -> int:
    try:
        say()
        while True:
            socket.recv(timeout=60)
    except ConnectionClosed as closed:
        end = closed.rcvd
    assert end is not None, "the server closed in order, with a code"
    return end.code


def _epoch(served: Served) -> int:
    answer = served.send("GET", "/v1/worker/leader", token=served.tokens["worker"])
    return int(answer.json()["epoch"])


@pytest.mark.parametrize("name", ["", "two words", "red\x1b[31m", "two\nlines", "-x", "a/b", "x" * 101])
def test_a_name_that_no_node_can_have_is_refused(served: Served, name: str) -> None:
    assert _close_code(served, _hello(name=name)) == wire.CLOSE_BAD_PROTOCOL


@pytest.mark.parametrize("path", ["/v1/worker/control", "/v1/worker/logs"])
@pytest.mark.parametrize(("token", "status"), [("", 401), ("nonsense", 401), ("member", 403), ("admin", 403)])
def test_a_wrong_credential_is_refused_before_the_upgrade(served: Served, path: str, token: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        _open(served, path, token)
    assert refused.value.response.status_code == status


def test_the_server_speaks_first_and_names_its_epoch(served: Served) -> None:
    with _open(served) as socket:
        welcome = wire.decode_to_agent(bytes(socket.recv(timeout=60)))
    assert isinstance(welcome, wire.Welcome)
    assert (welcome.protocol, welcome.pool, welcome.epoch) == (wire.PROTOCOL, "default", _epoch(served))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (_hello(protocol=0), 4400),
        (_hello(protocol=99), 4400),
        (wire.encode(wire.Heartbeat(1.0, 0)), 4409),
        (wire.encode(wire.Results([wire.Result(1, 1, Outcome.OK, 5)])), 4409),
        (b"\xff\xff not msgpack", 1007),
        (b"", 1007),
        ("text", 1007),
    ],
    ids=["old protocol", "future protocol", "heartbeat first", "results first", "garbage", "empty", "text"],
)  # fmt: skip
def test_a_conversation_that_begins_wrong_ends_with_its_own_code(served: Served, frame: bytes | str, code: int) -> None:
    assert _close_code(served, frame) == code


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (_hello(), 4409),
        (b"\xc1", 1007),
        ("text", 1007),
        (wire.encode(wire.LogBatch(1, [])), 4409),
    ],
    ids=["hello twice", "garbage", "text", "logs on the control connection"],
)
def test_a_conversation_that_goes_wrong_later_ends_with_its_own_code(
    served: Served, frame: bytes | str, code: int
) -> None:
    assert _close_code(served, _hello(name=f"later-{code}-{len(frame)}"), frame) == code


@pytest.mark.parametrize("path", ["/v1/worker/control", "/v1/worker/logs"])
def test_a_message_that_is_too_large_is_refused_at_its_head(served: Served, path: str) -> None:
    size = wire.MAX_FRAME_BYTES + 1
    head = bytes([0x82, 0x80 | 127]) + size.to_bytes(8, "big") + bytes(4)  # binary, masked, so long; nothing follows
    with _open(served, path) as socket:
        assert _code_after(socket, lambda: socket.socket.sendall(head)) == 1009


@pytest.mark.parametrize("floor", [2**62, 2**63 - 1])
def test_an_epoch_from_the_far_future_is_refused_and_leadership_stays_where_it_is(served: Served, floor: int) -> None:
    before = _epoch(served)
    assert _close_code(served, _hello(floor=floor)) == 4400
    assert _epoch(served) == before


def test_two_agents_with_one_name_are_told_apart_and_the_second_refused(served: Served) -> None:
    with _open(served) as first:
        first.send(_hello(name="twin", boot=1))
        while not isinstance(wire.decode_to_agent(bytes(first.recv(timeout=60))), wire.Registered):
            pass
        assert _close_code(served, _hello(name="twin", boot=2)) == 4409


def test_a_pool_that_is_not_led_here_sends_the_agent_on(served: Served) -> None:
    assert _close_code(served, path="/v1/worker/control?pool=nowhere") == 4421


def test_results_and_logs_for_attempts_of_nobody_change_nothing(served: Served) -> None:
    task = served.submit(delay="1h")
    before = served.stored()
    with _open(served) as socket:
        socket.send(_hello(name="liar", boot=99))
        socket.send(wire.encode(wire.Inventory([], [(task, 1)])))
        socket.send(wire.encode(wire.Recalled([(task, 1)])))
        socket.send(
            wire.encode(wire.Results([wire.Result(task, 1, Outcome.OK, 5), wire.Result(2**62, 1, Outcome.OK, 5)]))
        )
        socket.send(wire.encode(wire.Heartbeat(1.0, 0)))
        while not isinstance(frame := wire.decode_to_agent(bytes(socket.recv(timeout=60))), wire.Alive):
            assert not isinstance(frame, wire.Start)
    assert served.stored() == before


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("text", 1007),
        (b"\xc1", 1007),
        (_hello(), 4409),
        (wire.encode(wire.LogBatch(1, [LogChunk(2**62, 1, 0, 1, b"x")])), 1007),
        (wire.encode(wire.LogBatch(1, [LogChunk(1, 2**40, 0, 1, b"x")])), 1007),
        (wire.encode(wire.LogBatch(1, [LogChunk(1, 1, 0, 3, b"x")])), 1007),
    ],
    ids=["text", "garbage", "hello", "a task that can't be", "an attempt that can't be", "a third stream"],
)
def test_the_log_connection_takes_log_batches_and_nothing_else(served: Served, frame: bytes | str, code: int) -> None:
    assert _close_code(served, frame, path="/v1/worker/logs") == code


def test_log_chunks_are_acknowledged_when_stored_and_kept_once_when_resent(served: Served) -> None:
    task = served.submit(delay="1h")
    batch = wire.encode(wire.LogBatch(7, [LogChunk(task, 1, 0, 1, b"a"), LogChunk(task, 1, 1, 2, b"b")]))
    with _open(served, "/v1/worker/logs") as socket:
        for _ in range(2):
            socket.send(batch)
            assert wire.decode_to_agent(bytes(socket.recv(timeout=60))) == wire.LogStored(7)
    assert served.ask("select seq, stream, data from log_chunks where task = $1 order by seq", task) == [
        (0, 1, b"a"), (1, 2, b"b"),
    ]  # fmt: skip
