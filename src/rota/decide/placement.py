"""Where a shape goes: filter, score, pick. And how much work may wait behind what a node runs now.

Best fit: the node that keeps the least room afterwards, so that big tasks still find a big hole. Ties are spread by
task id. A prefetched task waits on a node for at most `AHEAD_US` of expected work.
"""

from __future__ import annotations

from collections.abc import Iterable

from rota.decide.state import Node
from rota.model.resources import Shape

AHEAD_US = 50_000  # at most so much expected work waits behind a grant
OVERHEAD_US = 50  # what a task costs its node beside its own run time
MOST_BEHIND = 4_000


def admissible(node: Node, shape: Shape) -> bool:
    """Whether the node could ever hold the shape: open, labelled as required, large enough when empty."""
    if not node.open:
        return False
    if shape.require and any(node.labels.get(name) != value for name, value in shape.require.items()):
        return False
    return shape.resources.fits_in(node.capacity)


def pick(nodes: Iterable[Node], shape: Shape, *, task: int) -> Node | None:
    """The node to grant the shape on now, if any has room."""
    fitting = [node for node in nodes if shape.resources.fits_in(node.free) and admissible(node, shape)]
    if not fitting:
        return None
    if len(fitting) == 1:
        return fitting[0]
    return min(fitting, key=lambda node: (*_room_left(node, shape), (task + node.id) % len(fitting), node.id))


def pick_behind(nodes: Iterable[Node], shape: Shape, *, expected_us: int) -> Node | None:
    """The node whose present work ends soonest, if the task would wait there no longer than `AHEAD_US`."""
    best: Node | None = None
    best_wait = AHEAD_US
    for node in nodes:
        if len(node.behind) >= MOST_BEHIND or not admissible(node, shape):
            continue
        moving = width(node, shape) - len(node.slow)  # places that will be free soon
        if moving <= 0:
            continue
        wait = (node.behind_us + expected_us) // moving
        if wait <= best_wait:
            best, best_wait = node, wait - 1
    return best


def width(node: Node, shape: Shape) -> int:
    """How many of the shape the node runs at once when empty."""
    demand, has = shape.resources, node.capacity
    counts = [
        has_amount // amount
        for amount, has_amount in (
            (demand.cpu_milli, has.cpu_milli),
            (demand.memory_bytes, has.memory_bytes),
            (demand.gpus, has.gpus),
            (demand.ports, has.ports),
        )
        if amount
    ]
    return max(1, min(counts, default=1))


def _room_left(node: Node, shape: Shape) -> tuple[int, int, int]:
    left = node.free.minus(shape.resources)
    gpus_wasted = 0 if shape.resources.gpus else node.capacity.gpus  # keep GPU nodes for GPU work
    return gpus_wasted, left.cpu_milli, left.memory_bytes
