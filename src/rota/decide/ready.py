"""The ready set: tasks in memory by lane, tenant and shape, each tenant in its own order.

Removal is lazy: a heap entry counts only while its task is still in `ready` with the same version. A task whose
concurrency key is full is parked with the key and comes back when one of the key's tasks ends.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from rota.decide.state import CoreState, Key, Tenant
from rota.model.queue import OrderKey, ReadyTask


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
    _push(state, task)


def remove(state: CoreState, task_id: int) -> ReadyTask | None:
    task = state.ready.pop(task_id, None)
    if task is not None:
        state.tenants[task.tenant].ready -= 1
    return task


def head(state: CoreState, tenant: Tenant, lane: int, skip: set[int]) -> ReadyTask | None:
    """The tenant's first task of the lane whose shape is not in `skip`. Parks tasks with a full key on the way."""
    shapes = tenant.lanes.get(lane)
    if not shapes:
        return None
    best: tuple[OrderKey, int, int] | None = None
    for shape, heap in list(shapes.items()):
        if shape in skip:
            continue
        _drop_stale(state, heap)
        if not heap:
            del shapes[shape]
        elif best is None or heap[0] < best:
            best = heap[0]
    return None if best is None else state.ready[best[1]]


def take(state: CoreState, task: ReadyTask) -> None:
    """The head just found leaves the ready set, because it starts."""
    heappop(state.tenants[task.tenant].lanes[task.lane][task.shape])
    remove(state, task.id)


def key_open(state: CoreState, task: ReadyTask) -> bool:
    if task.concurrency_key is None:
        return True
    key = state.keys.get((task.tenant, task.concurrency_key))
    return key is None or key.running < key.limit


def hold_key(state: CoreState, tenant: int, name: str | None, limit: int) -> None:
    if name is not None:
        key = state.keys.setdefault((tenant, name), Key(limit))
        key.limit = max(limit, key.running + 1)
        key.running += 1


def release_key(state: CoreState, tenant: int, name: str | None) -> None:
    """One of the key's tasks ended: those parked may be looked at again."""
    if name is None:
        return
    key = state.keys[tenant, name]
    key.running -= 1
    waiting, key.waiting = key.waiting, []
    for task in waiting:
        if state.ready.get(task.id) is task:
            _push(state, task)
    if key.running == 0:
        del state.keys[tenant, name]


def _push(state: CoreState, task: ReadyTask) -> None:
    tenant = state.tenants[task.tenant]
    lane = tenant.lanes.get(task.lane)
    if not lane:  # an empty lane and a tenant outside the rotation are the same thing
        lane = tenant.lanes[task.lane] = {}
        ring = state.rotation.get(task.lane)
        if ring is None:
            ring = state.rotation[task.lane] = deque()
        ring.append(tenant.id)
    heap = lane.get(task.shape)
    if heap is None:
        heap = lane[task.shape] = []
    heappush(heap, (task.order, task.id, task.version))


def _drop_stale(state: CoreState, heap: list[tuple[OrderKey, int, int]]) -> None:
    while heap:
        _, task_id, version = heap[0]
        task = state.ready.get(task_id)
        if task is None or task.version != version:
            heappop(heap)
        elif not key_open(state, task):
            heappop(heap)
            state.keys[task.tenant, str(task.concurrency_key)].waiting.append(task)
        else:
            return
