"""Output on its way to the server: streamed, bounded, a prefix, and never in the way of a result."""

from __future__ import annotations

from rota.model.attempt import Outcome
from tests.execute.stub_server import StartAgent, StubServer, shell


async def test_output_of_a_running_task_is_streamed(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "echo out; echo err >&2; sleep 60"))
        await server.until(lambda: len(server.chunks) == 2)
        assert {(chunk.stream, chunk.data) for chunk in server.chunks} == {(1, b"out\n"), (2, b"err\n")}
        await server.stop(1)
        result = await server.result(1)
    assert result.log_bytes == 8


async def test_more_output_than_the_limit_is_kept_as_an_exact_prefix_and_counted(
    agent: StartAgent, server: StubServer
) -> None:
    server.log_limit_bytes = 300_000
    async with agent():
        await server.start(shell(1, "seq 1 2000000"))
        result = await server.result(1)
    whole = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
    assert result.outcome is Outcome.OK
    assert server.output(1) == whole[:300_000]
    assert (result.log_bytes, result.log_dropped_bytes) == (300_000, len(whole) - 300_000)


async def test_a_gigabyte_of_output_neither_blocks_nor_grows_memory(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "head -c 1000000000 /dev/zero"))
        result = await server.result(1)
    assert result.outcome is Outcome.OK
    assert result.log_bytes + result.log_dropped_bytes == 1_000_000_000


async def test_unstored_output_is_sent_again_after_the_log_connection_broke(
    agent: StartAgent, server: StubServer
) -> None:
    server.store_logs = False
    async with agent():
        await server.start(shell(1, "seq 1 50000"))
        await server.until(lambda: server.log_connection is not None)
        server.store_logs = True
        assert server.log_connection is not None
        await server.log_connection.close()
        result = await server.result(1)
    assert result.outcome is Outcome.OK
    assert server.output(1) == b"".join(b"%d\n" % number for number in range(1, 50_001))


async def test_a_result_does_not_wait_for_ever_for_its_output_to_be_stored(
    agent: StartAgent, server: StubServer
) -> None:
    server.store_logs = False
    server.log_limit_bytes = 4_000_000
    async with agent(log_patience_seconds=0.3):
        await server.start(shell(1, "seq 1 400000"))
        result = await server.result(1)
    whole = b"".join(b"%d\n" % number for number in range(1, 400_001))
    kept = server.output(1)
    assert whole.startswith(kept)
    assert 900_000 < len(kept) <= 1024 * 1024
    assert (result.log_bytes, result.log_bytes + result.log_dropped_bytes) == (len(kept), len(whole))
