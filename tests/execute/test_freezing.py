"""An attempt whose node is cut off stands still: it goes on if its leader still holds it, else it is killed unseen.

Fences are a second and a half here. A task writes a line every few milliseconds, so a gap in its lines is the time in
which it was frozen, and a line after the gap shows that it acted again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rota.execute.keeper.unit import Unit
from rota.execute.linux import cgroup_limits, cgroups
from rota.execute.linux.cgroup_limits import FREEZER, KILL, Leaf
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, command, function, run_of, shell
from tests.execute.test_agent_survival import agent_process, carrying, is_alive, keeper_among, until

FENCE_MS = 1500
FROZEN_SECONDS = 1.0  # so long no leader answers
TICKS = 60
TICKING = "for i in $(seq {count}); do date +%s.%N >> {file}; sleep 0.01; done"
TICK = """
    import asyncio, time

    def write(file, wait=0.0):
        with open(file, "a") as lines:
            lines.write(f"{time.time()}\\n")

    def tick(file, count):
        for _ in range(count):
            write(file)
            time.sleep(0.02)
        return count

    async def tick_together(file, count):
        for _ in range(count):
            write(file)
            await asyncio.sleep(0.02)
        return count
"""


def ticking(task: int, file: Path, *, count: int = TICKS, cap_ms: int = 60_000, before: str = ":") -> object:
    return shell(task, f"{before}; {TICKING.format(count=count, file=file)}", fence_ms=FENCE_MS, cap_ms=cap_ms)


def ticks(file: Path) -> list[float]:
    return [float(line) for line in file.read_text().split()] if file.exists() else []


def longest_gap(file: Path) -> float:
    times = ticks(file)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


async def cut_off(server: StubServer) -> float:
    """The leader is gone: nothing acknowledges the agent, and there is no other."""
    server.acknowledge = server.has_leader = False
    at = time.time()
    await server.drop()
    return at


async def still(*files: Path) -> None:
    """Waits until none of the files has got a line for a third of a second."""

    def stand_still() -> bool:
        return all(ticks(file) and time.time() - ticks(file)[-1] > 0.35 for file in files)

    await until(stand_still)


async def bring_back(server: StubServer, *held: int) -> None:
    """A leader that still holds these tasks."""
    server.expected = [(task, 1) for task in held]
    server.acknowledge = server.has_leader = True
    count = len(server.inventories)
    await server.until(lambda: len(server.inventories) > count)


@pytest.mark.parametrize("use_cgroups", [True, False])
async def test_a_cut_off_attempt_is_frozen_and_goes_on_when_its_leader_still_holds_it(
    server: StubServer, tmp_path: Path, agent: StartAgent, tasks_module: Callable[[str], str], use_cgroups: bool
) -> None:
    process, call = tmp_path / "process", tmp_path / "call"
    module = tasks_module(TICK)
    async with agent(use_cgroups=use_cgroups):
        await server.start(
            ticking(1, process, count=200, cap_ms=9000),
            function(2, f"{module}:tick", str(call), 150, fence_ms=FENCE_MS, cap_ms=9000),
            command(3, "sleep", "4", fence_ms=60_000),
        )
        await until(lambda: ticks(process) and ticks(call))
        cut_off_at = await cut_off(server)
        await still(process, call)
        assert max(ticks(process)[-1], ticks(call)[-1]) - cut_off_at < FENCE_MS / 1000, "frozen before the fence"
        await asyncio.sleep(FROZEN_SECONDS)  # the fault itself
        await bring_back(server, 1, 2, 3)
        results = [await server.result(task) for task in (1, 2, 3)]

    assert [result.outcome for result in results] == [Outcome.OK] * 3
    assert [len(ticks(file)) for file in (process, call)] == [200, 150], "each line once: nothing ran again"
    assert sorted(server.inventories[-1].frozen) == [(1, 1), (2, 1)]
    for result, file in zip(results, (process, call), strict=False):
        gap = longest_gap(file)
        assert gap > FROZEN_SECONDS
        assert abs(result.frozen_us / 1e6 - gap) < 0.5
        assert abs(result.run_us / 1e6 - (ticks(file)[-1] - ticks(file)[0] - gap)) < 1.0
    assert results[2].frozen_us == 0, "its fence is longer"


async def test_frozen_time_is_no_part_of_the_cap(
    server: StubServer, tmp_path: Path, agent: StartAgent, tasks_module: Callable[[str], str]
) -> None:
    """They would reach their caps while they are frozen, and reach them afterwards."""
    process, call, module = tmp_path / "process", tmp_path / "call", tasks_module(TICK)
    async with agent():
        await server.start(
            ticking(1, process, count=10_000, cap_ms=2500),
            function(2, f"{module}:tick", str(call), 10_000, fence_ms=FENCE_MS, cap_ms=2500),
        )
        await until(lambda: ticks(process) and ticks(call))
        await cut_off(server)
        await still(process, call)
        frozen_at = max(ticks(process)[-1], ticks(call)[-1])
        await asyncio.sleep(FROZEN_SECONDS)
        assert server.results == []
        await bring_back(server, 1, 2)
        results = [await server.result(1), await server.result(2)]
    assert [result.outcome for result in results] == [Outcome.TIMEOUT] * 2
    for file in (process, call):
        acted = ticks(file)[-1] - ticks(file)[0] - longest_gap(file)
        assert ticks(file)[-1] > frozen_at + FROZEN_SECONDS, "it went on after it thawed"
        assert 2.0 < acted < 3.5


@pytest.mark.parametrize("use_cgroups", [True, False])
async def test_an_attempt_that_was_given_up_is_killed_without_acting_again(
    server: StubServer, tmp_path: Path, agent: StartAgent, tasks_module: Callable[[str], str], use_cgroups: bool
) -> None:
    files = process, call, kept = tmp_path / "process", tmp_path / "call", tmp_path / "kept"
    module, last_words = tasks_module(TICK), tmp_path / "last words"
    async with agent(use_cgroups=use_cgroups):
        await server.start(
            ticking(1, process, count=10_000, before=f"trap 'echo TERM > \"{last_words}\"; exit' TERM EXIT"),
            function(2, f"{module}:tick", str(call), 10_000, fence_ms=FENCE_MS),
            ticking(3, kept),
        )
        await until(lambda: all(ticks(file) for file in files))
        await cut_off(server)
        await still(process, call)
        seen = len(ticks(process)), len(ticks(call))
        await bring_back(server, 3)
        results = [await server.result(task) for task in (1, 2, 3)]
        await until(lambda: not [pid for pid in carrying(tmp_path / "data") if b"date" in _command(pid)])
    assert [result.outcome for result in results] == [Outcome.DISRUPTED, Outcome.DISRUPTED, Outcome.OK]
    assert (len(ticks(process)), len(ticks(call))) == seen, "not a line after they were frozen"
    assert not last_words.exists()


async def test_a_frozen_attempt_is_killed_when_it_is_told_to_stop(
    server: StubServer, tmp_path: Path, agent: StartAgent
) -> None:
    """The connection lasts, only its acknowledgements are missing: an order arrives while the attempt is frozen."""
    file, last_words = tmp_path / "file", tmp_path / "last words"
    server.heartbeat_seconds = 5.0
    async with agent():
        await server.start(ticking(1, file, count=10_000, before=f"trap 'echo TERM > \"{last_words}\"; exit' TERM"))
        await until(lambda: ticks(file))
        server.acknowledge = False
        await still(file)
        seen = len(ticks(file))
        await server.stop(1)
        assert (await server.result(1)).outcome is Outcome.CANCELLED
    assert len(ticks(file)) == seen
    assert not last_words.exists()


async def test_a_late_acknowledgement_thaws_only_while_it_covers_the_fence(
    server: StubServer, tmp_path: Path, agent: StartAgent
) -> None:
    file = tmp_path / "file"
    server.heartbeat_seconds = 0.6  # the connection outlasts the fence
    async with agent():
        await server.start(ticking(1, file, count=150))
        await until(lambda: ticks(file))
        server.acknowledge = False
        await still(file)
        server.acknowledge = True
        assert (await server.result(1)).outcome is Outcome.OK
        assert len(server.inventories) == 1, "on the same connection"
    assert longest_gap(file) > 0.3


async def test_while_the_agent_itself_is_stopped_its_attempts_are_frozen_in_time_and_go_on_after(
    server: StubServer, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    async with agent_process(server, tmp_path / "data") as process:
        await server.start(ticking(1, file, count=200, cap_ms=6000))
        await until(lambda: ticks(file))
        process.send_signal(signal.SIGSTOP)
        stopped_at = time.time()
        await still(file)
        assert ticks(file)[-1] - stopped_at < FENCE_MS / 1000
        await asyncio.sleep(ticks(file)[0] + 6.1 - time.time())  # past its cap, if this time counted
        server.expected = [(1, 1)]
        process.send_signal(signal.SIGCONT)
        assert (await server.result(1)).outcome is Outcome.OK
    assert len(ticks(file)) == 200
    assert longest_gap(file) > 3


@pytest.mark.parametrize("victim", ["agent", "keeper"])
async def test_frozen_attempts_die_with_their_agent_and_with_their_keeper(
    server: StubServer, tmp_path: Path, victim: str
) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    async with agent_process(server, data) as process:
        await server.start(ticking(1, file, count=10_000))
        await until(lambda: ticks(file))
        await cut_off(server)
        await still(file)
        seen, before = len(ticks(file)), carrying(data)
        if victim == "agent":
            process.kill()
            await process.wait()
            await until(lambda: not carrying(data))
            assert cgroups.existing_parents(data) == []
        else:
            os.kill(keeper_among(before), signal.SIGKILL)
            await until(lambda: not [pid for pid in before if is_alive(pid)])
    assert len(ticks(file)) == seen


async def test_without_a_leader_for_longer_than_the_limit_frozen_attempts_are_killed(
    server: StubServer, tmp_path: Path, agent: StartAgent
) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    async with agent(frozen_limit_seconds=1.0):
        await server.start(ticking(1, file, count=10_000))
        await until(lambda: ticks(file))
        await cut_off(server)
        await still(file)
        seen = len(ticks(file))
        await until(lambda: len(carrying(data)) == 1)  # the keeper
        await bring_back(server, 1)
        assert (await server.result(1)).outcome is Outcome.DISRUPTED
    assert len(ticks(file)) == seen


async def test_async_calls_that_share_a_process_are_frozen_and_thaw_together(
    server: StubServer, tmp_path: Path, agent: StartAgent, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(TICK)
    files = [tmp_path / f"file-{task}" for task in range(4)]
    async with agent():
        await server.start(function(100, f"{module}:tick_together", str(tmp_path / "first"), 1))
        assert (await server.result(100)).outcome is Outcome.OK  # it shows that the function is async
        calls = [
            function(task, f"{module}:tick_together", str(file), 120, fence_ms=FENCE_MS, cap_ms=4000)
            for task, file in enumerate(files, 1)
        ]
        await server.start(*calls)
        await until(lambda: all(ticks(file) for file in files))
        await cut_off(server)
        await still(*files)
        await asyncio.sleep(FROZEN_SECONDS)
        await bring_back(server, 1, 2, 3, 4)
        results = [await server.result(task) for task in range(1, 5)]
    assert [result.outcome for result in results] == [Outcome.OK] * 4
    assert [len(ticks(file)) for file in files] == [120] * 4
    assert all(result.frozen_us > FROZEN_SECONDS * 1e6 for result in results)


@pytest.mark.parametrize("isolation", ["sandbox", "container"])
async def test_sandboxes_and_containers_are_frozen_too(
    server: StubServer, tmp_path: Path, agent: StartAgent, isolation: str, request: pytest.FixtureRequest
) -> None:
    spec: dict[str, object] = {"isolation": isolation, "processes": 20}
    if isolation == "container":
        spec["image"] = request.getfixturevalue("image")
    counting = ["sh", "-c", "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i; sleep 0.05; done"]
    grant = Resources(cpu_milli=500, memory_bytes=64 * 2**20)
    runs = [run_of(task, Kind.COMMAND, {"command": counting, **spec}, fence_ms=FENCE_MS) for task in (1, 2)]

    def lines() -> list[int]:
        return [len(server.output(task).split()) for task in (1, 2)]

    async with agent(engine="podman" if isolation == "container" else "none"):
        await server.start(*runs, grant=grant)
        await server.until(lambda: min(lines()) > 0)
        await cut_off(server)
        frozen = await _unchanged(lines)
        assert max(frozen) < 60
        await asyncio.sleep(FROZEN_SECONDS)
        assert lines() == frozen
        await bring_back(server, 1)
        held, given_up = await server.result(1), await server.result(2)
        assert lines() == [60, frozen[1]]
        await until(lambda: os.listdir(tmp_path / "data" / "work") == [])
    assert (held.outcome, given_up.outcome) == (Outcome.OK, Outcome.DISRUPTED)
    assert held.frozen_us > FROZEN_SECONDS * 1e6


async def _unchanged(look: Callable[[], list[int]]) -> list[int]:
    """What `look` says once it has said the same for longer than a fence."""
    said, since = look(), time.monotonic()
    while time.monotonic() - since < 1.0:
        await asyncio.sleep(0.05)
        if look() != said:
            said, since = look(), time.monotonic()
    return said


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# ---- the kernel's ways -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", [KILL, FREEZER])
def test_a_frozen_group_can_be_killed_and_removed_without_acting(tmp_path: Path, tree: str) -> None:
    home, name = _home(tree), f"rota-test-{os.getpid()}"
    leaf = Leaf(tree == KILL, {tree: f"{home}/{name}"})
    leaf.make()
    file = tmp_path / "file"
    child = os.fork()
    if child == 0:
        leaf.enter()
        os.execv("/bin/sh", ["sh", "-c", TICKING.format(count=10_000, file=file)])
    try:
        _until(lambda: ticks(file))
        assert leaf.freeze()
        _until(lambda: time.time() - ticks(file)[-1] > 0.2)
        seen = len(ticks(file))
        assert leaf.thaw()
        _until(lambda: len(ticks(file)) > seen + 5)
        assert leaf.freeze()
        _until(lambda: time.time() - ticks(file)[-1] > 0.2)
        seen = len(ticks(file))
    finally:
        assert cgroups.sweep(leaf.folders[0])
        os.waitpid(child, 0)
    assert len(ticks(file)) == seen


def test_a_unit_frozen_by_the_old_freezer_gets_no_signal_that_it_could_act_on(tmp_path: Path) -> None:
    """SIGKILL alone would leave it frozen for ever, and thawing first would let it act."""
    leaf = Leaf(False, {FREEZER: f"{_home(FREEZER)}/rota-unit-{os.getpid()}"})
    leaf.make()
    file, last_words = tmp_path / "file", tmp_path / "last words"
    child = os.fork()
    if child == 0:
        leaf.enter()
        os.execv(
            "/bin/sh", ["sh", "-c", f"trap 'touch \"{last_words}\"' TERM; {TICKING.format(count=10_000, file=file)}"]
        )
    unit = Unit(1, str(tmp_path), FENCE_MS)
    unit.main, unit.leaf, unit.is_plain = child, leaf, True
    try:
        _until(lambda: ticks(file))
        assert unit.freeze()
        _until(lambda: time.time() - ticks(file)[-1] > 0.2)
        seen = len(ticks(file))
        unit.terminate()
        os.waitpid(child, 0)
    finally:
        assert cgroups.sweep(leaf.folders[0])
    assert len(ticks(file)) == seen
    assert not last_words.exists()


def _home(tree: str) -> str:
    v2, v1 = cgroup_limits.mounts_of(Path("/proc/self/mountinfo").read_text())
    home = v2 if tree == KILL else v1.get("freezer", (None,))[0]
    if home is None or not os.access(home, os.W_OK):
        pytest.skip(f"this machine has no writable {tree} tree")
    return home


def _until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)
