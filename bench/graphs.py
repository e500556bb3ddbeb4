"""Graphs: how long a chain takes from hop to hop, and how fast one parent's end sets many children free."""

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
    """Each task after the one before. A hop is from when one runs to when the next does, as the tasks tell."""
    warm_up(stand)
    tasks: list[dict[str, Any]] = [
        {
            "ref": f"link-{number}", "name": "link", "function": "bench.tasks:stamp", "args": [number], "cap": "1m",
            "after": [f"link-{number - 1}"] if number else [],
        }
        for number in range(count)
    ]  # fmt: skip
    with stand.client() as client:
        for _ in range(repetitions):
            stand.reset()
            before = stand.mark()
            client.post("/v1/graphs", json={"name": "chain", "tasks": tasks}).raise_for_status()
            stamps = _stamps(count)
            times = [ran_ns for number, ran_ns in sorted(stamps)]
            hops = sorted((after - one) / 1e6 for one, after in pairwise(times))
            stand.report(
                "chain", count, before, stand.mark(), hop_p50_ms=round(statistics.median(hops), 2),
                hop_p99_ms=round(hops[len(hops) * 99 // 100], 2), hop_max_ms=round(hops[-1], 2),
            )  # fmt: skip


def fan_out(stand: Stand, *, count: int, repetitions: int) -> None:
    """One parent and an array after it: from when the parent ran to the first and to the last child's run."""
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
                "fan-out", count, before, stand.mark(), first_child_ms=round((first - root) / 1e6, 2),
                last_child_ms=round((last - root) / 1e6, 1),
                children_per_second=round(len(stamps) / max(1e-9, (last - root) / 1e9)),
            )  # fmt: skip


def _stamps(count: int) -> list[tuple[int, int]]:
    """(number, when it ran) of each, once all have."""
    file = Path(f"{SHM}-stamps")
    end = time.monotonic() + PATIENCE_SECONDS
    while file.stat().st_size < 16 * count:
        if time.monotonic() > end:
            raise RuntimeError(f"only {file.stat().st_size // 16} of {count} ran")
        time.sleep(0.01)
    return list(struct.iter_unpack("qq", file.read_bytes()))  # type: ignore[arg-type]
