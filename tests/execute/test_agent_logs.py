"""Output on its way to the server: streamed, bounded, its beginning and its end, and never delaying a result."""

from __future__ import annotations

import re
from pathlib import Path

from rota.execute.logs.spill import FILE_BYTES, Spill
from rota.execute.machine.disk_space import DiskSpace
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


async def test_of_more_output_than_the_limit_the_beginning_and_the_end_of_each_stream_are_kept(
    agent: StartAgent, server: StubServer
) -> None:
    server.log_limit_bytes = 300_000
    async with agent():
        await server.start(shell(1, "seq 1 2000000; echo END-ERR >&2"))
        result = await server.result(1)
    whole = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
    assert result.outcome is Outcome.OK
    assert server.shown(1, stream=2) == b"END-ERR\n"
    head, left_out, tail = re.split(rb"<(\d+)>", server.shown(1, stream=1))
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) > 100_000
    assert len(tail) > 100_000
    assert len(head) + int(left_out) + len(tail) == len(whole)
    assert len(head) + len(tail) + 8 == result.log_bytes <= 300_000
    assert result.log_dropped_bytes == int(left_out)
    assert server.kept(1)[-1].data == b"END-ERR\n"  # in the order in which it was written


async def test_output_goes_on_arriving_after_the_limit_and_newer_pieces_replace_older_ones(
    agent: StartAgent, server: StubServer
) -> None:
    server.log_limit_bytes = 100_000
    async with agent():
        await server.start(shell(1, "seq 1 200000; echo first; sleep 2; while :; do seq 1 20000; sleep 0.1; done"))
        await server.until(lambda: any(b"\nfirst\n" in chunk.data for chunk in server.chunks))
        await server.until(lambda: any(chunk.replaced for chunk in server.chunks))
        for _ in range(3):
            count = len(server.chunks)
            await server.until(lambda count=count: len(server.chunks) > count)
            assert sum(len(chunk.data) for chunk in server.kept(1)) <= 100_000
        await server.stop(1)
        result = await server.result(1)
    assert sum(len(chunk.data) for chunk in server.kept(1)) == result.log_bytes <= 100_000


async def test_a_server_may_say_that_only_the_end_is_taken_from_now_on(agent: StartAgent, server: StubServer) -> None:
    server.log_limit_bytes = 100_000_000
    server.full = [(1, 1)]
    async with agent():
        await server.start(shell(1, "seq 1 10000; sleep 0.5; seq 1 2000000; echo last"))
        result = await server.result(1)
    assert server.output(1).startswith(b"1\n2\n3\n")
    assert server.output(1).endswith(b"\n2000000\nlast\n")
    assert result.log_bytes < 3_000_000 < result.log_dropped_bytes


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
        assert (result.log_bytes, result.log_dropped_bytes) == (len(whole), 0)
        await take_logs_again(server)
        await server.until(lambda: len(server.output(1)) == len(whole))
    assert server.output(1) == whole


async def take_logs_again(server: StubServer) -> None:
    server.store_logs = True
    assert server.log_connection is not None
    await server.log_connection.close()


async def test_output_that_nobody_takes_goes_to_the_disk_and_is_sent_when_somebody_does(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    server.store_logs = False
    server.log_limit_bytes = 40_000_000
    whole = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
    async with agent(log_patience_seconds=0.3):
        await server.start(shell(1, "seq 1 2000000"))
        result = await server.result(1)  # it did not wait for anybody
        assert (result.outcome, result.log_bytes, result.log_dropped_bytes) == (Outcome.OK, len(whole), 0)
        assert sum(path.stat().st_size for path in (tmp_path / "data/output").iterdir()) > 5_000_000
        await take_logs_again(server)
        await server.until(lambda: sum(len(chunk.data) for chunk in server.chunks) >= len(whole) - 1024 * 1024)
        await server.start(shell(2, "echo done"))
        await server.result(2)
    assert server.output(1) == whole
    assert list((tmp_path / "data/output").iterdir()) == []


async def test_of_output_beyond_the_disks_share_only_the_end_is_kept_and_neighbours_keep_their_lines(
    agent: StartAgent, server: StubServer
) -> None:
    server.store_logs = False
    server.log_limit_bytes = 100_000_000
    async with agent(log_patience_seconds=0.3, log_spill_bytes=2_000_000):
        await server.start(shell(1, "seq 1 2000000; echo last"), shell(2, "sleep 1; echo small"))
        result, neighbour = await server.result(1), await server.result(2)
        await take_logs_again(server)
        await server.until(lambda: len(server.output(1)) == result.log_bytes)
    whole = b"".join(b"%d\n" % number for number in range(1, 2_000_001)) + b"last\n"
    head, left_out, tail = re.split(rb"<(\d+)>", server.shown(1, stream=1))
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(tail) > 1_000_000
    assert (result.log_bytes, result.log_dropped_bytes) == (len(head) + len(tail), int(left_out))
    assert result.log_bytes + result.log_dropped_bytes == len(whole)
    assert (neighbour.log_dropped_bytes, server.output(2)) == (0, b"small\n")


def test_the_disks_share_is_bounded_and_files_go_when_nothing_in_them_is_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "output"
    folder.mkdir()
    (folder / "left").write_bytes(b"by another")
    spill = Spill(folder, DiskSpace(str(tmp_path), reserve_bytes=0), limit_bytes=FILE_BYTES + 1000)
    spill.open()
    assert list(folder.iterdir()) == []
    first = spill.reserve([500, FILE_BYTES])
    assert first is not None
    spill.write(first, [b"a" * 500, b"b" * FILE_BYTES])
    assert spill.reserve([501]) is None
    second = spill.reserve([300, 200])
    assert second is not None
    spill.write(second, [b"c" * 300, b"d" * 200])
    assert [spill.read(place) for place in (first[0], *second)] == [b"a" * 500, b"c" * 300, b"d" * 200]
    assert len(list(folder.iterdir())) == 2
    for place in first:
        spill.free(place)
    assert spill.read(first[1]) is None
    assert (spill.used_bytes, len(list(folder.iterdir()))) == (500, 1)
    for place in second:
        spill.free(place)
    assert (spill.used_bytes, list(folder.iterdir())) == (0, [])
    nowhere = Spill(folder, DiskSpace(str(tmp_path), reserve_bytes=2**62))
    assert nowhere.reserve([1]) is None
