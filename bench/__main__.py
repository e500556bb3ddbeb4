"""`python -m bench`: runs all workloads, or the named ones; JSON lines on standard output and in bench/out/."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from bench import execution, graphs, neighbours, peers, retention, timetable, workloads
from bench.stand import machine, print_line, stand

PARTS = (
    "functions",
    "batches",
    "singles",
    "latency",
    "backlog",
    "processes",
    "sandboxes",
    "sandboxed-functions",
    "neighbours",
    "output",
    "rest",
    "schedules",
    "chain",
    "fan-out",
    "retention",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="workloads to run; all unless named")
    parser.add_argument("--slots", type=int, default=2, help="CPU slots of the worker")
    parser.add_argument("--count", type=int, default=0, help="tasks in each repetition, if the workload has a number")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--backlog", default="2000,200000,1000000", help="sizes of the backlog, smallest first")
    parser.add_argument("--peers", type=Path, help="folder of the peers' harness")
    parser.add_argument("--peer", action="append", default=[], help="another task queue to measure; repeatable")
    chosen = parser.parse_args()
    parts = chosen.parts or PARTS
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes are stopped
    out = print_line(Path(__file__).parent / "out" / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    out({"work": "machine", **machine()})
    repetitions = chosen.repetitions
    for part in parts:
        with stand(out, slots=chosen.slots) as ready:
            match part:
                case "functions":
                    workloads.functions(ready, count=chosen.count or 50_000, repetitions=repetitions)
                case "batches":
                    workloads.batches(ready, count=chosen.count or 50_000, repetitions=repetitions)
                case "singles":
                    workloads.singles(ready, count=chosen.count or 9_600, clients=32)
                case "latency":
                    workloads.latency(ready, count=chosen.count or 300)
                case "backlog":
                    sizes = tuple(int(size) for size in chosen.backlog.split(","))
                    workloads.backlog(ready, sizes=sizes, window=10.0)
                case "processes":
                    workloads.processes(ready, count=chosen.count or 3_000, repetitions=repetitions)
                case "sandboxes":
                    execution.sandboxes(ready, count=chosen.count or 600, repetitions=repetitions)
                case "sandboxed-functions":
                    execution.sandboxed_functions(ready, count=chosen.count or 20_000, repetitions=repetitions)
                case "neighbours":
                    neighbours.neighbours(ready, count=chosen.count or 60, window=4.0)
                case "output":
                    execution.output(ready, megabytes=chosen.count or 2_000)
                case "rest":
                    execution.rest(ready, seconds=10.0)
                case "schedules":
                    timetable.schedules(ready, count=chosen.count or 100_000, repetitions=1)
                case "chain":
                    graphs.chain(ready, count=chosen.count or 1_000, repetitions=repetitions)
                case "fan-out":
                    graphs.fan_out(ready, count=chosen.count or 10_000, repetitions=repetitions)
                case "retention":
                    retention.retention(ready, per_second=chosen.count or 5_000, rows=500_000)
    if chosen.peers is not None:
        names = chosen.peer or [
            "celery-redis-prefork",
            "dramatiq-redis",
            "procrastinate",
            "pgqueuer-b10",
            "pgqueuer-b500",
        ]
        peers.run_peers(chosen.peers, names, "w1,w2", out)
        peers.run_peers(chosen.peers, ["huey-redis"], "w3", out)


main()
