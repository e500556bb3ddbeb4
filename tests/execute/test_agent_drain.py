"""A drained agent takes nothing new, gives waiting attempts back, finishes running ones; and works again afterwards."""

from __future__ import annotations

from rota import wire
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from tests.execute.stub_server import StartAgent, StubServer, shell


async def test_a_drained_node_gives_back_what_waits_finishes_what_runs_and_works_again_when_undrained(
    agent: StartAgent, server: StubServer
) -> None:
    whole = Resources(cpu_milli=2000)
    async with agent():
        await server.start(shell(1, "sleep 0.5"), shell(2, "true"), grant=whole)
        await server.send(wire.Drain(epoch=server.epoch))
        await server.until(lambda: (2, 1) in server.recalled)
        await server.start(shell(3, "true"))
        await server.until(lambda: (3, 1) in server.recalled)
        assert (await server.result(1)).outcome is Outcome.OK
        await server.send(wire.Drain(epoch=server.epoch, is_over=True))
        await server.start(shell(4, "true"))
        assert (await server.result(4)).outcome is Outcome.OK
    assert (server.results_of(2), server.results_of(3)) == ([], [])
