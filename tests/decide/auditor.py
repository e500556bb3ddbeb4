"""An independent auditor of the core: recounts everything from `running`, and says what should have been started.

`CoreState.check` is the core's own opinion of itself; this one shares no arithmetic with it.
"""

from __future__ import annotations

from rota.decide.core import Core
from rota.decide.state import CoreState, Node
from rota.model.queue import ReadyTask
from rota.model.resources import Resources

NORMAL = (1, False)  # level and gate of an unknown lane


def audit(state: CoreState) -> None:
    """Every number the core keeps equals what a recount gives."""
    for tenant in state.tenants.values():
        own = [running for running in state.running.values() if running.tenant == tenant.id]
        demands = [state.shapes[running.shape].resources for running in own]
        assert tenant.cpu_milli == sum(demand.cpu_milli for demand in demands)
        assert tenant.memory_bytes == sum(demand.memory_bytes for demand in demands)
    for name, key in state.keys.items():
        own = [r for r in state.running.values() if (r.tenant, r.concurrency_key, r.concurrency_global) == name]
        assert key.running == len(own)
        assert key.running > 0 or key.waiting or key.barred or key.elsewhere, "a key nobody holds is forgotten"
    for task, running in state.running.items():
        node = state.nodes.get(running.node)
        if node is not None:
            assert (task in node.held) + (task in node.behind) == 1, f"task {task} is in one place on its node"
            assert running.granted == (task in node.held)
    for node in state.nodes.values():
        assert set(node.held) | set(node.behind) <= set(state.running)
        assert node.slow <= set(node.held)
        for custom in node.free_resources.custom.values():
            assert custom >= 0
        free = node.free_resources
        assert min(free.cpu_milli, free.memory_bytes, free.disk_bytes, free.gpus, free.ports) >= 0
        _audit_devices(state, node)
    _audit_pool(state)
    assert state.preemptible == sum(1 for running in state.running.values() if running.preemptible)
    for tenant in state.tenants.values():
        assert tenant.running == sum(1 for running in state.running.values() if running.tenant == tenant.id)


def _audit_devices(state: CoreState, node: Node) -> None:
    """No GPU is promised beyond itself; who asked for whole ones has them alone, who asked for a part has one."""
    used: dict[int, list[int]] = {}
    for task in node.held:
        running = state.running[task]
        demand = state.shapes[running.shape].resources
        assert len(set(running.devices)) == len(running.devices), f"task {task} has a GPU twice"
        assert len(running.devices) == (demand.gpus or (1 if demand.gpu_milli else 0)), (
            f"task {task}: {running.devices}"
        )
        for device in running.devices:
            assert 0 <= device < node.capacity.gpus, f"task {task} has GPU {device} of {node.capacity.gpus}"
            used.setdefault(device, []).append(1000 if demand.gpus else demand.gpu_milli)
    for device, parts in used.items():
        assert sum(parts) <= 1000, f"GPU {device} of node {node.id} is used {parts}"
    for task in node.behind:
        assert state.running[task].devices == (), f"task {task} waits behind and has GPUs"


def _audit_pool(state: CoreState) -> None:
    """The pool's totals, which peaks and shares depend on, are those of the open nodes."""
    open_nodes = [node for node in state.nodes.values() if node.open]
    held = [state.shapes[shape].resources for node in open_nodes for shape in node.held.values()]
    for place, name in [(0, "cpu_milli"), (1, "memory_bytes"), (2, "disk_bytes"), (3, "ports"), (4, "iops")]:
        assert state.total[place] == sum(getattr(node.capacity, name) for node in open_nodes), name
        assert state.used[place] == sum(getattr(demand, name) for demand in held), name
    assert state.total[6] == sum(1000 * node.capacity.gpus for node in open_nodes)
    assert state.used[6] == sum(1000 * demand.gpus + demand.gpu_milli for demand in held)
    for name, place in state.dimensions.custom.items():
        total = state.total[place] if place < len(state.total) else 0
        assert total == sum(node.capacity.custom.get(name, 0) for node in open_nodes), name
        used = state.used[place] if place < len(state.used) else 0
        assert used == sum(demand.custom.get(name, 0) for demand in held), name


def left_waiting_for_nothing(core: Core) -> list[ReadyTask]:
    """Ready tasks that could start this moment: none may be left after an unbounded plan."""
    return [task for task in core.state.ready.values() if _could_start(core.state, task)]


def _could_start(state: CoreState, task: ReadyTask) -> bool:
    shape = state.shapes[task.shape]
    tenant = state.tenants[task.tenant]
    if tenant.cpu_milli_limit is not None and tenant.cpu_milli + shape.resources.cpu_milli > tenant.cpu_milli_limit:
        return False
    if (
        tenant.memory_bytes_limit is not None
        and tenant.memory_bytes + shape.resources.memory_bytes > tenant.memory_bytes_limit
    ):
        return False
    if task.concurrency_key is not None:
        key = state.keys.get((task.tenant, task.concurrency_key, task.concurrency_global))
        if key is not None and task.concurrency_global:
            if key.barred or key.running + key.elsewhere >= task.concurrency_limit:
                return False
        elif key is not None and key.running >= task.concurrency_limit:
            return False
    if tenant.running_limit is not None and tenant.running >= tenant.running_limit:
        return False
    if state.policy.pool_running_limit is not None and len(state.running) >= state.policy.pool_running_limit:
        return False
    if _gated(state, task) or _kept_for_urgent(state, task) or _urgent_enough(state, task):
        return False
    kept = {reservation.node for reservation in state.reservations.values()}
    return any(
        node.open
        and node.id not in kept
        and _fits(state, shape.resources, node)
        and all(node.labels.get(name) == value for name, value in shape.require.items())
        for node in state.nodes.values()
    )


def _kept_for_urgent(state: CoreState, task: ReadyTask) -> bool:
    """A tenth of everything is kept for urgent work once some was seen, where that tenth is of any use."""
    if _urgent(state, task) or state.urgent_seen_us is None:
        return False
    part = state.policy.urgent_kept_ppm
    kept = False
    for name, amount in _amounts(state.shapes[task.shape].resources).items():
        total = sum(_amounts(node.capacity).get(name, 0) for node in state.nodes.values() if node.open)
        free = sum(_free(state, node).get(name, 0) for node in state.nodes.values() if node.open)
        least = total * part // 1_000_000
        kept = kept or (amount > 0 and least >= amount and free - amount < least)
    return kept


def _urgent_enough(state: CoreState, task: ReadyTask) -> bool:
    return _urgent(state, task) and any(other.tenant != task.tenant for other in state.ready.values())


def _free(state: CoreState, node: Node) -> dict[str, int]:
    return {**_amounts(node.free_resources), "gpu": sum(_left_on_devices(state, node))}


def _urgent(state: CoreState, task: ReadyTask) -> bool:
    return state.lanes.get(task.lane, NORMAL) == (0, False)


def _gated(state: CoreState, task: ReadyTask) -> bool:
    return state.lanes.get(task.lane, NORMAL)[1]


def _fits(state: CoreState, demand: Resources, node: Node) -> bool:
    plain = Resources(
        cpu_milli=demand.cpu_milli,
        memory_bytes=demand.memory_bytes,
        disk_bytes=demand.disk_bytes,
        ports=demand.ports,
        iops=demand.iops,
        bandwidth_kbit=demand.bandwidth_kbit,
        custom=demand.custom,
    )
    left = _left_on_devices(state, node)
    return (
        plain.fits_in(node.free_resources)
        and left.count(1000) >= demand.gpus
        and (not demand.gpu_milli or max(left, default=0) >= demand.gpu_milli)
    )


def _left_on_devices(state: CoreState, node: Node) -> list[int]:
    left = [1000] * node.capacity.gpus
    for task in node.held:
        running = state.running[task]
        demand = state.shapes[running.shape].resources
        for device in running.devices:
            left[device] -= 1000 if demand.gpus else demand.gpu_milli
    return left


def _amounts(resources: Resources) -> dict[str, int]:
    gpu = 1000 * resources.gpus + resources.gpu_milli
    return {"cpu": resources.cpu_milli, "memory": resources.memory_bytes, "gpu": gpu, **resources.custom}
