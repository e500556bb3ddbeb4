"""The random options of one seed: its size, its features and its kinds of faults."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from rota.model.resources import Resources, Shape

GIB = 1024**3

FAULTS = (
    "server crashes", "server pauses", "strikes at boundaries", "agent crashes", "agent pauses", "machines suspended",
    "links cut", "links clogged", "database restarts", "requests lost", "replies lost", "statements stall",
    "database cut off", "take-over lost", "frames replayed", "drains", "answers lost", "clocks wrong",
    "clocks jump", "limits change", "rules edited", "timetable jumps",
)  # fmt: skip

STREAMS = ((8, 0.3, 0.32), (8, 0.2, 0.5), (8, 0.1, 1.5))


@dataclass(slots=True)
class Options:
    pools: list[int]
    servers: int
    nodes: list[tuple[int, Resources]]  # pool and capacity of each
    shapes: dict[int, Shape]
    tenants: dict[int, tuple[int, int | None, int | None]]  # weight, CPU limit, memory limit
    tasks: int
    seconds: float  # how long faults are injected
    faults: tuple[str, ...]
    fault_seconds: float  # mean time between two faults
    ready_limit: int
    least_share: int
    lost_hints: float
    link_latency: float
    poll_seconds: float
    keyed: float  # share of submissions with idempotency keys
    duplicates: float
    dependencies: float
    cancels: float
    pauses: float
    edits: float
    operator_pauses: int  # of pools, tenants and nodes
    trouble: float  # share of tasks that do not simply succeed
    locks: float  # share of tasks with a concurrency key
    global_locks: float  # share of those keys counted across pools
    delays: float
    deadlines: float  # share of tasks with a tolerance
    expiry: float  # share of those that are dropped when late
    flood: bool  # one tenant submits most tasks at once
    long_share: float  # share of tasks that run for tens of seconds
    stream: tuple[int, float, float] | None  # small tasks without end: how many on a node, shortest, longest seconds
    frozen_limit_seconds: float  # how long agents keep frozen attempts without a leader

    def describe(self) -> str:
        return (
            f"{len(self.pools)} pools, {self.servers} servers, {len(self.nodes)} nodes, {len(self.tenants)} tenants, "
            f"{self.tasks} tasks, {self.seconds:.0f} s of: {', '.join(self.faults) or 'nothing wrong'}"
        )


def draw(chance: Random) -> Options:
    """Draws a world. Small ones are likelier: they run fast, and most bugs need few tasks."""
    pools = [1] if chance.random() < 0.65 else [1, 2]
    flood = chance.random() < 0.12
    tasks = min(500, 50 + int(chance.expovariate(1 / (80 if flood else 10))))
    shapes = {1: Shape(Resources(cpu_milli=500, memory_bytes=GIB // 2))}
    if chance.random() < 0.7:
        shapes[2] = Shape(Resources(cpu_milli=chance.choice((700, 1000, 1300)), memory_bytes=GIB))
    if chance.random() < 0.4:
        shapes[3] = Shape(Resources(cpu_milli=chance.choice((100, 2000)), memory_bytes=2 * GIB))
    node_count = max(len(pools), chance.choice((1, 2, 2, 3, 3, 4, 6)))
    nodes = []
    for number in range(node_count):
        cpu = chance.choice((2000, 2700, 3300, 4500))
        nodes.append(
            (pools[number % len(pools)], Resources(cpu_milli=cpu, memory_bytes=chance.choice((3, 5, 9)) * GIB))
        )
    tenants: dict[int, tuple[int, int | None, int | None]] = {}
    for tenant in range(1, 1 + (2 if flood else chance.choice((1, 2, 2, 3, 5)))):
        limit = chance.choice((2000, 3000)) if chance.random() < 0.3 and not flood else None
        tenants[tenant] = (chance.choice((1, 1, 2, 10)), limit, None)
    small = flood or chance.random() < 0.3
    share = chance.choice((0.25, 0.4))
    faults = tuple(fault for fault in FAULTS if chance.random() < share)
    servers, seconds = chance.choice((1, 2, 2, 3)), chance.uniform(30, 90)
    later_chance = Random(int(seconds * 1e9))  # for newer options, so that the other draws of a seed stay the same
    expiry, operator_pauses = later_chance.choice((0.0, 0.0, 0.5)), later_chance.choice((0, 0, 3, 8))
    stream = later_chance.choice(STREAMS) if later_chance.random() < 0.2 and not flood and len(nodes) <= 2 else None
    if stream is not None:
        pools, nodes = [1], [(1, capacity) for _, capacity in nodes]
    return Options(
        pools=pools,
        servers=servers,
        nodes=nodes,
        shapes=shapes,
        tenants=tenants,
        tasks=tasks,
        seconds=seconds,
        faults=faults,
        fault_seconds=chance.choice((4.0, 8.0, 15.0)),
        ready_limit=8 if small else 2000,
        least_share=4 if small else 200,
        lost_hints=chance.choice((0.0, 0.0, 0.5, 1.0)),
        link_latency=chance.choice((0.001, 0.01, 0.05)),
        poll_seconds=chance.choice((3.0, 4.0)),
        keyed=chance.choice((0.3, 1.0)),
        duplicates=chance.choice((0.0, 0.2)),
        dependencies=chance.choice((0.0, 0.3, 0.6)),
        cancels=chance.choice((0.0, 0.05, 0.2)),
        pauses=chance.choice((0.0, 0.05, 0.2)),
        trouble=chance.choice((0.05, 0.3)),
        locks=0.0 if flood else chance.choice((0.0, 0.0, 0.3)),
        global_locks=chance.choice((0.0, 0.5, 1.0)),
        delays=chance.choice((0.0, 0.2)),
        deadlines=0.0 if flood else chance.choice((0.0, 0.4)),
        flood=flood,
        long_share=chance.choice((0.05, 0.3)) * (stream is None),
        edits=chance.choice((0.0, 0.2, 0.5)),
        expiry=expiry,
        operator_pauses=operator_pauses,
        stream=stream,
        frozen_limit_seconds=later_chance.choice((3600.0, 3600.0, 3600.0, 20.0)),
    )
