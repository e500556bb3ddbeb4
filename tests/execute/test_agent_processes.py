"""Commands, scripts and files, run by a real agent with a real keeper."""

from __future__ import annotations

from pathlib import Path

import msgspec
from stub_server import StartAgent, StubServer, command, run_of, shell

from rota.model.attempt import Outcome
from rota.model.task import Kind


async def test_a_command_that_succeeds_is_ok_and_its_output_travels_in_the_result(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent():
        await server.start(command(1, "echo", "hello"))
        result = await server.result(1)
    assert (result.outcome, result.exit_code, result.failure) == (Outcome.OK, 0, None)
    assert [(chunk.seq, chunk.stream, chunk.data) for chunk in result.log] == [(0, 1, b"hello\n")]
    assert result.log_bytes == 6
