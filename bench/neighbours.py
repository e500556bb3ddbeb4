"""CPU-bound neighbours: what a task gets alone and beside others, and what they cost a short one's start.

Figures are parts of a core, by the kernel's own account of CPU time, and ratios of times taken in turns: they say
something on a busy machine too. What else the machine does takes its part from every figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.stand import Stand
from bench.workloads import settle, warm_up

_LEAD_SECONDS = 4.0  # for all processes to start before the window
_BASIC_CPU = 0.25
_LONG_SECONDS = 3600.0
_ROUNDS = 3  # with each kind of neighbour in turns: the machine's speed varies


def neighbours(stand: Stand, *, count: int, window: float) -> None:
    """`count`: starts measured for each kind of neighbour."""
    warm_up(stand)
    before = stand.mark()
    (burst,) = _parts(stand, [(_BASIC_CPU, "burst")], window)
    (quota,) = _parts(stand, [(_BASIC_CPU, "quota")], window)
    stand.report("cpu alone", 2, before, granted=_BASIC_CPU, burst_used=burst, quota_used=quota)

    before = stand.mark()
    # A full node: grants of one to four, and one with a quota beside its equal without.
    grants = [(stand.slots * part, limit) for part, limit in ((1 / 8, "burst"), (1 / 8, "quota"), (1 / 4, "burst"))]
    grants.append((stand.slots / 2, "burst"))
    used = _parts(stand, grants, window)
    stand.report(
        "cpu beside neighbours",
        len(grants),
        before,
        granted=[cpu for cpu, _ in grants],
        limits=[limit for _, limit in grants],
        used=used,
        used_per_granted=[round(part / cpu, 2) for part, (cpu, _) in zip(used, grants, strict=True)],
    )
    _starts(stand, count)


def _starts(stand: Stand, count: int) -> None:
    """The time from a request to its answer that the task has ended, with and without neighbours, in turns."""
    before = stand.mark()
    probes: dict[str, dict[str, object]] = {
        "function": {"function": "bench.tasks:nothing"},
        "command": {"command": ["/bin/true"]},
    }
    waits: dict[tuple[str, str], list[float]] = {}
    rounds = min(_ROUNDS, count)
    for _ in range(rounds):
        for kind in ("none", "burst", "quota"):
            with _hogs(stand, kind):
                for name, probe in probes.items():
                    waits.setdefault((name, kind), []).extend(_round_trips(stand, probe, count // rounds))
    for name in probes:
        p50 = {kind: statistics.median(waits[name, kind]) for kind in ("none", "burst", "quota")}
        stand.report(
            f"start of a {name} beside neighbours",
            rounds * (count // rounds) * len(p50),
            before,
            p50_ms={kind: round(1e3 * wait, 1) for kind, wait in p50.items()},
            slowest_ms={kind: round(1e3 * max(waits[name, kind]), 1) for kind in p50},
            against_idle={kind: round(wait / p50["none"], 2) for kind, wait in p50.items()},
        )


def _round_trips(stand: Stand, task: dict[str, object], count: int) -> list[float]:
    waits = []
    with stand.client() as client:
        for _ in range(count):
            began = time.perf_counter()
            made = client.post("/v1/tasks", json={**task, "lane": "urgent"}).raise_for_status().json()
            client.post("/v1/tasks/wait", json={"ids": [made["id"]], "timeout": 30}).raise_for_status()
            waits.append(time.perf_counter() - began)
    return waits


@contextmanager
def _hogs(stand: Stand, limit: str) -> Iterator[None]:
    """CPU-bound tasks in every grant of the node but one."""
    if limit == "none":
        yield
        return
    hog = {"function": "bench.tasks:spin", "args": [0.0, time.monotonic() + _LONG_SECONDS], "cpu": _BASIC_CPU}
    many = int(stand.slots / _BASIC_CPU) - 1
    with stand.client() as client:
        body = {"tasks": [{**hog, "cpu_limit": limit}] * many}
        ids = client.post("/v1/tasks/batch", json=body).raise_for_status().json()["ids"]
        _until_running(stand, ids)
        try:
            yield
        finally:
            client.post("/v1/tasks/cancel", json={"ids": ids}).raise_for_status()
            settle(stand, ids)


def _until_running(stand: Stand, ids: list[int]) -> None:
    end = time.monotonic() + 60
    with stand.client() as client:
        while time.monotonic() < end:
            states = [client.get(f"/v1/tasks/{one}").json()["state"] for one in ids]
            if set(states) == {"running"}:
                return
            time.sleep(0.05)
    raise TimeoutError("the neighbours did not start")


def _parts(stand: Stand, grants: list[tuple[float, str]], window: float) -> list[float]:
    """The part of a core that each task of these grants and limits used, all at the same time."""
    begin = time.monotonic() + _LEAD_SECONDS
    spin = {"function": "bench.tasks:spin", "args": [begin, begin + window]}
    body = {"tasks": [{**spin, "cpu": cpu, "cpu_limit": limit} for cpu, limit in grants]}
    with stand.client() as client:
        ids = client.post("/v1/tasks/batch", json=body).raise_for_status().json()["ids"]
        settle(stand, ids)
        results = [client.get(f"/v1/tasks/{one}").json()["result"] for one in ids]
    return [round(used / window, 2) for used in results]
