"""The core's memory: plain records and the arithmetic on them. No decision is taken here.

Amounts are lists of integers, one for each dimension, because they are compared a million times; events and answers
use `Resources`. `check` states the invariants that must hold after every event: tests and the simulator call it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from rota.decide.forecasts.throughput import Ended
from rota.decide.policy import Policy
from rota.model.node import Closed
from rota.model.queue import NEVER_US, ReadyTask
from rota.model.resources import Resources, Shape

CPU, MEMORY, DISK, PORTS, IOPS, BANDWIDTH, GPU = range(7)  # GPU counts thousandths of devices
FIXED = 7
WHOLE = 1000  # a whole device

GroupName = tuple[int, int]  # rank, shape
# A queued task: its order in its rank (minus priority, start-by, cap, id), its version, its shape, its lane. One flat
# tuple, because millions of them are compared.
Entry = tuple[int, int, int, int, int, int, int]
TASK, VERSION, SHAPE, LANE = 3, 4, 5, 6
# Tenant, name, and whether the key is counted across pools: the same name counted in this pool is another key.
KeyName = tuple[int, str, bool]


@dataclass(slots=True)
class Dimensions:
    """The resources that the elements of a vector stand for: the fixed ones, then custom names as they come."""

    custom: dict[str, int] = field(default_factory=dict)

    def index(self, name: str) -> int:
        return self.custom.setdefault(name, FIXED + len(self.custom))

    def vector(self, amounts: Resources) -> list[int]:
        custom = {self.index(name): amount for name, amount in amounts.custom.items()}
        return [
            amounts.cpu_milli,
            amounts.memory_bytes,
            amounts.disk_bytes,
            amounts.ports,
            amounts.iops,
            amounts.bandwidth_kbit,
            WHOLE * amounts.gpus + amounts.gpu_milli,
            *(custom.get(number, 0) for number in range(FIXED, FIXED + len(self.custom))),
        ]

    def resources(self, vector: list[int], whole_gpus: int) -> Resources:
        return Resources(
            cpu_milli=vector[CPU],
            memory_bytes=vector[MEMORY],
            disk_bytes=vector[DISK],
            ports=vector[PORTS],
            iops=vector[IOPS],
            bandwidth_kbit=vector[BANDWIDTH],
            gpus=whole_gpus,
            custom={name: vector[dimension] for name, dimension in self.custom.items() if dimension < len(vector)},
        )


class Need(msgspec.Struct, gc=False):
    """A shape as placement needs it: only the amounts it asks for."""

    shape: int
    amounts: tuple[tuple[int, int], ...]  # (dimension, amount), no amount is 0
    require: tuple[tuple[str, str], ...]
    gpus: int  # whole devices
    gpu_milli: int  # or a fraction of one
    cpu_milli: int = 0
    memory_bytes: int = 0
    plain: bool = False  # asks only for CPU and memory, on any node
    has_gpu: bool = False
    share_ppm: int = 1  # its dominant share of the pool; refreshed as nodes come and go


class Node(msgspec.Struct, eq=False):
    id: int
    capacity: Resources
    labels: dict[str, str]
    open: bool  # takes new work
    total: list[int]
    free: list[int]
    devices: list[int]  # thousandths free on each GPU
    dimensions: Dimensions
    here: bool = True  # connected; a node that left stays until all of its attempts have ended
    version: int = 0  # changes with its free resources
    held: dict[int, int] = {}  # tasks with a grant → shape
    # Tasks that wait behind those with a grant → (shape, expected µs).
    behind: OrderedDict[int, tuple[int, int]] = msgspec.field(default_factory=OrderedDict)
    behind_us: int = 0
    slow: set[int] = set()  # tasks with a grant that may run for long: nothing waits behind them
    closed_for: Closed | None = None  # None: it is open, or gone

    @property
    def free_resources(self) -> Resources:
        return self.dimensions.resources(self.free, sum(1 for left in self.devices if left == WHOLE))


class Running(msgspec.Struct, gc=False):
    tenant: int
    shape: int
    node: int
    work: int
    concurrency_key: str | None
    concurrency_global: bool
    granted: bool  # False while it waits behind others on its node
    rank: int = 2
    cap_us: int = 0
    preemptible: bool = False
    since_us: int = 0  # when it was granted (or put behind)
    charged: int = 0  # to its tenant so far, in the units of that moment
    charged_us: int = 0  # the run time that was charged
    devices: tuple[int, ...] = ()
    stopping: bool = False  # was asked to give way


@dataclass(slots=True)
class TenantQueue:
    """A tenant's ready tasks of one rank: a heap for each shape, and the heads of the heaps in order."""

    heaps: dict[int, list[Entry]] = field(default_factory=dict)  # by shape
    heads: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Tenant:
    id: int
    weight: int = 1
    cpu_milli_limit: int | None = None
    memory_bytes_limit: int | None = None
    running_limit: int | None = None
    paused: bool = False  # no new task of it starts
    longest_cap_us: int = NEVER_US  # of its plan: a task without a cap of its own has this one
    earlier_caps_us: dict[int, None] = field(default_factory=dict)  # what that was before the plan changed
    cap_used_ppm: int = 1_000_000  # of the caps it gave: the part that its attempts ran, on average over names
    limited: bool = False  # has any of these limits, or is paused
    urgent_ppm: int = 500_000
    cpu_milli: int = 0  # held now, prefetched included
    memory_bytes: int = 0
    running: int = 0
    urgent_held_ppm: int = 0  # of the pool, through the urgent lane
    ready: int = 0  # tasks in memory
    key: int = 0  # orders tenants: resource-time charged by weight, in units that inflate with time
    queues: dict[int, TenantQueue] = field(default_factory=dict)  # by rank
    stuck: dict[int, None] = field(default_factory=dict)  # shapes over its own limits, until one of its tasks ends


@dataclass(slots=True)
class Key:
    """A concurrency key: how many tasks run, how many may, and which wait for it."""

    limit: int
    running: int = 0
    adopted: int = 0  # how many ran when a new leader found more than the limit
    waiting: list[ReadyTask] = field(default_factory=list)
    # Only for keys that are counted across pools: the store decides about those.
    elsewhere: int = 0  # places that other pools held, or queued for earlier, at the last poll
    barred: bool = False  # refused, or a place is being given back: no start until news of it


@dataclass(slots=True)
class Group:
    """Ready tasks of one rank and one shape, alike to placement. Closed while none of them can start."""

    rank: int
    shape: int
    need: Need
    ready: int = 0  # tasks in memory
    brief: bool = False  # some may start without free resources, e.g. wait behind others: any end may let one in


@dataclass(slots=True)
class RankQueue:
    """The tenants with ready tasks in the lanes of one rank, and the groups of these tasks."""

    heap: list[tuple[int, int]] = field(default_factory=list)  # (key, tenant)
    entries: dict[int, int] = field(default_factory=dict)  # tenant → the key of its valid entry
    open: dict[int, Group] = field(default_factory=dict)  # by shape
    closed: dict[int, Group] = field(default_factory=dict)
    least_cpu: int = 0  # no closed group can start on a node with less


@dataclass(slots=True)
class Blocked:
    """A rank's first task that fits on no node. It stays the first one until it starts or may not start."""

    task: int
    by_us: int = NEVER_US  # the earliest time that any of its reservations has named


@dataclass(slots=True)
class Reservation:
    """A node kept for a task that fits nowhere now: others may use it if that doesn't delay the task."""

    task: int
    rank: int
    node: int
    at_us: int  # when the task will probably fit there; estimated again in every pass
    spare: list[int]  # free resources beside it at that moment
    preempting: bool = False  # tasks were preempted for it
    firm: bool = False  # the task should have started by now: others may use the node only if they surely end in time


@dataclass(slots=True)
class CoreState:
    policy: Policy = field(default_factory=Policy)
    dimensions: Dimensions = field(default_factory=Dimensions)
    nodes: dict[int, Node] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    needs: dict[int, Need] = field(default_factory=dict)
    lanes: dict[int, tuple[int, bool]] = field(  # lane → (level, gated)
        default_factory=lambda: {0: (0, False), 1: (1, False), 2: (1, False), 3: (2, True)}
    )
    tenants: dict[int, Tenant] = field(default_factory=dict)
    ready: dict[int, ReadyTask] = field(default_factory=dict)
    running: dict[int, Running] = field(default_factory=dict)
    keys: dict[KeyName, Key] = field(default_factory=dict)
    cooled: dict[tuple[int, str], int] = field(default_factory=dict)  # cooled-down keys (tenant, name), until when (µs)
    ranks: dict[int, RankQueue] = field(default_factory=dict)
    groups: dict[GroupName, Group] = field(default_factory=dict)
    preemptible: int = 0  # how many running tasks could be asked to give way
    run_us: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → mean run time
    p90_us: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → nine in ten are shorter
    shape_p90_us: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, shape) → likewise
    shape_run_us: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, shape) → mean run time
    calls_per_grant: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → if more than 1
    ended: Ended = field(default_factory=Ended)  # attempts that ended lately
    total: list[int] = field(default_factory=lambda: [0] * FIXED)  # of open nodes
    used: list[int] = field(default_factory=lambda: [0] * FIXED)  # granted on open nodes
    peak: bool = False
    urgent_seen_us: int | None = None
    served: int | None = None  # the tenant served last
    floor_key: int = 0  # its key then, before the charge: a tenant that comes back does not begin below it
    blocked: dict[int, Blocked] = field(default_factory=dict)  # by rank
    kept: bool = False  # capacity was kept for urgent work in the last pass
    reservations: dict[int, Reservation] = field(default_factory=dict)  # rank → reservation
    inflation_from_us: int | None = None
    inflation: tuple[int, int, int] = (-1, 1, 1)  # as of when, and the worth of a charge then, as a fraction
    preempted: int = 0  # tokens used of the bucket
    preempted_us: int = 0

    def check(self) -> None:
        """Raises AssertionError with the story if an invariant is broken."""
        used = [0] * len(self.total)
        total = [0] * len(self.total)
        for node in self.nodes.values():
            held = [0] * len(node.free)
            devices = [WHOLE] * len(node.devices)
            for task, shape in node.held.items():
                running, need = self.running[task], self.needs[shape]
                assert running.granted, f"task {task} holds a grant on {node.id} but is marked behind"
                for dimension, amount in need.amounts:
                    held[dimension] += amount
                for device in running.devices:
                    devices[device] -= need.gpu_milli or WHOLE
            assert [a + b for a, b in zip(held, node.free, strict=True)] == node.total, f"node {node.id}: free is wrong"
            assert min(node.free) >= 0, f"node {node.id} holds {held}, more than {node.total}"
            assert devices == node.devices, f"node {node.id}: {devices} free on its GPUs, not {node.devices}"
            assert min(node.devices, default=0) >= 0, f"node {node.id}: a GPU is held twice"
            assert node.behind_us == sum(us for _, us in node.behind.values()), f"node {node.id}: behind_us is wrong"
            if node.open:
                total = [a + b for a, b in zip(total, _padded(node.total, total), strict=True)]
                used = [a + b for a, b in zip(used, _padded(held, used), strict=True)]
        assert total == self.total, f"the pool has {total}, not {self.total}"
        assert used == self.used, f"the pool uses {used}, not {self.used}"
        for task in self.running:
            assert task not in self.ready, f"task {task} is both ready and running"
        for (owner, name, _), key in self.keys.items():
            assert key.running <= max(key.limit, key.adopted), (
                f"key {name} of {owner}: {key.running} run, {key.limit} may"
            )
        counts: dict[int, int] = {}
        for ready in self.ready.values():
            counts[ready.tenant] = counts.get(ready.tenant, 0) + 1
        for tenant in self.tenants.values():
            assert tenant.ready == counts.get(tenant.id, 0), f"tenant {tenant.id}: ready count is wrong"

    def digest(self) -> tuple[object, ...]:
        """Everything that later decisions depend on, to compare two runs."""
        return (
            tuple((n.id, (*n.free,), (*n.devices,), (*n.held,), (*n.behind.items(),)) for n in self.nodes.values()),
            tuple(self.ready),
            tuple(self.running),
            tuple((number, tenant.key) for number, tenant in self.tenants.items()),
            tuple((number, (*rank.heap,), (*rank.closed,)) for number, rank in self.ranks.items()),
            tuple((level, r.task, r.node, r.at_us) for level, r in self.reservations.items()),
        )


def _padded(vector: list[int], like: list[int]) -> list[int]:
    return vector + [0] * (len(like) - len(vector))
