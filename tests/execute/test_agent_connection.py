"""The control connection: epochs, inventories, resent results, recalls, drains, twins."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from rota import wire
from rota.execute.connection import TwinError
from rota.model.attempt import Outcome
from tests.execute.stub_server import CAPACITY, StartAgent, StubServer, command, function, shell


async def test_an_agent_introduces_itself_and_answers_with_its_inventory(agent: StartAgent, server: StubServer) -> None:
    server.expected = [(77, 2)]
    async with agent(labels={"zone": "a"}):
        await server.until(lambda: server.inventories)
        # It reported the attempt as unknown, so a start for it that arrives late must not run.
        await server.start(command(77, "true", attempt=2), command(1, "true"))
        await server.result(1)
    hello = server.hellos[0]
    assert (hello.name, hello.capacity, hello.labels) == (
        "node-1",
        CAPACITY,
        {"zone": "a", "rota/sandbox": "yes", "rota/files": "yes", "rota/packages": "yes", "rota/cpu-quota": "yes"},
    )
    assert "functions" in hello.capabilities
    assert server.inventories == [wire.Inventory(present=[], unknown=[(77, 2)])]
    assert server.results_of(77, 2) == []


async def test_an_agent_waits_for_a_leader_and_asks_again(agent: StartAgent, server: StubServer) -> None:
    server.has_leader = False
    starting = asyncio.create_task(_registered(agent, server))
    await server.until(lambda: server.lookups >= 3)
    assert server.hellos == []
    server.has_leader = True
    await starting


async def test_a_refused_agent_says_why_once_and_goes_on_asking(agent: StartAgent, server: StubServer) -> None:
    server.refusal = "this token lacks the scope work"
    with capture_logs() as logged:
        starting = asyncio.create_task(_registered(agent, server))
        await server.until(lambda: server.lookups >= 3)
        server.refusal = None
        await starting
    said = [line for line in logged if line["log_level"] == "warning" and "refused" in line["event"]]
    assert [(line["status"], line["why"]) for line in said] == [(403, "this token lacks the scope work")]


async def _registered(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.until(lambda: server.inventories)


async def test_results_are_sent_again_until_they_are_settled(agent: StartAgent, server: StubServer) -> None:
    server.settle = False
    async with agent(stop_seconds=0.5):
        await server.start(command(1, "true"))
        await server.result(1)
        await server.drop()
        await server.until(lambda: len(server.results) == 2)
        server.settle = True
        await server.drop(wire.CLOSE_NOT_LEADER)
        await server.until(lambda: len(server.results) == 3)
        await server.drop()
        await server.until(lambda: len(server.inventories) == 4)
    assert [inventory.present for inventory in server.inventories] == [[], [(1, 1)], [(1, 1)], []]
    assert len(server.results) == 3


async def test_the_same_attempt_is_never_run_twice(agent: StartAgent, server: StubServer, tmp_path: object) -> None:
    async with agent():
        run = shell(1, f"echo x >> {tmp_path}/ran; sleep 0.1")
        await server.start(run, run)
        await server.start(run)
        await server.result(1)
        await server.start(run)
        await server.start(command(2, "cat", f"{tmp_path}/ran"))
        await server.result(2)
    assert server.output(2) == b"x\n"
    assert len(server.results) == 2


async def test_frames_of_an_older_epoch_are_refused(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(command(1, "true"), epoch=server.epoch - 1)
        await server.start(command(2, "true"))
        await server.result(2)
    assert server.results_of(1) == []


async def test_a_leader_below_the_floor_is_not_served(agent: StartAgent, server: StubServer) -> None:
    async with agent(stop_seconds=0.5):
        server.epoch = 50
        lookups = server.lookups
        await server.drop()
        await server.until(lambda: server.lookups >= lookups + 3)
        assert len(server.hellos) == 1
        server.epoch = 101
        await server.until(lambda: len(server.hellos) == 2)
    assert server.hellos[1].floor == 101


async def test_another_database_ends_everything_that_runs(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "sleep 60"), command(2, "true"))
        await server.result(2)
        server.database, server.epoch = "database-two", 5
        await server.drop()
        await server.until(lambda: len(server.inventories) == 2)
        assert server.inventories[1].present == []
        await server.start(shell(1, "echo again"), grant=CAPACITY)  # it fits only once the old one is gone
        result = await server.result(1)
    assert result.outcome is Outcome.OK
    assert server.output(1) == b"again\n"


async def test_a_running_attempt_survives_a_reconnection(
    agent: StartAgent, server: StubServer, tmp_path: object
) -> None:
    async with agent():
        await server.start(shell(1, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"))
        await server.drop()
        await server.until(lambda: len(server.inventories) == 2)
        await server.start(command(2, "touch", f"{tmp_path}/go"))
        assert (await server.result(1)).outcome is Outcome.OK
    assert server.inventories[1].present == [(1, 1)]


async def test_a_half_open_connection_is_dropped(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        server.acknowledge = False
        await server.until(lambda: len(server.hellos) == 2)
        server.acknowledge = True
        await server.start(command(1, "true"))
        await server.result(1)


async def test_a_twin_stops_the_agent_with_a_clear_error(agent: StartAgent, server: StubServer) -> None:
    async def meet_a_twin() -> None:
        async with agent() as ended:
            await server.drop(wire.CLOSE_TWIN)
            await ended.wait()

    with pytest.raises(ExceptionGroup) as raised:
        await meet_a_twin()
    assert raised.group_contains(TwinError, match="another agent is connected as node-1")


async def test_no_more_is_granted_than_there_is_and_the_rest_can_be_recalled_or_cancelled(
    agent: StartAgent, server: StubServer, tmp_path: object
) -> None:
    async with agent():
        blocker = shell(1, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
        waiting = [shell(task, f"test -e {tmp_path}/go") for task in range(2, 6)]
        await server.start(blocker, *waiting, grant=CAPACITY)
        await server.send(wire.Recall(epoch=server.epoch, attempts=[(1, 1), (2, 1), (99, 1)]))
        await server.until(lambda: server.recalled)
        await server.stop(3)
        assert (await server.result(3)).outcome is Outcome.CANCELLED
        await server.stop(4, reason="drain")
        await server.until(lambda: (4, 1) in server.recalled)
        (tmp_path / "go").touch()  # type: ignore[operator]
        assert (await server.result(5)).outcome is Outcome.OK
        # A recalled attempt may come again under the same number: it never began.
        await server.start(waiting[0])
        assert (await server.result(2)).outcome is Outcome.OK
    assert server.recalled == [(2, 1), (4, 1)]


async def test_a_numbered_recall_is_answered_after_everything_that_came_back_and_also_if_all_have_begun(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent():
        await server.start(shell(1, "sleep 60"), command(2, "true"), grant=CAPACITY)
        await server.send(wire.Recall(server.epoch, [(1, 1)], 7))
        await server.until(lambda: server.recall_numbers == [7])
        assert server.recalled == []
        await server.send(wire.Recall(server.epoch, [(1, 1), (2, 1)], 8))
        await server.until(lambda: server.recall_numbers == [7, 8])
        assert server.recalled == [(2, 1)]


async def test_a_smaller_run_is_not_blocked_by_one_that_does_not_fit_yet(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "sleep 60"))
        await server.start(command(2, "true"), grant=CAPACITY)
        await server.start(command(3, "true"))
        assert (await server.result(3)).outcome is Outcome.OK
        await server.stop(1)
        assert (await server.result(2)).outcome is Outcome.OK


async def test_a_run_that_can_never_fit_is_refused(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(command(1, "true"), grant=CAPACITY.plus(CAPACITY))
        assert (await server.result(1)).outcome is Outcome.REFUSED


async def test_a_draining_agent_gives_back_what_waits_and_what_comes_and_finishes_what_runs(
    agent: StartAgent, server: StubServer, tmp_path: object
) -> None:
    async with agent():
        blocker = shell(1, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
        await server.start(blocker, command(2, "true"), function(3, "os:getpid"), grant=CAPACITY)
        await server.send(wire.Drain(epoch=server.epoch))
        await server.start(command(4, "true"))
        await server.until(lambda: len(server.recalled) == 3)
        (tmp_path / "go").touch()  # type: ignore[operator]
        assert (await server.result(1)).outcome is Outcome.OK
    assert sorted(server.recalled) == [(2, 1), (3, 1), (4, 1)]


async def test_stopping_an_agent_ends_what_runs_and_reports_it(agent: StartAgent, server: StubServer) -> None:
    async with agent() as stop:
        await server.start(shell(1, "sleep 60"), shell(2, "sleep 60"), grant=CAPACITY)
        await server.until(lambda: server.heartbeats and server.heartbeats[-1].attempts == 2)
        stop.set()
        assert (await server.result(1)).outcome is Outcome.DISRUPTED
    assert server.recalled == [(2, 1)]


async def test_many_results_share_frames(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(*(function(task, "operator:add", task, 1) for task in range(1, 2001)))
        await server.until(lambda: len(server.results) == 2000)
    assert {result.outcome for result in server.results} == {Outcome.OK}
    assert server.frames_of_results < 700
