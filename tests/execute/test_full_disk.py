"""A node whose disk fills up: its tasks are not blamed, it takes no work, and it goes on with free space (F24)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from rota import wire
from rota.model.attempt import Outcome
from rota.model.node import Closed
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, function, run_of, shell

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


async def test_a_reserve_that_is_not_there_is_logged_at_the_start_and_when_it_is(
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


@pytest.mark.parametrize(
    ("grant", "outcome"), [(GRANTED, Outcome.DISRUPTED), (Resources(cpu_milli=100), Outcome.ERROR)]
)
async def test_a_task_that_finds_the_disk_full_says_so_and_is_not_blamed_within_its_grant(
    agent: StartAgent, server: StubServer, small_disk: Path, grant: Resources, outcome: Outcome
) -> None:
    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        await server.start(shell(1, "head -c 30000000 /dev/zero > fill"), grant=grant)
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
        await server.start(run_of(1, Kind.SCRIPT, {"script": "#" * 100_000}), grant=GRANTED)
        result = await server.result(1)
    assert result.failure is not None
    assert (result.outcome, result.failure.type) == (Outcome.DISRUPTED, "worker-disk-full")


FILLERS = """
    import os

    def fill():
        with open(os.environ["HOME"] + "/fill", "wb") as file:
            for _ in range(30): file.write(bytes(1 << 20))
    def fine(): return "fine"
    async def fill_later(): fill()
    async def fine_later(): return "fine"
"""


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
@pytest.mark.parametrize("name", ["fill", "fill_later"])
async def test_a_function_that_finds_the_disk_full_is_not_blamed_either(
    agent: StartAgent,
    server: StubServer,
    small_disk: Path,
    tmp_path: Path,
    tasks_module: Callable[[str], str],
    name: str,
    isolation: str,
) -> None:
    module = tasks_module(FILLERS)
    tmp_path.chmod(0o755)  # a sandboxed function has a user number of its own
    small_disk.chmod(0o755)

    def call(task: int, name: str) -> wire.Run:
        spec: dict[str, object] = {"function": f"{module}:{name}", "isolation": isolation}
        return run_of(task, Kind.FUNCTION, spec, name="of one name")  # the first run shows that all of them are async

    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        await server.start(call(1, name.replace("fill", "fine")), grant=GRANTED)
        assert (await server.result(1)).outcome is Outcome.OK
        await server.start(call(2, name), grant=GRANTED)
        result = await server.result(2)
        await server.until(lambda: server.heartbeats and not server.heartbeats[-1].is_closed)  # what it left is gone
        await server.start(call(3, name.replace("fill", "fine")), grant=GRANTED)
        assert (await server.result(3)).outcome is Outcome.OK
    assert result.failure is not None
    assert (result.outcome, result.failure.type) == (Outcome.DISRUPTED, "worker-disk-full")
    assert "No space left on device" in result.failure.message


async def test_idle_processes_of_functions_go_when_the_disk_is_short(
    agent: StartAgent, server: StubServer, small_disk: Path, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module("import os\ndef process(): return os.getpid()\n")
    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        await server.start(function(1, f"{module}:process"))
        warm = int((await server.result(1)).result or b"")
        # Running calls go on: only idle children exit.
        await server.start(shell(2, f"while kill -0 {warm} 2>/dev/null; do sleep 0.01; done"))
        fill(small_disk, leaving_bytes=2 * MIB)
        assert (await server.result(2)).outcome is Outcome.OK


async def test_what_fills_its_node_again_and_again_is_asked_for_later_each_time(
    agent: StartAgent, server: StubServer, small_disk: Path
) -> None:
    waits = []
    async with agent(data=small_disk / "data", reserve_bytes=4 * MIB, capacity=CAPACITY):
        for attempt in (1, 2, 5, 50):
            await server.until(lambda: server.heartbeats and not server.heartbeats[-1].is_closed)
            run = msgspec.structs.replace(shell(1, "head -c 30000000 /dev/zero > fill"), attempt=attempt)
            await server.start(run, grant=GRANTED)
            waits.append((await server.result(1, attempt)).retry_in_ms)
    assert waits == [1_000, 2_000, 16_000, 300_000]
