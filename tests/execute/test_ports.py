"""TCP ports: really a running attempt's own, in its environment, and free again when it has ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from rota.execute.machine.ports import Ports, nobody_has, parse_ports
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from tests.execute.stub_server import StartAgent, StubServer, function, shell

TWO = Resources(cpu_milli=100, ports=2)
# Each process of a parallel run has ports of its own: these tests really listen.
FIRST = 30_500 + 10 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
THREE = range(FIRST, FIRST + 3)


@pytest.fixture
def listener() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


# ---- the range -----------------------------------------------------------------------------------------------------


def test_ports_are_given_in_turn_and_never_to_two() -> None:
    ports = Ports(range(1, 5), is_free=lambda _: True)
    assert (ports.take(2), ports.take(1)) == ((1, 2), (3,))
    assert ports.take(2) is None
    ports.give_back((1, 2))
    assert ports.take(2) == (4, 1)
    assert ports.take(2) is None
    assert ports.take(1) == (2,)


def test_ports_that_others_hold_are_skipped() -> None:
    ports = Ports(range(1, 6), is_free=lambda port: port % 2 == 1)
    assert ports.take(2) == (1, 3)
    assert ports.take(2) is None
    assert ports.take(1) == (5,)


def test_a_port_somebody_listens_on_is_not_free(listener: int) -> None:
    assert not nobody_has(listener)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        assert not nobody_has(other.getsockname()[1])


def test_a_range_is_read_and_nonsense_refused() -> None:
    assert parse_ports("30000-30009") == range(30_000, 30_010)
    for text in ("", "30000", "30009-30000", "80-90", "60000-70000", "a-b", "-1-5"):
        with pytest.raises(ValueError, match=r"write 30000-30999|from 1024 to 65535"):
            parse_ports(text)


# ---- on a node -----------------------------------------------------------------------------------------------------


async def test_a_command_is_told_its_ports(agent: StartAgent, server: StubServer) -> None:
    async with agent(ports=THREE):
        await server.start(shell(1, "echo $ROTA_PORT $ROTA_PORT_1 $ROTA_PORT_2 $ROTA_PORT_3"), grant=TWO)
        await server.result(1)
    assert server.output(1) == f"{FIRST} {FIRST} {FIRST + 1}\n".encode()


async def test_a_command_without_ports_is_told_none(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "echo ${ROTA_PORT-none}"))
        await server.result(1)
    assert server.output(1) == b"none\n"


async def test_two_at_once_never_share_a_port_and_one_that_ended_gives_its_own_back(
    agent: StartAgent, server: StubServer
) -> None:
    one = Resources(cpu_milli=100, ports=1)
    async with agent(ports=THREE):
        await server.start(*(shell(task, "echo $ROTA_PORT; sleep 0.3") for task in (1, 2, 3)), grant=one)
        for task in (1, 2, 3):
            await server.result(task)
        await server.start(shell(4, "echo $ROTA_PORT"), grant=one)
        await server.result(4)
    assert sorted(int(server.output(task)) for task in (1, 2, 3)) == list(THREE)
    assert int(server.output(4)) == FIRST


async def test_a_port_another_program_took_is_passed_over(agent: StartAgent, server: StubServer) -> None:
    with socket.create_server(("127.0.0.1", FIRST)):
        async with agent(ports=THREE):
            await server.start(shell(1, "echo $ROTA_PORT $ROTA_PORT_2"), grant=TWO)
            await server.result(1)
    assert server.output(1) == f"{FIRST + 1} {FIRST + 2}\n".encode()


async def test_too_few_ports_left_by_others_is_a_refusal_with_the_reason_and_takes_no_grant(
    agent: StartAgent, server: StubServer
) -> None:
    with socket.create_server(("127.0.0.1", FIRST)), socket.create_server(("127.0.0.1", FIRST + 1)):
        async with agent(ports=THREE):
            await server.start(shell(1, "true"), grant=TWO)
            refused = await server.result(1)
            await server.start(shell(2, "true"), grant=Resources(cpu_milli=2000, ports=1))
            done = await server.result(2)
    assert refused.outcome is Outcome.REFUSED
    assert refused.failure is not None
    assert refused.failure.type == "no-free-ports"
    assert done.outcome is Outcome.OK


async def test_functions_learn_their_ports_from_the_context_and_never_share_them(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(
        """
        import time
        from rota.execute.child.context import current
        def ports(seconds=0.0):
            time.sleep(seconds)
            return list(current().ports)
        """
    )
    async with agent(ports=THREE):
        await server.start(function(1, f"{module}:ports"))
        without = await server.result(1)
        one = Resources(cpu_milli=100, ports=1)
        await server.start(*(function(task, f"{module}:ports", 0.2) for task in (2, 3, 4)), grant=one)
        attempt = [await server.result(task) for task in (2, 3, 4)]
    assert without.result == b"[]"
    assert sorted(result.result or b"" for result in attempt) == [b"[%d]" % port for port in THREE]
