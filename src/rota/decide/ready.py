"""The ready set: tasks in memory by tenant, rank and shape, in each tenant's own order, whichever lane of the rank.

Removal is lazy: an entry is valid only while its task is in `ready` with the same version and lane. A task whose
concurrency key is full is parked with the key and queues again when one of the key's tasks ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container
from heapq import heappop, heappush, nsmallest

from rota.decide import concurrency_keys, fairness
from rota.decide.state import (
    LANE,
    SHAPE,
    TASK,
    VERSION,
    CoreState,
    Entry,
    Group,
    GroupName,
    RankQueue,
    Tenant,
    TenantQueue,
)
from rota.model.queue import OrderKey, ReadyTask

UNKNOWN_LANE = (1, False)
BACKFILL_LOOK = 64  # tasks of a shape among which a short one is searched for


def tenant_of(state: CoreState, tenant_id: int) -> Tenant:
    tenant = state.tenants.get(tenant_id)
    if tenant is None:
        tenant = state.tenants[tenant_id] = Tenant(tenant_id)
    return tenant


def add(state: CoreState, task: ReadyTask) -> None:
    """Adds a task. A newer version, or a more urgent lane, replaces an older copy; a running task is left alone."""
    number = task.id
    if number in state.running:
        return
    copy = state.ready.get(number)
    if copy is not None:
        if (copy.version, -copy.lane) >= (task.version, -task.lane):
            return
        remove(state, number)
    state.ready[number] = task
    tenant = state.tenants.get(task.tenant) or tenant_of(state, task.tenant)
    tenant.ready += 1
    push(state, task, tenant).ready += 1


def remove(state: CoreState, task_id: int) -> ReadyTask | None:
    task = state.ready.pop(task_id, None)
    if task is not None:
        state.tenants[task.tenant].ready -= 1
        state.groups[rank_of(state, task.lane), task.shape].ready -= 1
    return task


def rank_of(state: CoreState, lane: int) -> int:
    """The number that orders lanes: 2 · level, plus 1 if gated, so gated lanes come after the others of their level."""
    level, gated = state.lanes.get(lane, UNKNOWN_LANE)
    return 2 * level + gated


def order_of(state: CoreState, order: OrderKey) -> OrderKey:
    """A position in its tenant's order with the rank in place of the lane: lanes of one rank are served together."""
    lane, *rest = order
    urgency, start_by_us, cap_ms, number = rest
    return (rank_of(state, lane), urgency, start_by_us, cap_ms, number)


def is_gated(rank: int) -> bool:
    """Whether lanes of the rank are served only below the peak mark."""
    return rank % 2 == 1


def change_lane(state: CoreState, lane: int, level: int, *, gated: bool) -> None:
    """An operator changed a lane: all ready tasks queue again."""
    if state.lanes.get(lane) == (level, gated):
        return
    waiting = list(state.ready.values())
    for task in waiting:
        remove(state, task.id)
    for tenant in state.tenants.values():
        tenant.queues.clear()
    state.ranks.clear()
    state.groups.clear()
    state.reservations.clear()
    state.blocked.clear()
    state.lanes[lane] = (level, gated)
    for task in waiting:
        add(state, task)


def push(state: CoreState, task: ReadyTask, tenant: Tenant) -> Group:
    """Queues the task; returns its group."""
    lane, shape = task.lane, task.shape
    level, gated = state.lanes.get(lane, UNKNOWN_LANE)
    rank = 2 * level + gated
    queue = tenant.queues.get(rank)
    if queue is None:
        fairness.come_back(state, tenant)
        queue = tenant.queues[rank] = TenantQueue()
        rank_queue = state.ranks.get(rank)
        if rank_queue is None:
            rank_queue = state.ranks[rank] = RankQueue()
        fairness.enter(rank_queue, tenant)
    heap = queue.heaps.get(shape)
    if heap is None:
        heap = queue.heaps[shape] = []
    group = state.groups.get((rank, shape))
    if group is None:
        group = state.groups[rank, shape] = state.ranks[rank].open[shape] = Group(rank, shape, state.needs[shape])
    entry = (task.urgency, task.start_by_us, task.cap_ms, task.id, task.version, shape, lane)
    if heap:
        before = heap[0]
        heappush(heap, entry)
        if heap[0] is before:
            return group
        heads = queue.heads
        del heads[bisect_left(heads, before)]
    else:
        heap.append(entry)
    insort(queue.heads, entry)
    return group


def first(state: CoreState, rank: int, rank_queue: RankQueue, tenant: Tenant, skip: Container[int]) -> ReadyTask | None:
    """The tenant's first task of the rank whose shape is open and neither skipped nor stuck."""
    queue = tenant.queues.get(rank)
    if queue is None:
        return None
    may_start, stuck, ready = rank_queue.open, tenant.stuck, state.ready
    while True:
        for entry in queue.heads:
            shape = entry[SHAPE]
            if shape in may_start and shape not in skip and shape not in stuck:
                break
        else:
            _forget_empty(rank, rank_queue, tenant, queue)
            return None
        task = ready.get(entry[TASK])
        if task is not None and task.version == entry[VERSION] and task.lane == entry[LANE]:
            if task.concurrency_key is None or concurrency_keys.is_open(state, task):
                return task
            concurrency_keys.park(state, task)
        heap = queue.heaps[shape]  # the entry is stale or parked: the next of its shape is first
        heappop(heap)
        del queue.heads[bisect_left(queue.heads, entry)]
        if heap:
            insort(queue.heads, heap[0])


def _forget_empty(rank: int, rank_queue: RankQueue, tenant: Tenant, queue: TenantQueue) -> None:
    for shape in [shape for shape, heap in queue.heaps.items() if not heap]:
        del queue.heaps[shape]
    if not queue.heaps:
        del tenant.queues[rank]
        rank_queue.entries.pop(tenant.id, None)


def shorter(state: CoreState, heap: list[Entry], most_us: int) -> ReadyTask | None:
    """The first of a heap's next tasks with a cap of at most so long, for backfilling."""
    for entry in nsmallest(BACKFILL_LOOK, heap) if len(heap) <= 4 * BACKFILL_LOOK else sorted(heap[:BACKFILL_LOOK]):
        task = state.ready.get(entry[TASK])
        if (
            task is not None
            and task.version == entry[VERSION]
            and task.lane == entry[LANE]
            and 0 < task.cap_ms * 1000 <= most_us
            and concurrency_keys.is_open(state, task)
        ):
            return task
    return None


def take(state: CoreState, tenant: Tenant, task: ReadyTask, rank: int) -> None:
    """Removes a task that starts. Its entry goes at once if it is the first of its heap, else lazily."""
    shape = task.shape
    del state.ready[task.id]
    tenant.ready -= 1
    level, gated = state.lanes.get(task.lane, UNKNOWN_LANE)
    state.groups[2 * level + gated, shape].ready -= 1
    queue = tenant.queues.get(rank)
    if queue is None:
        return
    heap = queue.heaps.get(shape)
    if heap and heap[0][TASK] == task.id:
        heads = queue.heads
        entry = heappop(heap)
        del heads[0 if heads[0] is entry else bisect_left(heads, entry)]
        if heap:
            insort(heads, heap[0])


def close(state: CoreState, name: GroupName) -> None:
    """No task of the group can start before an attempt ends."""
    rank_queue = state.ranks[name[0]]
    group = rank_queue.open.pop(name[1], None)
    if group is not None:
        cpu = 0 if group.brief else group.need.cpu_milli
        rank_queue.least_cpu = min(rank_queue.least_cpu, cpu) if rank_queue.closed else cpu
        rank_queue.closed[name[1]] = group


def note_brief(state: CoreState, name: GroupName) -> None:
    """Some tasks of the group may start without free resources: any end of an attempt opens it again."""
    state.groups[name].brief = True
    state.ranks[name[0]].least_cpu = 0


def open_rank(state: CoreState, rank: int) -> None:
    rank_queue = state.ranks.get(rank)
    if rank_queue is not None and rank_queue.closed:
        rank_queue.open |= rank_queue.closed
        rank_queue.closed.clear()


def open_all(state: CoreState) -> None:
    for rank in state.ranks:
        open_rank(state, rank)
