"""The ready set: tasks in memory by tenant, rank and shape, each tenant in its own order.

Removal is lazy: a heap entry counts only while its task is still in `ready` with the same version. A task whose
concurrency key is full is parked with the key and comes back when one of the key's tasks ends.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush, heapreplace, nsmallest

from rota.decide import fairness, keys
from rota.decide.state import CoreState, Entry, Kind, KindName, Rank, Tenant
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
        tenant.heaps.clear()
        tenant.heads.clear()
    state.ranks.clear()
    state.kinds.clear()
    state.reservations.clear()
    state.blocked.clear()
    state.lanes[lane] = (level, gated)
    for task in waiting:
        add(state, task)


def push(state: CoreState, task: ReadyTask) -> None:
    number = rank_of(state, task.lane)
    tenant = state.tenants[task.tenant]
    heaps = tenant.heaps.get(number)
    if heaps is None:
        fairness.come_back(state, tenant)
        heaps = tenant.heaps[number] = {}
        tenant.heads[number] = []
        rank = state.ranks.get(number)
        if rank is None:
            rank = state.ranks[number] = Rank()
        fairness.enter(rank, tenant)
    heap = heaps.get(task.shape)
    if heap is None:
        heap = heaps[task.shape] = []
        name = (number, task.shape)
        if name not in state.kinds:
            state.kinds[name] = state.ranks[number].open[task.shape] = Kind(number, task.shape, state.needs[task.shape])
    entry = (task.order, task.id, task.version)
    heappush(heap, entry)
    if heap[0] is entry:
        heappush(tenant.heads[number], (entry, task.shape))


def head(state: CoreState, heap: list[Entry]) -> Entry | None:
    """The first task of a heap that still counts; parks tasks with a full key on the way."""
    ready = state.ready
    while heap:
        entry = heap[0]
        task = ready.get(entry[1])
        if task is None or task.version != entry[2]:
            heappop(heap)
        elif task.concurrency_key is not None and not keys.is_open(state, task):
            heappop(heap)
            keys.park(state, task)
        else:
            return entry
    return None


def first(state: CoreState, number: int, rank: Rank, tenant: Tenant, skip: Container[int]) -> tuple[Entry, int] | None:
    """The tenant's first task of the rank, and its shape, among those that may find room."""
    heaps = tenant.heaps.get(number)
    if heaps is None:
        return None
    heads, stuck, ready = tenant.heads[number], tenant.stuck, state.ready
    while heads:  # nearly always the very first will do
        entry, shape = heads[0]
        heap = heaps.get(shape)
        if not heap or heap[0] is not entry:
            heappop(heads)
            continue
        task = ready.get(entry[1])
        if task is None or task.version != entry[2] or task.concurrency_key is not None:
            found = head(state, heap)
            if found is not entry:
                heappop(heads)
                if found is not None:
                    heappush(heads, (found, shape))
                continue
        if shape in rank.open and shape not in stuck and shape not in skip:
            return heads[0]
        break
    best: Entry | None = None
    best_shape = 0
    for shape in [s for s in rank.open if s in heaps] if len(rank.open) < len(heaps) else list(heaps):
        if shape not in rank.open or shape in stuck or shape in skip:
            continue
        found = head(state, heaps[shape])
        if found is not None and (best is None or found < best):
            best, best_shape = found, shape
    if best is None:
        _forget_empty(state, number, rank, tenant, heaps)
        return None
    heappush(heads, (best, best_shape))
    return best, best_shape


def _forget_empty(state: CoreState, number: int, rank: Rank, tenant: Tenant, heaps: dict[int, list[Entry]]) -> None:
    for shape in [shape for shape, heap in heaps.items() if not heap]:
        del heaps[shape]
    if not heaps:
        del tenant.heaps[number]
        del tenant.heads[number]
        rank.entries.pop(tenant.id, None)


def shorter(state: CoreState, heap: list[Entry], most_us: int) -> ReadyTask | None:
    """The first of a heap's next tasks that is over in so long at the latest, for backfilling."""
    for entry in nsmallest(BACKFILL_LOOK, heap) if len(heap) <= 4 * BACKFILL_LOOK else sorted(heap[:BACKFILL_LOOK]):
        task = state.ready.get(entry[1])
        if (
            task is not None
            and task.version == entry[2]
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
    heap = tenant.heaps.get(number, {}).get(task.shape)
    if heap and heap[0][1] == task.id:
        heappop(heap)
        if heap:
            heappush(tenant.heads[number], (heap[0], task.shape))


def close(state: CoreState, name: KindName) -> None:
    """Nothing of the kind can start before something ends."""
    rank = state.ranks[name[0]]
    kind = rank.open.pop(name[1], None)
    if kind is not None:
        rank.closed[name[1]] = kind


def open_rank(state: CoreState, number: int) -> None:
    rank = state.ranks.get(number)
    if rank is not None and rank.closed:
        rank.open |= rank.closed
        rank.closed.clear()


def open_all(state: CoreState) -> None:
    for rank in state.ranks.values():
        rank.open |= rank.closed
        rank.closed.clear()
