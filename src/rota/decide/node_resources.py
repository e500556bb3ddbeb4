"""A node's free resources: whether a need fits, taking it, giving it back. The pool's totals follow every change."""

from __future__ import annotations

from collections.abc import Sequence

from rota.decide.state import CPU, MEMORY, WHOLE, CoreState, Dimensions, Need, Node, Tenant
from rota.model.isolation import meets
from rota.model.node import Closed
from rota.model.resources import Resources, Shape


def need_of(dimensions: Dimensions, number: int, shape: Shape) -> Need:
    vector = dimensions.vector(shape.resources)
    amounts = tuple((dimension, amount) for dimension, amount in enumerate(vector) if amount)
    gpus, milli = shape.resources.gpus, shape.resources.gpu_milli
    cpu, memory = shape.resources.cpu_milli, shape.resources.memory_bytes
    plain = not shape.require and all(dimension in (CPU, MEMORY) for dimension, _ in amounts)
    require = tuple(sorted(shape.require.items()))
    return Need(number, amounts, require, gpus, 0 if gpus else milli, cpu, memory, plain, bool(gpus or milli))


def make_node(state: CoreState, number: int, capacity: Resources, labels: dict[str, str], *, draining: bool) -> Node:
    total, devices = state.dimensions.vector(capacity), [WHOLE] * capacity.gpus
    node = Node(number, capacity, labels, not draining, total, list(total), devices, state.dimensions)
    node.closed_for = Closed.DRAINING if draining else None
    return node


def fits(need: Need, free: list[int], devices: list[int]) -> bool:
    """Whether the need fits into these free resources. `admits` checks labels and whether the node is open."""
    for dimension, amount in need.amounts:
        if dimension >= len(free) or free[dimension] < amount:
            return False
    if need.gpus:
        return devices.count(WHOLE) >= need.gpus
    return not need.gpu_milli or max(devices, default=0) >= need.gpu_milli


def could_hold(need: Need, node: Node) -> bool:
    """Whether the node could hold it when empty."""
    total = node.total
    if any(dimension >= len(total) or total[dimension] < amount for dimension, amount in need.amounts):
        return False
    return len(node.devices) >= need.gpus


def labelled(need: Need, node: Node) -> bool:
    """Whether the node has the labels it requires."""
    return all(meets(node.labels, name, value) for name, value in need.require)


def admits(need: Need, node: Node) -> bool:
    return node.open and (not need.require or labelled(need, node))  # hot: most tasks require nothing


def move(need: Need, gpus: Sequence[int], free: list[int], devices: list[int], sign: int = 1) -> None:
    """Adds what an attempt holds to free resources, or takes it from them. For forecasts: the pool's totals stay."""
    for dimension, amount in need.amounts:
        free[dimension] += sign * amount
    for device in gpus:
        devices[device] += sign * (need.gpu_milli or WHOLE)


def take(state: CoreState, node: Node, need: Need) -> tuple[int, ...]:
    """Takes the resources; returns the GPUs."""
    node.version += 1
    free, used = node.free, state.used
    if need.plain and node.open:
        cpu, memory = need.cpu_milli, need.memory_bytes
        free[CPU] -= cpu
        free[MEMORY] -= memory
        used[CPU] += cpu
        used[MEMORY] += memory
        return ()
    for dimension, amount in need.amounts:
        free[dimension] -= amount
        if node.open:
            used[dimension] += amount
    if not need.has_gpu:
        return ()
    devices = _devices(node.devices, need)
    for device in devices:
        node.devices[device] -= need.gpu_milli or WHOLE
    return devices


def give_back(state: CoreState, node: Node, need: Need, devices: tuple[int, ...]) -> None:
    node.version += 1
    free, used = node.free, state.used
    if need.plain and node.open:
        cpu, memory = need.cpu_milli, need.memory_bytes
        free[CPU] += cpu
        free[MEMORY] += memory
        used[CPU] -= cpu
        used[MEMORY] -= memory
        return
    for dimension, amount in need.amounts:
        free[dimension] += amount
        if node.open:
            used[dimension] -= amount
    for device in devices:
        node.devices[device] += need.gpu_milli or WHOLE


def count_in(state: CoreState, node: Node) -> None:
    """Adds the node's capacity and grants to the pool's totals."""
    for vector in (state.total, state.used):
        vector.extend([0] * (len(node.total) - len(vector)))
    _count(state, node, 1)


def count_out(state: CoreState, node: Node) -> None:
    _count(state, node, -1)


def _count(state: CoreState, node: Node, sign: int) -> None:
    for dimension, amount in enumerate(node.total):
        state.total[dimension] += sign * amount
        state.used[dimension] += sign * (amount - node.free[dimension])
    for need in state.needs.values():
        need.share_ppm = share_ppm(state, need)


def utilisation_ppm(state: CoreState) -> int:
    """The utilisation of the resource that is used most."""
    return max(
        (used * 1_000_000 // total for used, total in zip(state.used, state.total, strict=True) if total), default=0
    )


def capacity_of(state: CoreState) -> tuple[int, int]:
    """Cores and memory of all nodes, draining ones too: their grants still count."""
    nodes = state.nodes.values()
    return sum(node.total[CPU] for node in nodes), sum(node.total[MEMORY] for node in nodes)


def held_ppm(tenant: Tenant, capacity: tuple[int, int]) -> int:
    """The tenant's dominant share of the pool now; at most all of it, even if prefetched work would exceed that."""
    cpu, memory = capacity
    held = max(
        tenant.cpu_milli * 1_000_000 // cpu if cpu else 0, tenant.memory_bytes * 1_000_000 // memory if memory else 0
    )
    return min(held, 1_000_000)


def share_ppm(state: CoreState, need: Need) -> int:
    """The dominant share: the largest part of any resource of the pool that the need takes."""
    total = state.total
    shares = [amount * 1_000_000 // total[d] for d, amount in need.amounts if d < len(total) and total[d]]
    return max(1, max(shares, default=1))


def _devices(free: list[int], need: Need) -> tuple[int, ...]:
    """Whole devices in order; a fraction on the device with the least left over."""
    if need.gpus:
        return tuple(device for device, left in enumerate(free) if left == WHOLE)[: need.gpus]
    return (min((left, device) for device, left in enumerate(free) if left >= need.gpu_milli)[1],)
