"""The ready set: tasks in memory by tenant, rank and shape, each tenant in its own order.

Removal is lazy: an entry counts only while its task is still in `ready` with the same version and lane. A task whose
concurrency key is full is parked with the key and comes back when one of the key's tasks ends.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush, heapreplace, nsmallest

from rota.decide import fairness, keys
from rota.decide.state import LANE, SHAPE, TASK, VERSION, CoreState, Entry, Kind, KindName, Line, Rank, Tenant
from rota.model.queue import ReadyTask

BACKFILL_LOOK = 64  # tasks of one shape looked through for one that is short enough


def tenant_of(state: CoreState, tenant_id: int) -> Tenant:
    tenant = state.tenants.get(tenant_id)
    if tenant is None:
        tenant = state.tenants[tenant_id] = Tenant(tenant_id)
    return tenant


def add(state: CoreState, task: ReadyTask) -> None:
    """Takes a task in. A newer version, or a more urgent lane, replaces what is known; one that runs is left alone."""
    known = state.ready.get(task.id)
    if task.id in state.running:
        return
    if known is not None and (known.version, -known.lane) >= (task.version, -task.lane):
        return
    if known is not None:
        remove(state, task.id)
    state.ready[task.id] = task
    tenant_of(state, task.tenant).ready += 1
    push(state, task)
    state.kinds[rank_of(state, task.lane), task.shape].ready += 1


def remove(state: CoreState, task_id: int) -> ReadyTask | None:
    task = state.ready.pop(task_id, None)
    if task is not None:
        state.tenants[task.tenant].ready -= 1
        state.kinds[rank_of(state, task.lane), task.shape].ready -= 1
    return task


def rank_of(state: CoreState, lane: int) -> int:
    """Twice the lane's level, plus one where it is gated: gated lanes come after the others of their level."""
    level, gated = state.lanes.get(lane, (1, False))
    return 2 * level + gated


def change_lane(state: CoreState, lane: int, level: int, *, gated: bool) -> None:
    """An operator moved a lane: everything stands in line again."""
    if state.lanes.get(lane) == (level, gated):
        return
    waiting = list(state.ready.values())
    for task in waiting:
        remove(state, task.id)
    for tenant in state.tenants.values():
        tenant.lines.clear()
    state.ranks.clear()
    state.kinds.clear()
    state.reservations.clear()
    state.blocked.clear()
    state.lanes[lane] = (level, gated)
    for task in waiting:
        add(state, task)


def push(state: CoreState, task: ReadyTask) -> None:
    number, shape = rank_of(state, task.lane), task.shape
    tenant = state.tenants[task.tenant]
    line = tenant.lines.get(number)
    if line is None:
        fairness.come_back(state, tenant)
        line = tenant.lines[number] = Line()
        rank = state.ranks.get(number)
        if rank is None:
            rank = state.ranks[number] = Rank()
        fairness.enter(rank, tenant)
    heap = line.heaps.get(shape)
    if heap is None:
        heap = line.heaps[shape] = []
        name = (number, shape)
        if name not in state.kinds:
            state.kinds[name] = state.ranks[number].open[shape] = Kind(number, shape, state.needs[shape])
    entry = (task.lane, task.urgency, task.start_by_us, task.cap_ms, task.id, task.version, shape)
    heappush(heap, entry)
    if heap[0] is entry:
        heappush(line.heads, entry)


def first(state: CoreState, number: int, rank: Rank, tenant: Tenant, skip: Container[int]) -> ReadyTask | None:
    """The tenant's first task of the rank among those that may find room."""
    line = tenant.lines.get(number)
    if line is None:
        return None
    heaps, heads, may_start, stuck = line.heaps, line.heads, rank.open, tenant.stuck
    while heads:  # nearly always the very first will do
        entry = heads[0]
        shape = entry[SHAPE]
        heap = heaps.get(shape)
        if not heap or heap[0] is not entry:
            heappop(heads)
        elif shape not in may_start or shape in stuck or shape in skip:
            break
        elif (task := _counts(state, line, entry)) is not None:
            return task
    while True:
        best: Entry | None = None
        for shape in may_start if len(may_start) < len(heaps) else heaps:
            heap = heaps.get(shape)
            if not heap or (best is not None and best < heap[0]):
                continue
            if shape in may_start and shape not in stuck and shape not in skip:
                best = heap[0]
        if best is None:
            _forget_empty(number, rank, tenant, line)
            return None
        task = _counts(state, line, best)
        if task is not None:
            return task


def _counts(state: CoreState, line: Line, entry: Entry) -> ReadyTask | None:
    """The task of an entry that is first in its heap. One that may not start leaves, and the next is first."""
    task = state.ready.get(entry[TASK])
    if task is not None and task.version == entry[VERSION] and task.lane == entry[LANE]:
        if task.concurrency_key is None or keys.is_open(state, task):
            return task
        keys.park(state, task)
    _drop_first(line, entry[SHAPE])
    return None


def _drop_first(line: Line, shape: int) -> None:
    heap, heads = line.heaps[shape], line.heads
    entry = heappop(heap)
    if heads and heads[0] is entry:
        if heap:
            heapreplace(heads, heap[0])
        else:
            heappop(heads)
    elif heap:
        heappush(heads, heap[0])


def _forget_empty(number: int, rank: Rank, tenant: Tenant, line: Line) -> None:
    for shape in [shape for shape, heap in line.heaps.items() if not heap]:
        del line.heaps[shape]
    if not line.heaps:
        del tenant.lines[number]
        rank.entries.pop(tenant.id, None)


def shorter(state: CoreState, heap: list[Entry], most_us: int) -> ReadyTask | None:
    """The first of a heap's next tasks that is over in so long at the latest, for backfilling."""
    for entry in nsmallest(BACKFILL_LOOK, heap) if len(heap) <= 4 * BACKFILL_LOOK else sorted(heap[:BACKFILL_LOOK]):
        task = state.ready.get(entry[TASK])
        if (
            task is not None
            and task.version == entry[VERSION]
            and task.lane == entry[LANE]
            and 0 < task.cap_ms * 1000 <= most_us
            and keys.is_open(state, task)
        ):
            return task
    return None


def top(state: CoreState, rank: Rank) -> Tenant | None:
    """The tenant that is next, by its charge as it is now."""
    heap, entries = rank.heap, rank.entries
    while heap:
        key, number = heap[0]
        if entries.get(number) != key:
            heappop(heap)  # it has another entry, or none any more
            continue
        tenant = state.tenants[number]
        if tenant.key != key:
            entries[number] = tenant.key
            heapreplace(heap, (tenant.key, number))
            continue
        return tenant
    return None


def take(state: CoreState, tenant: Tenant, task: ReadyTask, number: int) -> None:
    """It leaves the ready set, because it starts. An entry that is not in front goes when it comes up."""
    del state.ready[task.id]
    tenant.ready -= 1
    state.kinds[rank_of(state, task.lane), task.shape].ready -= 1
    line = tenant.lines.get(number)
    if line is not None:
        heap = line.heaps.get(task.shape)
        if heap and heap[0][TASK] == task.id:
            _drop_first(line, task.shape)


def close(state: CoreState, name: KindName) -> None:
    """Nothing of the kind can start before something ends."""
    rank = state.ranks[name[0]]
    kind = rank.open.pop(name[1], None)
    if kind is not None:
        cpu = 0 if kind.brief else kind.need.cpu_milli
        rank.least_cpu = min(rank.least_cpu, cpu) if rank.closed else cpu
        rank.closed[name[1]] = kind


def note_brief(state: CoreState, name: KindName) -> None:
    """Some of the kind may start without a node of their own: any end may let one in."""
    state.kinds[name].brief = True
    state.ranks[name[0]].least_cpu = 0


def open_rank(state: CoreState, number: int) -> None:
    rank = state.ranks.get(number)
    if rank is not None and rank.closed:
        rank.open |= rank.closed
        rank.closed.clear()


def open_all(state: CoreState) -> None:
    for rank in state.ranks.values():
        rank.open |= rank.closed
        rank.closed.clear()
