"""What the core remembers. Plain records and the arithmetic on them; no decision is taken here.

`check` states the invariants that must hold after every event: tests and the simulator switch it on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import msgspec

from rota.model.queue import OrderKey, ReadyTask
from rota.model.resources import Resources, Shape


@dataclass(slots=True)
class Node:
    id: int
    capacity: Resources
    labels: dict[str, str]
    open: bool  # takes new work
    free: Resources
    held: dict[int, int] = field(default_factory=dict)  # task → shape: these have a grant
    behind: OrderedDict[int, tuple[int, int]] = field(
        default_factory=OrderedDict
    )  # task → (shape, expected µs), in order
    behind_us: int = 0
    slow: set[int] = field(default_factory=set)  # held tasks that may go on for long: nothing waits behind them


class Running(msgspec.Struct, gc=False):
    tenant: int
    shape: int
    node: int
    work: int
    concurrency_key: str | None
    granted: bool  # False while it waits behind others on its node


@dataclass(slots=True)
class Tenant:
    id: int
    weight: int = 1
    cpu_milli_limit: int | None = None
    memory_bytes_limit: int | None = None
    cpu_milli: int = 0  # held now, prefetched included
    memory_bytes: int = 0
    ready: int = 0  # tasks in memory
    # lane → shape → heap of (order, task id, version)
    lanes: dict[int, dict[int, list[tuple[OrderKey, int, int]]]] = field(default_factory=dict)


@dataclass(slots=True)
class Key:
    """A concurrency key: how many run, how many may, and who waits for it."""

    limit: int
    running: int = 0
    waiting: list[ReadyTask] = field(default_factory=list)


@dataclass(slots=True)
class CoreState:
    nodes: dict[int, Node] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    tenants: dict[int, Tenant] = field(default_factory=dict)
    ready: dict[int, ReadyTask] = field(default_factory=dict)
    running: dict[int, Running] = field(default_factory=dict)
    keys: dict[tuple[int, str], Key] = field(default_factory=dict)  # by tenant: a key is its owner's affair
    rotation: dict[int, deque[int]] = field(default_factory=dict)  # lane → tenants with ready work, next first
    run_us: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → mean run time

    def check(self) -> None:
        """Raises AssertionError with the story if an invariant is broken."""
        for node in self.nodes.values():
            total = Resources()
            for task, shape in node.held.items():
                total = total.plus(self.shapes[shape].resources)
                assert self.running[task].granted, f"task {task} holds a grant on {node.id} but is marked behind"
            assert total.fits_in(node.capacity), f"node {node.id} holds {total}, more than {node.capacity}"
            assert total.plus(node.free) == node.capacity.plus(Resources()), f"node {node.id}: free is wrong"
            assert node.behind_us == sum(us for _, us in node.behind.values()), f"node {node.id}: behind_us is wrong"
        for task in self.running:
            assert task not in self.ready, f"task {task} is both ready and running"
        for (owner, name), key in self.keys.items():
            assert key.running <= key.limit, f"key {name} of {owner}: {key.running} run, {key.limit} may"
        counts: dict[int, int] = {}
        for ready in self.ready.values():
            counts[ready.tenant] = counts.get(ready.tenant, 0) + 1
        for tenant in self.tenants.values():
            assert tenant.ready == counts.get(tenant.id, 0), f"tenant {tenant.id}: ready count is wrong"

    def digest(self) -> tuple[object, ...]:
        """Everything that later decisions depend on, comparable between two runs."""
        return (
            tuple((n.id, n.free, tuple(n.held), tuple(n.behind.items())) for n in self.nodes.values()),
            tuple(self.ready),
            tuple(self.running),
            tuple((lane, tuple(ring)) for lane, ring in self.rotation.items()),
        )
