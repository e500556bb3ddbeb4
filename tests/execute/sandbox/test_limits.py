"""Limits on this machine's own control groups: what is throttled, what is counted, what a node without them reports.

Throttling is never measured in seconds here, but in the kernel's own figures: CPU used over time run, and how two tasks
of one run compare.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rota import wire
from rota.execute.keeper.limit_watch import FILES, OOM, Watch
from rota.execute.keeper.memory_use import used_memory_bytes
from rota.execute.keeper.unit import Unit
from rota.execute.linux import cgroup_limits, process_trees
from rota.execute.linux.cgroup_limits import Limits
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.sandbox.test_hostile_tasks import CAPACITY, MIB, confined
from tests.execute.stub_server import StartAgent, StubServer, processes_with, run_of

BUSY = "import os, time\nos.fork()\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end:\n    pass\n"
WRITES = """
import mmap, os
file = os.open("/task/direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for _ in range(60):
    os.pwrite(file, page, 0)
"""


def plain(task: int, text: str, **spec: object) -> wire.Run:
    what: dict[str, object] = {"script": text, "interpreter": ["/usr/bin/python3", "-I", "-S"]}
    return run_of(task, Kind.SCRIPT, what | spec)


@pytest.mark.parametrize("kind", [plain, confined])
async def test_two_busy_processes_with_a_quota_get_no_more_cpu_than_was_granted(
    agent: StartAgent, server: StubServer, kind: type
) -> None:
    async with agent(capacity=CAPACITY):
        assert "limit-cpu" in server.hellos[0].capabilities
        busy = kind(1, BUSY.format(seconds=1.5), cpu_limit="quota")
        await server.start(busy, grant=Resources(cpu_milli=500, memory_bytes=64 * MIB))
        result = await server.result(1)
    assert result.outcome is Outcome.OK
    share = result.cpu_ms * 1000 / result.run_us
    assert share < 0.75, f"{result.cpu_ms} ms of CPU in {result.run_us / 1e6:.1f} s"
    exercised("limit-cpu")


def looked(watch: Watch, unit: Unit) -> list[Unit]:
    """What the watch finds at its first check."""
    watch.wake(unit, 0.0)
    return list(watch.look([unit], 1.0))


async def test_disk_operations_are_throttled_to_the_grant(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    """The same sixty direct writes, with twenty a second and without a limit, side by side."""
    if not cgroup_limits.disk_of(str(tmp_path)):
        pytest.skip("there is no disk below the temporary folder on which operations could be counted")
    capacity = Resources(cpu_milli=8000, memory_bytes=2**30, disk_bytes=2**30, iops=1000)
    async with agent(capacity=capacity):
        assert "limit-io" in server.hellos[0].capabilities
        free = Resources(cpu_milli=1000, memory_bytes=64 * MIB, disk_bytes=MIB)
        await server.start(confined(1, WRITES), grant=free)
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB, disk_bytes=MIB, iops=20)
        await server.start(confined(2, WRITES), grant=grant)
        unlimited, limited = await server.result(1), await server.result(2)
    assert (unlimited.outcome, limited.outcome) == (Outcome.OK, Outcome.OK), server.output(2)
    assert limited.run_us >= 2_000_000, "sixty operations at twenty a second can't be done sooner"
    assert limited.run_us > unlimited.run_us
    exercised("limit-io")


async def test_a_plain_task_is_held_to_its_memory_and_processes_too(agent: StartAgent, server: StubServer) -> None:
    grant = Resources(cpu_milli=1000, memory_bytes=48 * MIB)
    hog = "import time\nkept = bytearray(40 << 20)\ntime.sleep(0.2)\nmore = bytearray(40 << 20)\ntime.sleep(60)\n"
    forks = "import os, time\nfor _ in range(50):\n    os.fork() or time.sleep(60)\n    time.sleep(0.01)\n"
    async with agent(capacity=CAPACITY):
        await server.start(plain(1, hog), plain(2, forks, processes=8), grant=grant)
        memory, processes = await server.result(1), await server.result(2)
    assert memory.failure is not None
    assert memory.failure.type == "oom", memory.failure
    assert memory.failure.message.startswith("went over its memory: 50.3M granted, ")
    assert processes.failure is not None
    assert processes.failure.message == "went over its processes: 8 granted, 8 used and more asked for"


def test_memory_that_no_group_counts_is_found_by_looking_and_what_forks_share_counts_once() -> None:
    """As on nodes without groups, and for plain trees that had memory before they joined theirs."""
    program = "import os, signal\nkept = bytearray(b'x') * (64 << 20)\nos.fork()\nprint(flush=True)\nsignal.pause()\n"
    main = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert main.stdout is not None
    for _ in range(2):  # both have it now
        main.stdout.readline()
    unit = Unit(1, "/nowhere", 0)
    unit.main, unit.confined = main.pid, True
    try:
        unit.limits = Limits(memory_bytes=48 * MIB)
        assert looked(Watch(samples_memory=True), unit) == [unit]
        assert (unit.over[0], unit.over[1] > 64 * MIB) == (OOM, True)
        unit.over, unit.limits = ("", 0), Limits(memory_bytes=110 * MIB)  # less than both use, counted separately
        assert looked(Watch(samples_memory=True), unit) == []
    finally:
        os.killpg(main.pid, signal.SIGKILL)
        main.wait()
        main.stdout.close()


def test_memory_that_processes_share_or_hold_in_files_without_names_is_found_by_looking() -> None:
    program = """
import mmap, os, signal
shared = mmap.mmap(-1, 32 << 20)
shared.write(b"x" * (32 << 20))
loose = os.memfd_create("loose")
os.write(loose, b"x" * (32 << 20))
mapped = os.memfd_create("mapped")
os.write(mapped, b"x" * (32 << 20))
kept = mmap.mmap(mapped, 32 << 20)
kept.read()
os.fork()
print(flush=True)
signal.pause()
"""
    main = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert main.stdout is not None
    for _ in range(2):
        main.stdout.readline()
    try:
        used = used_memory_bytes([main.pid, *process_trees.descendants(main.pid)], enough=0)
        assert 96 * MIB <= used < 150 * MIB, "each of the three once, and the interpreter"
    finally:
        os.killpg(main.pid, signal.SIGKILL)
        main.wait()
        main.stdout.close()


@pytest.mark.parametrize("kind", [plain, confined])
@pytest.mark.parametrize(
    "text",
    [
        "for number in range(5):\n    open(f'{number}', 'wb').write(bytes(1 << 20))\n",
        "open('one', 'wb').write(bytes(5 << 20))\n",
    ],
    ids=["many files", "one file"],
)
async def test_a_task_that_ends_before_the_first_check_is_still_limited_to_its_disk(
    agent: StartAgent, server: StubServer, kind: type, text: str
) -> None:
    async with agent(capacity=CAPACITY):
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB, disk_bytes=2 * MIB)
        await server.start(kind(1, text), kind(2, "open('small', 'wb').write(bytes(1 << 20))\n"), grant=grant)
        over, within = await server.result(1), await server.result(2)
    assert over.failure is not None
    assert over.failure.type == "disk-limit", over.failure
    assert over.failure.message.startswith("went over its disk space: 2.1M granted, ")
    assert within.outcome is Outcome.OK


async def test_a_file_with_many_names_counts_once(agent: StartAgent, server: StubServer) -> None:
    text = "import os\nopen('0', 'wb').write(bytes(1 << 20))\nfor name in range(1, 9):\n    os.link('0', str(name))\n"
    async with agent(capacity=CAPACITY):
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB, disk_bytes=2 * MIB)
        await server.start(confined(1, text), grant=grant)
        assert (await server.result(1)).outcome is Outcome.OK


async def test_a_node_that_can_not_hold_disk_operations_does_not_offer_them(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent(capacity=msgspec.structs.replace(CAPACITY, iops=1000), use_cgroups=False):
        assert server.hellos[0].capacity.iops == 0


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["cgroups", "no cgroups"])
@pytest.mark.parametrize("kind", [plain, confined])
async def test_the_reported_memory_is_the_tasks_and_not_its_parents(
    agent: StartAgent, server: StubServer, kind: type, use_cgroups: bool
) -> None:
    async with agent(capacity=CAPACITY, use_cgroups=use_cgroups):
        grant = Resources(cpu_milli=1000, memory_bytes=128 * MIB)
        small = "import os\nos.execv('/bin/sleep', ['sleep', '0.3'])\n"
        large = "import time\nkept = bytearray(b'x') * (64 << 20)\ntime.sleep(0.3)\n"
        await server.start(kind(1, small), kind(2, large), kind(3, "pass"), grant=grant)
        sleeps, holds, short = [await server.result(task) for task in (1, 2, 3)]
    assert 0 < sleeps.peak_memory_bytes < 16 * MIB
    assert 64 * MIB <= holds.peak_memory_bytes < 100 * MIB
    assert short.peak_memory_bytes < 16 * MIB  # zero where it could not be measured


async def test_a_node_without_control_groups_promises_no_limits_and_its_sandbox_still_holds_memory_by_looking(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent(capacity=CAPACITY, use_cgroups=False):
        capabilities = server.hellos[0].capabilities
        assert "sandbox" in capabilities
        assert [one for one in capabilities if one.startswith(("limit-", "cgroup"))] == []
        hog = "import time\nkept = bytearray(b'x') * (100 << 20)\ntime.sleep(60)\n"
        await server.start(confined(1, hog), grant=Resources(cpu_milli=1000, memory_bytes=48 * MIB))
        result = await server.result(1)
    assert result.failure is not None
    assert result.failure.type == "oom"


async def test_a_node_without_a_sandbox_says_so_and_refuses_sandboxed_work(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent(use_sandbox=False):
        hello = server.hellos[0]
        assert "sandbox" not in hello.capabilities
        assert "rota/sandbox" not in hello.labels
        await server.start(confined(1, "print('never')"))
        result = await server.result(1)
    assert (result.outcome, result.log_bytes) == (Outcome.REFUSED, 0)
    assert result.failure is not None
    assert (result.failure.type, result.failure.message) == (
        "no-sandbox",
        "this node has no sandbox: it was switched off",
    )


def test_a_folder_with_more_entries_than_allowed_is_over_its_limit(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    unit = Unit(1, str(tmp_path), 0)
    unit.disk_bytes, unit.main = MIB, os.getpid()
    watch = Watch(samples_memory=False, most_entries=20)
    assert looked(watch, unit) == [unit]
    assert unit.over == (FILES, 20)


def test_a_link_put_where_a_folder_was_is_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "large").write_bytes(bytes(4 * MIB))
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    unit = Unit(1, str(folder), 0)
    unit.disk_bytes, unit.main = MIB, os.getpid()
    assert looked(Watch(samples_memory=False), unit) == []


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["cgroups", "no cgroups"])
async def test_a_confined_task_that_ignores_term_and_leaves_children_everywhere_is_gone_at_its_cap(
    agent: StartAgent, server: StubServer, use_cgroups: bool
) -> None:
    """F29 and F30: grandchildren in sessions of their own go on forking until the whole group is killed."""
    text = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
marker = sys.argv[1]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork() == 0:
                os.execv("/bin/sleep", ["sleep", marker])
            time.sleep(0.05)
os.execv("/bin/sh", ["sh", "-c", f"trap '' TERM; while :; do sleep {marker}; done"])
"""
    marker = f"6{os.getpid():07}{int(use_cgroups)}"
    async with agent(capacity=CAPACITY, use_cgroups=use_cgroups, kill_grace_seconds=0.2):
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB)
        await server.start(confined(1, text, marker, cap_ms=1500), grant=grant)
        result = await server.result(1)
        async with asyncio.timeout(5):  # I22
            while processes_with(marker):
                await asyncio.sleep(0.01)
    assert result.outcome is Outcome.TIMEOUT
    assert result.exit_code == 128 + signal.SIGKILL
