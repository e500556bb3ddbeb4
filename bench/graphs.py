"""Graphs: the time of one hop of a chain, and how fast one parent's end releases many dependents."""

from __future__ import annotations

import statistics
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.stand import SHM, Stand
from bench.workloads import warm_up

PATIENCE_SECONDS = 300.0


def chain(stand: Stand, *, count: int, repetitions: int) -> None:
    """Each task depends on the one before. A hop is the time from one task's run to the next, by their own stamps."""
    warm_up(stand)
    tasks: list[dict[str, Any]] = [
        {
            "ref": f"link-{number}",
            "name": "link",
            "function": "bench.tasks:stamp",
            "args": [number],
            "cap": "1m",
            "after": [f"link-{number - 1}"] if number else [],
        }
        for number in range(count)
    ]
    with stand.client() as client:
        for _ in range(repetitions):
            stand.reset()
            before = stand.mark()
            client.post("/v1/graphs", json={"name": "chain", "tasks": tasks}).raise_for_status()
            stamps = _stamps(count)
            times = [ran_ns for number, ran_ns in sorted(stamps)]
            hops = sorted((later - earlier) / 1e6 for earlier, later in pairwise(times))
            stand.report(
                "chain",
                count,
                before,
                stand.mark(),
                hop_p50_ms=round(statistics.median(hops), 2),
                hop_p99_ms=round(hops[len(hops) * 99 // 100], 2),
                hop_max_ms=round(hops[-1], 2),
            )


def fan_out(stand: Stand, *, count: int, repetitions: int) -> None:
    """One parent and an array after it: the time from the parent's run to the first and the last dependent's run."""
    warm_up(stand)
    work = {"function": "bench.tasks:stamp", "cap": "1m"}
    leaf = {**work, "ref": "leaf", "items": list(range(1, count)), "after": ["root"]}
    tasks = [{**work, "ref": "root", "args": [0]}, leaf]
    with stand.client() as client:
        for _ in range(repetitions):
            stand.reset()
            before = stand.mark()
            client.post("/v1/graphs", json={"name": "fan-out", "tasks": tasks}).raise_for_status()
            stamps = dict(_stamps(count))
            root = stamps.pop(0)
            first, last = min(stamps.values()), max(stamps.values())
            stand.report(
                "fan-out",
                count,
                before,
                stand.mark(),
                first_dependent_ms=round((first - root) / 1e6, 2),
                last_dependent_ms=round((last - root) / 1e6, 1),
                dependents_per_second=round(len(stamps) / max(1e-9, (last - root) / 1e9)),
            )


def _stamps(count: int) -> list[tuple[int, int]]:
    """(number, when it ran) of every task, once all have run."""
    file = Path(f"{SHM}-stamps")
    end = time.monotonic() + PATIENCE_SECONDS
    while file.stat().st_size < 16 * count:
        if time.monotonic() > end:
            raise RuntimeError(f"only {file.stat().st_size // 16} of {count} ran")
        time.sleep(0.01)
    return list(struct.iter_unpack("qq", file.read_bytes()))  # type: ignore[arg-type]
