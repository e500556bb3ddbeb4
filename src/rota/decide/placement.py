"""Where a shape goes: filter, score, pick; and how much work may wait behind what a node runs now.

The score is what a placement destroys. A node with GPUs is worth the GPU time it can still sell: as much as its free
devices, but no more than its CPUs and memory can feed, at the rate at which GPU work has been asking for them. So CPU
work goes where there are no GPUs to spoil, and GPU work goes where CPU and GPU run out together. Without GPUs at
stake it is best fit: the node that keeps the least room, so that big tasks still find a big hole.

Each shape keeps its candidates in a heap, best first. A node that changed is scored again when it comes up, and nodes
that got room are noted in one log all shapes read on from where they stopped: nothing is ever scanned twice.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from rota.decide.rooms import admits, could_hold, fits
from rota.decide.state import CPU, GPU, MEMORY, CoreState, Need, Node
from rota.model.resources import Resources

MOST_SHAPES = 256
NEAR = 64  # nodes looked at for a place behind
SCALE = 16
_LEFT = 1 << 44  # above any number of milli-CPUs


class Appetite:
    """What GPU work asks for beside its GPUs, learned from what has come: CPU and memory per thousandth of a device."""

    def __init__(self) -> None:
        self.cpu = self.memory = self.gpu = 0
        self.rate = 11 * SCALE  # CPU (milli, scaled) per thousandth of a GPU
        self.memory_rate = (1, 1)  # scaled CPU per byte, as a fraction
        self.version = 0

    def learn(self, demand: Resources) -> None:
        gpu = 1000 * demand.gpus + demand.gpu_milli
        if not gpu:
            return
        self.cpu += demand.cpu_milli
        self.memory += demand.memory_bytes
        self.gpu += gpu
        rate = SCALE * self.cpu // self.gpu
        if abs(rate - self.rate) * 20 > self.rate or not self.version:  # small drifts are not worth scoring all again
            self.rate = max(rate, 1)
            self.memory_rate = (SCALE * self.cpu, max(self.memory, 1)) if self.memory else (1, 1)
            self.version += 1

    def value(self, cpu: int, memory: int, gpu: int) -> int:
        """GPU capacity a node can still sell, in CPU."""
        worth = min(self.rate * gpu, SCALE * cpu)
        if self.memory:
            times, by = self.memory_rate
            worth = min(worth, memory * times // by)
        return worth


class Candidates:
    """One shape's nodes, best first."""

    __slots__ = ("appetite", "heap", "read")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int]] = []  # (score, node, the node's version then)
        self.read = 0  # how far in the log
        self.appetite = -1  # under which appetite the scores were made


class Placement:
    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.appetite = Appetite()
        self._log: list[int] = []  # nodes that changed, in order
        self._begin = 0  # number of the log's first entry
        self._candidates: dict[int, Candidates] = {}
        self._near = 0
        self._fresh: list[Node] = []
        self._possible: dict[int, bool] = {}
        self._fresh_span = (-1, -1)

    # ---- what changed ---------------------------------------------------------------------------------------------

    def grew(self, node: Node) -> None:
        """The node has more room than before, or is new."""
        self._log.append(node.id)
        if len(self._log) > 8 * len(self._state.nodes) + 8_000:
            self._begin += len(self._log)
            self._log.clear()

    def forget(self) -> None:
        """Nodes came or went: begin again."""
        self._candidates.clear()
        self._possible.clear()
        self._fresh_span = (-1, -1)

    # ---- picking --------------------------------------------------------------------------------------------------

    def pick(self, need: Need, *, avoid: int | None = None, refuse: int | None = None) -> Node | None:
        """The best node with room now; `avoid` only if there is no other, `refuse` never."""
        candidates = self._candidates.get(need.shape)
        if candidates is None or candidates.appetite != self.appetite.version or candidates.read < self._begin:
            candidates = self._gather(need)
        found = self._best(candidates.heap, need, avoid, refuse)
        # Those that got room since come only now: what was there before is used up first, which packs tighter.
        if (found is None or found.id == avoid) and self._read_on(candidates, need):
            found = self._best(candidates.heap, need, avoid, refuse) or found
        return found

    def _best(self, heap: list[tuple[int, int, int]], need: Need, avoid: int | None, refuse: int | None) -> Node | None:
        nodes = self._state.nodes
        cpu, memory, plain = need.cpu_milli, need.memory_bytes, need.plain
        aside: list[tuple[int, int, int]] = []
        found: Node | None = None
        second: Node | None = None
        while heap:
            _, number, version = heap[0]
            node = nodes.get(number)
            if node is None:
                heappop(heap)
                continue
            if node.version != version:
                if (
                    (room := node.room)[CPU] >= cpu
                    and room[MEMORY] >= memory
                    and (node.open if plain else fits(need, node) and admits(need, node))
                ):
                    heapreplace(heap, (self.score(need, node), number, node.version))
                else:
                    heappop(heap)
                continue
            if number == refuse or number == avoid:  # noqa: SIM109 (both may be None)
                aside.append(heappop(heap))
                if number != refuse:
                    second = node
                continue
            found = node
            break
        for entry in aside:
            heappush(heap, entry)
        return found or second

    def score(self, need: Need, node: Node) -> int:
        room = node.room
        gpu = room[GPU]
        cpu = need.cpu_milli
        if not gpu:
            return room[CPU] - cpu
        asked = 1000 * need.gpus + need.gpu_milli
        value = self.appetite.value
        lost = value(room[CPU], room[MEMORY], gpu)
        lost -= value(room[CPU] - cpu, room[MEMORY] - need.memory_bytes, gpu - asked)
        return (2 * lost + (0 if asked else 1)) * _LEFT

    def fits_some(self, need: Need) -> bool:
        """Whether any node of the pool could hold it when empty."""
        known = self._possible.get(need.shape)
        if known is None:
            nodes = self._state.nodes.values()
            known = self._possible[need.shape] = any(could_hold(need, node) and admits(need, node) for node in nodes)
        return known

    def moving(self, need: Need) -> list[tuple[Node, int]]:
        """Nodes where work of the shape may wait behind what runs, with how many places there will be free soon."""
        return [
            (node, places)
            for node in self._nearby()
            if admits(need, node) and could_hold(need, node) and (places := width(need, node) - len(node.slow)) > 0
        ]

    def _nearby(self) -> list[Node]:
        nodes = list(self._state.nodes.values())
        if len(nodes) <= NEAR:
            return nodes
        self._near = (self._near + NEAR) % len(nodes)
        return (nodes + nodes)[self._near : self._near + NEAR]

    def _read_on(self, candidates: Candidates, need: Need) -> bool:
        """Takes in what got room since the shape was last here; whether there was anything for it."""
        begin, end = candidates.read, self._begin + len(self._log)
        candidates.read = end
        if begin == end:
            return False
        if self._fresh_span != (begin, end):  # most shapes stopped reading at the same place
            nodes = self._state.nodes
            grown = dict.fromkeys(self._log[begin - self._begin :])
            self._fresh = [nodes[number] for number in grown if number in nodes]
            self._fresh_span = (begin, end)
        cpu, memory, plain, found = need.cpu_milli, need.memory_bytes, need.plain, False
        for node in self._fresh:
            room = node.room
            if room[CPU] < cpu or room[MEMORY] < memory:
                continue
            if node.open if plain else fits(need, node) and admits(need, node):
                score = self.score(need, node) if room[GPU] else room[CPU] - cpu
                heappush(candidates.heap, (score, node.id, node.version))
                found = True
        if len(candidates.heap) > 4 * len(self._state.nodes) + 64:
            self._gather(need)
        return found

    def _gather(self, need: Need) -> Candidates:
        if len(self._candidates) > MOST_SHAPES:
            self._candidates.clear()
        candidates = self._candidates.setdefault(need.shape, Candidates())
        candidates.heap = [
            (self.score(need, node), node.id, node.version)
            for node in self._state.nodes.values()
            if fits(need, node) and admits(need, node)
        ]
        heapify(candidates.heap)
        candidates.read = self._begin + len(self._log)
        candidates.appetite = self.appetite.version
        return candidates


def width(need: Need, node: Node) -> int:
    """How many of the shape the node runs at once when empty."""
    return max(1, min((node.total[place] // amount for place, amount in need.amounts), default=1))
