"""The cost of safe execution: cold sandboxes compared with bubblewrap alone, output, and an idle agent."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.stand import TICKS, Stand
from bench.workloads import TRUE, settle, submit, submit_from_two
from rota.execute.keeper import setup, spawn
from rota.execute.sandbox import bubblewrap, seccomp

PLAIN_NOTHING: dict[str, object] = {"function": "bench.tasks:nothing"}
SANDBOXED_NOTHING: dict[str, object] = {**PLAIN_NOTHING, "isolation": "sandbox"}
SANDBOXED_TRUE: dict[str, object] = {**TRUE, "isolation": "sandbox"}
_FILTER_DESCRIPTOR, _ARGUMENTS_DESCRIPTOR = 9, 8


def sandboxes(stand: Stand, *, count: int, repetitions: int) -> None:
    """Sandboxed /bin/true tasks end to end, and in the same minute a loop that only runs the same bwrap."""
    stand.start_worker()
    settle(stand, submit(stand, SANDBOXED_TRUE, 20, 20)[0])
    for _ in range(repetitions):
        bare = _bare_per_second(count // 2, at_once=stand.slots)
        before, began = stand.mark(), time.perf_counter()
        ids, _ = submit(stand, SANDBOXED_TRUE, count, 1000)
        settle(stand, ids)
        took = time.perf_counter() - began
        after = stand.mark()
        bare = (bare + _bare_per_second(count // 2, at_once=stand.slots)) / 2
        stand.report(
            "sandboxed processes",
            count,
            before,
            after,
            end_to_end_per_second=round(count / took),
            bare_bwrap_per_second=round(bare),
            against_bare=round(count / took / bare, 2),
        )


def sandboxed_functions(stand: Stand, *, count: int, repetitions: int) -> None:
    """No-op functions in warm sandboxed children, between two measurements of the same without a sandbox."""
    stand.start_worker()
    for task in (PLAIN_NOTHING, SANDBOXED_NOTHING):
        settle(stand, submit(stand, task, 400, 200)[0])
    for _ in range(repetitions):
        bare = _functions_per_second(stand, PLAIN_NOTHING, count // 2)
        before = stand.mark()
        sandboxed = _functions_per_second(stand, SANDBOXED_NOTHING, count)
        after = stand.mark()
        bare = (bare + _functions_per_second(stand, PLAIN_NOTHING, count // 2)) / 2
        stand.report(
            "sandboxed functions",
            count,
            before,
            after,
            end_to_end_per_second=round(sandboxed),
            unsandboxed_per_second=round(bare),
            against_unsandboxed=round(sandboxed / bare, 2),
        )


def _functions_per_second(stand: Stand, task: dict[str, object], count: int) -> float:
    stored, began = stand.stored(), time.perf_counter()
    ids, _ = submit_from_two(stand, task, count, 1000)
    if not stand.wait_stored(stored + count, 120):
        raise TimeoutError("functions did not end")
    took = time.perf_counter() - began
    settle(stand, ids)
    return count / took


def output(stand: Stand, *, megabytes: int) -> None:
    """One task that prints as fast as it can: bytes per second, and the agent's peak memory."""
    stand.start_worker()
    before, began = stand.mark(), time.perf_counter()
    quiet = _agent_rss_mib(stand)
    command = ["sh", "-c", f"head -c {megabytes}000000 /dev/zero"]
    ids, _ = submit(stand, {"command": command}, 1, 1)
    most = quiet
    with stand.client() as client:
        while client.get(f"/v1/tasks/{ids[0]}").json()["state"] not in ("done", "failed"):
            most = max(most, _agent_rss_mib(stand))
            time.sleep(0.02)
        task = client.get(f"/v1/tasks/{ids[0]}").json()
    stand.report(
        "output of one task",
        1,
        before,
        megabytes=megabytes,
        seconds=round(time.perf_counter() - began, 2),
        megabytes_per_second=round(megabytes / task["run_seconds"]),
        agent_rss_mib=quiet,
        agent_rss_growth_mib=most - quiet,
    )


def rest(stand: Stand, *, seconds: float) -> None:
    """An idle agent that has run a thousand tasks."""
    stand.start_worker()
    settle(stand, submit(stand, TRUE, 500, 500)[0])
    settle(stand, submit(stand, {"function": "bench.tasks:noop"}, 500, 500)[0])
    before, cpu = stand.mark(), _agent_cpu(stand)
    time.sleep(seconds)
    used = _agent_cpu(stand) - cpu
    stand.report(
        "agent at rest", 0, before, agent_rss_mib=_agent_rss_mib(stand), cpu_percent=round(100 * used / seconds, 2)
    )


def _bare_per_second(count: int, *, at_once: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        host = bubblewrap.survey(
            setup.find_bwrap(),
            link_of=lambda path: os.readlink(path) if os.path.islink(path) else None,
            exists=os.path.exists,
        )
        words = bubblewrap.arguments(host, bubblewrap.Sandbox(), folder=folder, seccomp=_FILTER_DESCRIPTOR)
        arguments, filter_ = bubblewrap.handed(words), seccomp.program()
        began, begun, ended = time.perf_counter(), 0, 0
        while ended < count:
            while begun < count and begun - ended < at_once:
                _spawn(host.bwrap, arguments, filter_)
                begun += 1
            _, status = os.wait()
            if status:
                raise RuntimeError(f"bwrap ended with {status}")
            ended += 1
        return count / (time.perf_counter() - began)


def _spawn(bwrap: str, arguments: bytes, filter_: bytes) -> None:
    handed = {_FILTER_DESCRIPTOR: spawn.readable(filter_), _ARGUMENTS_DESCRIPTOR: spawn.readable(arguments)}
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in handed.items()]
    argv = [*bubblewrap.command_line(_ARGUMENTS_DESCRIPTOR), "/bin/true"]
    os.posix_spawn(bwrap, argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions)
    for descriptor in handed.values():
        os.close(descriptor)


def _agent_rss_mib(stand: Stand) -> int:
    assert stand.worker is not None
    text = Path(f"/proc/{stand.worker.pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))) // 1024


def _agent_cpu(stand: Stand) -> float:
    assert stand.worker is not None
    fields = Path(f"/proc/{stand.worker.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / TICKS
