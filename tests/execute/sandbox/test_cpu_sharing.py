"""How grants of CPU are held, by this machine's own control groups: by weight, or by a quota.

All tasks of a test share one core, and each says how much CPU it used between two moments that are the same for all.
So the figures are parts of one whole. The group with all of the agent's tasks gets the largest weight there is: what
else this machine does takes next to nothing from them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from rota import wire
from rota.execute.linux import cgroups
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.sandbox.test_limits import CAPACITY, MIB, plain
from tests.execute.stub_server import StartAgent, StubServer, run_of

WINDOW_SECONDS = 2.0
SPIN = """
import json, os, sys, time
ready, go, core = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.sched_setaffinity(0, {core})
open(ready, "w").close()
while not os.path.exists(go):
    time.sleep(0.01)
begin, end = json.load(open(go))
while time.monotonic() < begin:
    time.sleep(0.005)
used = time.process_time()
while time.monotonic() < end:
    pass
print(time.process_time() - used)
"""


def spinner(tmp_path: Path, task: int, **spec: object) -> wire.Run:
    core = min(os.sched_getaffinity(0))
    return plain(task, SPIN, args=[str(tmp_path / f"ready-{task}"), str(tmp_path / "go"), str(core)], **spec)


def put_first(data: Path) -> None:
    """The agent's tasks before everything else on this machine, whose other load would blur the figures."""
    for parent in cgroups.existing_parents(data):
        for name, most in (("cpu.weight", "10000"), ("cpu.shares", "262144")):
            if os.path.exists(f"{parent}/{name}"):
                Path(f"{parent}/{name}").write_text(most)


async def parts_used(server: StubServer, tmp_path: Path, *runs: tuple[wire.Run, int]) -> list[float]:
    """Runs them at the same time on the same core; the part of it that each used."""
    put_first(tmp_path / "data")
    (tmp_path / "go").unlink(missing_ok=True)
    for run, cpu_milli in runs:
        await server.start(run, grant=Resources(cpu_milli=cpu_milli, memory_bytes=64 * MIB))
    await server.until(lambda: all((tmp_path / f"ready-{run.task}").exists() for run, _ in runs))
    begin = time.monotonic() + 0.3
    (tmp_path / "new").write_text(json.dumps([begin, begin + WINDOW_SECONDS]))
    (tmp_path / "new").rename(tmp_path / "go")
    for run, _ in runs:
        assert (await server.result(run.task)).outcome is Outcome.OK, server.output(run.task)
    return [float(server.output(run.task)) / WINDOW_SECONDS for run, _ in runs]


async def test_a_task_alone_uses_the_idle_core_beyond_its_grant_and_one_with_a_quota_does_not(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    async with agent(capacity=CAPACITY):
        (burst,) = await parts_used(server, tmp_path, (spinner(tmp_path, 1), 250))
        (quota,) = await parts_used(server, tmp_path, (spinner(tmp_path, 2, cpu_limit="quota"), 250))
    assert burst > 0.7, f"it got {burst:.2f} of an idle core"
    assert quota < 0.32, f"it was granted 0.25 of a core and used {quota:.2f}"
    exercised("limit-cpu")


async def test_under_load_each_task_gets_its_part_in_proportion_to_its_grant(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    async with agent(capacity=CAPACITY):
        small, large = await parts_used(server, tmp_path, (spinner(tmp_path, 1), 250), (spinner(tmp_path, 2), 1000))
    assert small + large > 0.7, "together they use the whole core"
    assert 2.5 < large / small < 6.0, f"granted 1 : 4, got {small:.2f} and {large:.2f}"


async def test_tasks_with_and_without_a_quota_are_fair_to_each_other(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    """A quota does not come first, and a task that may burst takes nothing from the grant of one with a quota."""
    async with agent(capacity=CAPACITY):
        burst, quota = await parts_used(
            server, tmp_path, (spinner(tmp_path, 1), 200), (spinner(tmp_path, 2, cpu_limit="quota"), 800)
        )
        assert 2.5 < quota / burst < 6.0, f"granted 1 : 4, got {burst:.2f} and {quota:.2f}"
        quota, burst = await parts_used(
            server, tmp_path, (spinner(tmp_path, 3, cpu_limit="quota"), 200), (spinner(tmp_path, 4), 800)
        )
    assert quota < 0.26, f"it was granted 0.2 of a core and used {quota:.2f}"
    assert burst > 2.5 * quota


async def test_a_warm_process_is_held_as_each_call_asks(
    agent: StartAgent, server: StubServer, tmp_path: Path, tasks_module: Callable[[str], str]
) -> None:
    """One process, first with a quota, then without one, then with it again."""
    module = tasks_module("""
        import os, time

        def spin(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                pass
            return os.getpid()
    """)
    grant = Resources(cpu_milli=250, memory_bytes=256 * MIB)
    found: list[tuple[float, bytes | None]] = []
    async with agent(capacity=CAPACITY):
        put_first(tmp_path / "data")
        for task, spec in enumerate(({"cpu_limit": "quota"}, {}, {"cpu_limit": "quota"}), start=1):
            what = {"function": f"{module}:spin", "args": [1.5], **spec}
            await server.start(run_of(task, Kind.FUNCTION, what), grant=grant)
            result = await server.result(task)
            assert result.outcome is Outcome.OK, result.failure
            found.append((result.cpu_ms * 1000 / result.run_us, result.result))
    (first, one), (free, two), (last, three) = found
    assert one == two == three, "it is the same process each time"
    assert max(first, last) < 0.4, found
    assert free > 0.6, found
