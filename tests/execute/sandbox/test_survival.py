"""Sandboxed tasks when processes around them die, and output that is meant to harm (F16, F25, F32; I22)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rota import wire
from rota.execute.linux import cgroups
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from tests.execute.sandbox.test_hostile_tasks import CAPACITY, GRANT, confined
from tests.execute.stub_server import StartAgent, StubServer, command, processes_with
from tests.execute.test_agent_survival import agent_process, carrying, is_alive, keeper_among, until

CPU_ONLY = Resources(cpu_milli=200)
LITTERING = """
import os, sys
marker = sys.argv[1]
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", marker])
os.execv("/bin/sleep", ["sleep", marker])
"""
MIB = 1024 * 1024


def sleeping(marker: str) -> list[int]:
    """Without bubblewrap's own processes, which have the same words among their arguments."""
    return [one for one in processes_with(marker) if Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"sleep")]


def stages_of(data: Path) -> list[str]:
    name = cgroups.parent_name(data)
    return [place for place in ("/run", "/var/run", "/tmp") if os.path.lexists(f"{place}/{name}")]


async def test_confined_tasks_die_with_their_agent_and_nothing_of_them_is_left(
    server: StubServer, tmp_path: Path
) -> None:
    data, marker = tmp_path / "data", f"71{os.getpid():07}"
    async with agent_process(server, data) as process:
        await server.start(*(confined(task, LITTERING, marker) for task in range(1, 9)), grant=CPU_ONLY)
        await until(lambda: len(sleeping(marker)) == 24)
        process.kill()
        await process.wait()
        await until(lambda: not processes_with(marker) and not carrying(data), 30)
        assert os.listdir(data / "work") == []
        assert cgroups.existing_parents(data) == []
        assert stages_of(data) == []


async def test_a_new_agent_ends_and_sweeps_what_a_dead_keeper_could_not(
    server: StubServer, tmp_path: Path, agent: StartAgent
) -> None:
    data, marker = tmp_path / "data", f"72{os.getpid():07}"
    async with agent_process(server, data) as process:
        await server.start(*(confined(task, LITTERING, marker) for task in (1, 2)), grant=CPU_ONLY)
        await until(lambda: len(sleeping(marker)) == 6)
        keeper = keeper_among(carrying(data))
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for victim in (process.pid, keeper):
                os.kill(victim, number)
        await process.wait()
        before = processes_with(marker)
        async with agent():
            assert not [one for one in before if is_alive(one)]
            assert os.listdir(data / "work") == []
            groups = [name for parent in cgroups.existing_parents(data) for name in os.listdir(parent)]
            assert [name for name in groups if name.startswith("unit-")] == []
    assert cgroups.existing_parents(data) == []
    assert stages_of(data) == []


async def test_output_without_end_is_cut_and_neither_grows_the_agent_nor_hides_a_neighbours(
    server: StubServer, tmp_path: Path
) -> None:
    server.log_limit_bytes = 100_000
    async with agent_process(server, tmp_path / "data") as process:
        loud = confined(1, "import os\nfor _ in range(300):\n    os.write(1, bytes(1 << 20))\n")
        before = most_memory_bytes(process.pid)
        await server.start(loud, confined(2, "for number in range(1000):\n    print(number)\n"), grant=CPU_ONLY)
        result, neighbour = await server.result(1), await server.result(2)
        grown = most_memory_bytes(process.pid) - before
    assert (result.outcome, neighbour.outcome) == (Outcome.OK, Outcome.OK)
    assert result.log_bytes + result.log_dropped_bytes >= 300 * MIB
    assert 90_000 < len(server.output(1)) == result.log_bytes <= 100_000
    assert server.output(2) == b"".join(b"%d\n" % number for number in range(1000))
    assert grown < 64 * MIB


def most_memory_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


async def test_output_that_looks_like_orders_is_stored_as_it_is(agent: StartAgent, server: StubServer) -> None:
    """F32. The command line decides what a terminal shows of it."""
    said = (
        b'["ended",1,0,0,0,0,0,false]\n::set-env name=X::y\n' + wire.encode(wire.Heartbeat(0.0, 0)) + b"\n"
        b"\x1b]0;title\x07\x1b[2J\x00\xff\xfe\xc3\x28\r\n\x9b31m"
    )
    async with agent(capacity=CAPACITY):
        await server.start(confined(1, f"import os\nos.write(1, {said!r})\n"), grant=GRANT)
        result = await server.result(1)
        await server.start(command(2, "true"))
        assert (await server.result(2)).outcome is Outcome.OK
    assert result.outcome is Outcome.OK
    assert server.output(1) == said


async def test_a_tasks_environment_means_nothing_to_what_builds_its_sandbox(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    """The loader would write to or load from paths that the environment names, before there is any sandbox."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    for folder in outside.parents:
        if folder.stat().st_mode & 0o1 == 0:
            folder.chmod(folder.stat().st_mode | 0o11)
    names = ("LD_DEBUG_OUTPUT", "LD_PRELOAD", "LD_AUDIT", "LD_PROFILE_OUTPUT", "GCONV_PATH", "LOCPATH")
    env = {"LD_DEBUG": "all", "LD_PROFILE": "libc.so.6"} | dict.fromkeys(names, f"{outside}/loader")
    async with agent(capacity=CAPACITY):
        await server.start(confined(1, "print('ran')", env=env), grant=GRANT)
        result = await server.result(1)
    assert result.outcome is Outcome.OK
    assert b"ran" in server.output(1)
    assert b"bwrap" not in server.output(1), "the loader of bubblewrap spoke"
    assert os.listdir(outside) == []


async def test_more_arguments_than_can_be_handed_over_are_refused_by_name(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent(capacity=CAPACITY):
        long, many = ["x" * 100_000] * 40, ["x"] * 9_000
        await server.start(confined(1, "print('never')", *long), confined(2, "print('never')", *many), grant=GRANT)
        await server.start(confined(3, "import sys\nprint(len(sys.argv))", *["x"] * 8_500), grant=GRANT)
        results = [await server.result(task) for task in (1, 2, 3)]
    assert [result.outcome for result in results] == [Outcome.REFUSED, Outcome.REFUSED, Outcome.OK]
    assert [result.failure.type for result in results if result.failure] == ["arguments-too-long"] * 2
    assert server.output(3) == b"8501\n"
