"""A node whose disk fills up: what runs there is not blamed, nothing new is taken, and it all goes on with space (F24)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rota.model.attempt import Outcome
from rota.model.node import Closed
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, run_of, shell

MIB = 1024 * 1024
CAPACITY = Resources(cpu_milli=2000, disk_bytes=2**30)
GRANTED = Resources(cpu_milli=100, disk_bytes=100 * MIB)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk of 16 MiB")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *, leaving_bytes: int) -> Path:
    filler = disk / "filler"
    free = os.statvfs(disk)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize - leaving_bytes))
    return filler


async def test_a_node_below_its_reserve_gives_back_what_it_is_sent_until_there_is_space(
    agent: StartAgent, server: StubServer, small_disk: Path
) -> None:
    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        await server.start(shell(1, "echo before; sleep 60"))
        await server.until(lambda: server.chunks)
        filler = fill(small_disk, leaving_bytes=2 * MIB)
        await server.until(lambda: server.heartbeats and server.heartbeats[-1].closed_for is Closed.FULL)
        await server.start(shell(2, "echo never"))
        await server.until(lambda: server.recalled == [(2, 1)])
        assert server.results == [], "what ran goes on running"
        filler.unlink()
        await server.until(lambda: server.heartbeats[-1].closed_for is None)
        await server.start(shell(3, "echo again"))
        assert (await server.result(3)).outcome is Outcome.OK


async def test_a_reserve_that_is_not_there_is_told_at_the_start_and_when_it_is(
    agent: StartAgent, server: StubServer, small_disk: Path
) -> None:
    filler = fill(small_disk, leaving_bytes=2 * MIB)
    with capture_logs() as told:
        async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
            await server.until(lambda: server.heartbeats and server.heartbeats[-1].closed_for is Closed.FULL)
            filler.unlink()
            await server.until(lambda: server.heartbeats[-1].closed_for is None)
    said = [(one["log_level"], one["event"], one["reserve"]) for one in told if "disk space" in one["event"]]
    assert said == [
        ("warning", "too little disk space: no work is taken", "4.19MB"),
        ("info", "there is disk space again: work is taken", "4.19MB"),
    ]


@pytest.mark.parametrize(("room", "outcome"), [(GRANTED, Outcome.DISRUPTED), (Resources(cpu_milli=100), Outcome.ERROR)])
async def test_a_task_that_finds_the_disk_full_says_so_and_is_not_blamed_within_its_grant(
    agent: StartAgent, server: StubServer, small_disk: Path, room: Resources, outcome: Outcome
) -> None:
    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        await server.start(shell(1, "head -c 30000000 /dev/zero > fill"), room=room)
        result = await server.result(1)
        assert result.failure is not None
        assert (result.outcome, result.failure.type) == (outcome, "worker-disk-full")
        assert result.failure.message.endswith("; the disk of its node is full")
        await server.until(lambda: server.heartbeats[-1].closed_for is None)  # its folder is gone
        await server.start(shell(2, "echo again"))
        assert (await server.result(2)).outcome is Outcome.OK


async def test_a_start_that_the_disk_refuses_uses_up_no_attempt(
    agent: StartAgent, server: StubServer, small_disk: Path
) -> None:
    async with agent(data=small_disk / "data", reserve_bytes=0, capacity=CAPACITY):
        fill(small_disk, leaving_bytes=0)
        await server.start(run_of(1, Kind.SCRIPT, {"script": "#" * 100_000}), room=GRANTED)
        result = await server.result(1)
    assert result.failure is not None
    assert (result.outcome, result.failure.type) == (Outcome.DISRUPTED, "worker-disk-full")
