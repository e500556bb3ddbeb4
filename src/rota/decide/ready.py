"""The ready set: tasks in memory by kind and tenant, each tenant in its own order.

Removal is lazy: a heap entry counts only while its task is still in `ready` with the same version. A task whose
concurrency key is full is parked with the key and comes back when one of the key's tasks ends.
"""

from __future__ import annotations

from heapq import heappop, heappush

from rota.decide import fairness
from rota.decide.state import CoreState, Key, Kind, KindName, Tenant
from rota.model.queue import OrderKey, ReadyTask

Entry = tuple[OrderKey, int, int]


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


def remove(state: CoreState, task_id: int) -> ReadyTask | None:
    task = state.ready.pop(task_id, None)
    if task is not None:
        state.tenants[task.tenant].ready -= 1
    return task


def kind_name(state: CoreState, task: ReadyTask) -> KindName:
    level, gated = state.lanes.get(task.lane, (1, False))
    return 2 * level + gated, task.shape, task.cap_ms.bit_length()


def push(state: CoreState, task: ReadyTask) -> None:
    name = kind_name(state, task)
    kind = state.kinds.get(name)
    if kind is None:
        kind = state.kinds[name] = Kind(name[0], task.shape)
    tenant = state.tenants[task.tenant]
    heap = kind.tasks.get(tenant.id)
    if heap is None:
        heap = kind.tasks[tenant.id] = []
        fairness.come_back(state, tenant)
        tenant.kinds[name] = None
        fairness.enter(kind, tenant)
    heappush(heap, (task.order, task.id, task.version))


def head(state: CoreState, name: KindName, kind: Kind, tenant: Tenant) -> Entry | None:
    """The tenant's first task of the kind; parks tasks with a full key on the way, and forgets an empty heap."""
    heap = kind.tasks.get(tenant.id)
    if heap is None:
        return None
    while heap:
        entry = heap[0]
        task = state.ready.get(entry[1])
        if task is None or task.version != entry[2]:
            heappop(heap)
        elif not key_open(state, task):
            heappop(heap)
            state.keys[task.tenant, str(task.concurrency_key)].waiting.append(task)
        else:
            return entry
    del kind.tasks[tenant.id]
    kind.entries.pop(tenant.id, None)
    tenant.kinds.pop(name, None)
    tenant.parked.pop(name, None)
    return None


def top(state: CoreState, name: KindName, kind: Kind) -> Tenant | None:
    """The kind's tenant that is next, by its charge as it is now."""
    heap = kind.tenants
    while heap:
        key, number = heap[0]
        tenant = state.tenants[number]
        if kind.entries.get(number) != key:
            heappop(heap)  # it has another entry, or none any more
        elif tenant.key != key:
            heappop(heap)
            fairness.enter(kind, tenant)
        elif head(state, name, kind, tenant) is None:
            heappop(heap)
        else:
            return tenant
    if not kind.tasks:
        del state.kinds[name]
    return None


def park(state: CoreState, name: KindName, kind: Kind, tenant: Tenant) -> None:
    """The tenant may not start such tasks until something of its own ends."""
    kind.entries.pop(tenant.id, None)
    tenant.parked[name] = None


def unpark(state: CoreState, tenant: Tenant) -> None:
    for name in tenant.parked:
        fairness.enter(state.kinds[name], tenant)
    tenant.parked.clear()


def take(state: CoreState, kind: Kind, task: ReadyTask) -> None:
    """The head just found leaves the ready set, because it starts."""
    heappop(kind.tasks[task.tenant])
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
            push(state, task)
    if key.running == 0:
        del state.keys[tenant, name]
