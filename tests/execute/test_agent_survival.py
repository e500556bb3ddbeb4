"""What is left when processes die: fences, killed agents, killed keepers, a data folder used twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rota.execute.agent import AgentOptions, run_agent
from rota.execute.data_folder import DataFolderInUse
from rota.execute.linux import cgroups
from rota.model.attempt import Outcome
from tests.execute.stub_server import TOKEN, StartAgent, StubServer, command, function, shell

PROGRAM = """
import asyncio, sys, pathlib
from rota.execute.agent import AgentOptions, run_agent
from rota.model.resources import Resources
url, token, data = sys.argv[1:]
options = AgentOptions(servers=(url,), token=token, pool="default", name="node-1", data=pathlib.Path(data),
                       capacity=Resources(cpu_milli=2000), kill_grace_seconds=0.3)
asyncio.run(run_agent(options, asyncio.Event()))
"""


DEAF = "trap '' TERM; exec sleep 600"
HANG = """
    import pathlib, time

    def hang(begun):
        pathlib.Path(begun).touch()
        time.sleep(600)
"""


@contextlib.asynccontextmanager
async def agent_process(server: StubServer, data: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    arguments = [sys.executable, "-c", PROGRAM, server.url, TOKEN, str(data)]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.DEVNULL)
    count = len(server.inventories)
    await server.until(lambda: len(server.inventories) > count)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def carrying(data: Path) -> list[int]:
    """Processes that carry the mark of this data folder: tasks, children and the keeper."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if f"ROTA_WORKDIR={data}/work/".encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
    return found


async def until(fact: Callable[[], object], patience_seconds: float = 15.0) -> float:
    """For facts about the system, which sends no signal. Returns when it became true."""
    async with asyncio.timeout(patience_seconds):
        while not fact():
            await asyncio.sleep(0.005)
    return time.monotonic()


def keeper_among(processes: list[int]) -> int:
    return next(pid for pid in processes if b"rota.execute.keeper.main" in Path(f"/proc/{pid}/cmdline").read_bytes())


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_nothing_is_left_of_an_agent_that_was_killed(server: StubServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with agent_process(server, data) as process:
        await server.start(shell(1, "(setsid sleep 600 &); trap '' TERM; sleep 600"), function(2, "time:sleep", 600))
        await until(lambda: len(carrying(data)) >= 5)
        process.kill()
        await process.wait()
        await until(lambda: not carrying(data))
        await until(lambda: os.listdir(data / "work") == [])
        assert cgroups.existing_parents(data) == []


async def test_a_new_agent_sweeps_what_a_dead_agent_and_a_dead_keeper_left(
    server: StubServer, tmp_path: Path, agent: StartAgent
) -> None:
    data = tmp_path / "data"
    async with agent_process(server, data) as process:
        await server.start(shell(1, "(setsid sleep 600 &); sleep 600"))
        await until(lambda: len(carrying(data)) >= 4)
        keeper = keeper_among(carrying(data))
        for victim in (process.pid, keeper):
            os.kill(victim, signal.SIGSTOP)
        for victim in (process.pid, keeper):
            os.kill(victim, signal.SIGKILL)
        await process.wait()
        left = [pid for pid in carrying(data) if pid != keeper]
        assert left
        async with agent():
            assert not [pid for pid in left if is_alive(pid)]
            assert os.listdir(data / "work") == []


@pytest.mark.parametrize("use_cgroups", [True, False])
async def test_when_the_keeper_dies_its_tasks_are_disrupted_and_a_new_keeper_takes_over(
    server: StubServer,
    tmp_path: Path,
    agent: StartAgent,
    tasks_module: Callable[[str], str],
    use_cgroups: bool,
) -> None:
    data, begun, module = tmp_path / "data", tmp_path / "begun", tasks_module(HANG)
    async with agent(use_cgroups=use_cgroups):
        littering = shell(1, "(setsid sleep 600 &); sleep 600")
        await server.start(littering, function(2, f"{module}:hang", str(begun)))
        await until(lambda: len(carrying(data)) == 5 and begun.exists())
        before = carrying(data)
        os.kill(keeper_among(before), signal.SIGKILL)
        process, call = await server.result(1), await server.result(2)
        assert not [pid for pid in before if is_alive(pid)]
        await server.start(command(3, "true"), function(4, "operator:add", 1, 2))
        assert (await server.result(3)).outcome is Outcome.OK
        assert (await server.result(4)).outcome is Outcome.OK
    assert process.outcome is call.outcome is Outcome.DISRUPTED
    assert process.failure is not None
    assert process.failure.type == "keeper-lost"


async def test_two_agents_can_not_share_a_data_folder(
    agent: StartAgent, make_options: Callable[..., AgentOptions]
) -> None:
    async with agent():
        with pytest.raises(DataFolderInUse, match="give this one its own"):
            await run_agent(make_options(), asyncio.Event())
