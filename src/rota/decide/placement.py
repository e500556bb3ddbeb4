"""The node for a shape: filter, score, pick; and how much work may wait behind the work a node runs.

The score is the capacity that a placement makes unusable. A node with GPUs is worth the GPU work it can still take: its
free devices, but no more than its CPUs and memory can feed, at the rate at which GPU work has asked for them. So CPU
work goes where it wastes no GPUs, and GPU work goes where CPU and GPU run out together. Without GPUs it is best fit:
the node with the least left over, so that big tasks still fit on another.

Each shape keeps its candidates sorted, the best at the end, where removal is cheap. A node that changed is scored again
when it comes first. Nodes with newly freed resources are in one log, and each shape reads on from where it stopped: no
node is scanned twice.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from rota.decide.node_resources import admits, could_hold, fits
from rota.decide.state import CPU, GPU, MEMORY, CoreState, Need, Node
from rota.model.resources import Resources

MOST_SHAPES = 256
NEAR = 64  # nodes considered for prefetch
SCALE = 16
_LEFT = 1 << 44  # above any number of milli-CPUs

FreeNode = tuple[list[int], Node]  # its free amounts beside it: one lookup less
# Minus its score, minus its id, its version then, the node: the greatest is the best; nodes are never compared.
Candidate = tuple[int, int, int, Node]


class Appetite:
    """CPU and memory that GPU work asks for per thousandth of a device, learned from arrivals."""

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
        if abs(rate - self.rate) * 20 > self.rate or not self.version:  # a small drift is not worth new scores
            self.rate = max(rate, 1)
            self.memory_rate = (SCALE * self.cpu, max(self.memory, 1)) if self.memory else (1, 1)
            self.version += 1

    def value(self, cpu: int, memory: int, gpu: int) -> int:
        """GPU capacity that a node can still use, in CPU."""
        worth, fed = self.rate * gpu, SCALE * cpu
        if fed < worth:
            worth = fed
        if self.memory:
            times, by = self.memory_rate
            fed = memory * times // by
        return fed if fed < worth else worth


class Candidates:
    """One shape's nodes, the best last."""

    __slots__ = ("appetite", "best_last", "fresh", "fresh_gpu", "read")

    def __init__(self) -> None:
        self.best_last: list[Candidate] = []
        self.fresh: Iterator[Candidate] = iter(())  # nodes with newly freed resources, scored as they are needed
        self.fresh_gpu: list[FreeNode] = []  # the same with GPUs: they come after the others, all at once
        self.read = 0  # how far the log was read
        self.appetite = -1  # the version of the appetite behind the scores


class Grown:
    """The nodes of a span of the log: nodes with GPUs, and the others, the one with the least CPU first."""

    __slots__ = ("cpu", "gpu", "others", "span")

    def __init__(self, span: tuple[int, int], grown: list[Node]) -> None:
        self.span = span
        others = sorted([(node.free[CPU], node.id, node) for node in grown if not node.free[GPU]])
        self.gpu = [(node.free, node) for node in grown if node.free[GPU]]
        self.others = [(node.free, node) for _, _, node in others]
        self.cpu = [cpu for cpu, _, _ in others]

    def others_for(self, need: Need) -> list[FreeNode]:
        """Nodes with enough CPU then: a pass only takes resources, so the others have too little now as well."""
        if need.has_gpu:
            return []
        return self.others[bisect_left(self.cpu, need.cpu_milli) :]


class Placement:
    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.appetite = Appetite()
        self._log: list[int] = []  # nodes with newly freed resources, in order
        self._begin = 0  # number of the log's first entry
        self._candidates: dict[int, Candidates] = {}
        self._near = 0
        self._grown: Grown | None = None
        self._possible: dict[int, bool] = {}

    # ---- what changed ---------------------------------------------------------------------------------------------

    def grew(self, node: Node) -> None:
        """The node has more free resources than before, or is new."""
        self._log.append(node.id)

    def trim(self) -> None:
        """Before a pass: clears a long log. Shapes that have not read all of it scan every node instead."""
        if len(self._log) > 8 * len(self._state.nodes) + 8_000:
            self._begin += len(self._log)
            self._log.clear()

    def forget(self) -> None:
        """Nodes came or went: every shape scans the nodes again."""
        self._candidates.clear()
        self._possible.clear()
        self._grown = None

    # ---- picking --------------------------------------------------------------------------------------------------

    def pick(self, need: Need, *, avoid: int | None = None, refuse: int | None = None) -> Node | None:
        """The best node with free resources; `avoid` only if there is no other, `refuse` never."""
        candidates = self._candidates.get(need.shape)
        if candidates is None or candidates.appetite != self.appetite.version or candidates.read < self._begin:
            candidates = self._gather(need)
        best_last = candidates.best_last
        # Newly freed nodes come last: older candidates are used up first, which packs tighter.
        if avoid is None and refuse is None:
            return (self._best(best_last, need) if best_last else None) or self._more(candidates, need)
        best = self._best_but(best_last, need, avoid, refuse)
        while (best is None or best.id == avoid) and self._more(candidates, need) is not None:
            best = self._best_but(best_last, need, avoid, refuse) or best
        return best

    def _best(self, best_last: list[Candidate], need: Need) -> Node | None:
        """The last candidate, after those that changed were scored again. It stays in the list."""
        cpu, memory, plain = need.cpu_milli, need.memory_bytes, need.plain
        while best_last:
            _, minus_number, version, node = best_last[-1]
            if node.version == version:
                return node
            best_last.pop()
            free = node.free
            free_cpu = free[CPU]
            if free_cpu < cpu or free[MEMORY] < memory or not (node.open if plain else self._takes(need, node)):
                continue
            again = (-self.score(need, node) if free[GPU] else cpu - free_cpu, minus_number, node.version, node)
            if not best_last or best_last[-1] <= again:  # a node with less left over is a better fit than before
                best_last.append(again)
                return node
            insort(best_last, again)
        return None

    def _best_but(self, best_last: list[Candidate], need: Need, avoid: int | None, refuse: int | None) -> Node | None:
        aside: list[Candidate] = []
        second: Node | None = None
        while (best := self._best(best_last, need)) is not None and (best.id == refuse or best.id == avoid):
            aside.append(best_last.pop())
            if best.id != refuse:
                second = best
        for entry in dict.fromkeys(aside):  # a node that was listed twice has two equal entries by now
            insort(best_last, entry)
        return best or second

    def score(self, need: Need, node: Node) -> int:
        free = node.free
        gpu = free[GPU]
        cpu = need.cpu_milli
        if not gpu:
            return free[CPU] - cpu
        asked = 1000 * need.gpus + need.gpu_milli
        value = self.appetite.value
        lost = value(free[CPU], free[MEMORY], gpu)
        lost -= value(free[CPU] - cpu, free[MEMORY] - need.memory_bytes, gpu - asked)
        return (2 * lost + (0 if asked else 1)) * _LEFT

    def fits_some(self, need: Need) -> bool:
        """Whether any node of the pool could hold it when empty."""
        possible = self._possible.get(need.shape)
        if possible is None:
            nodes = self._state.nodes.values()
            possible = self._possible[need.shape] = any(could_hold(need, node) and admits(need, node) for node in nodes)
        return possible

    def moving(self, need: Need) -> list[tuple[Node, int]]:
        """Nodes where tasks of the shape may wait behind running work, and how many of them run at once there soon."""
        return [
            (node, at_once)
            for node in self._nearby()
            if admits(need, node) and could_hold(need, node) and (at_once := self._quick_width(need, node)) > 0
        ]

    def near_open(self) -> list[Node]:
        return [node for node in self._nearby() if node.open]

    def _quick_width(self, need: Need, node: Node) -> int:
        """How many tasks of the shape run at once beside the node's long-running work."""
        if not node.slow:
            return width(need, node)
        held = [0] * len(node.total)
        for task in node.slow:
            for dimension, amount in self._state.needs[node.held[task]].amounts:
                held[dimension] += amount
        return min(
            ((node.total[dimension] - held[dimension]) // amount for dimension, amount in need.amounts), default=1
        )

    def _nearby(self) -> list[Node]:
        nodes = list(self._state.nodes.values())
        if len(nodes) <= NEAR:
            return nodes
        self._near = (self._near + NEAR) % len(nodes)
        return (nodes + nodes)[self._near : self._near + NEAR]

    def _more(self, candidates: Candidates, need: Need) -> Node | None:
        """Adds the next newly freed node that fits, and returns it: the best one if there were no other candidates.

        Nodes with the least CPU come first and one at a time: other shapes fill most of them before they are needed
        here. Nodes with GPUs are scored in another way, and come last and all at once.
        """
        best_last = candidates.best_last
        while True:
            for candidate in candidates.fresh:
                insort(best_last, candidate)
                return candidate[3]
            if candidates.fresh_gpu:
                before = len(best_last)
                best_last += self._fitting(need, candidates.fresh_gpu)
                candidates.fresh_gpu = []
                if len(best_last) > before:
                    best_last.sort()
                    return best_last[-1][3]
            if not self._read_on(candidates, need):
                return None

    def _read_on(self, candidates: Candidates, need: Need) -> bool:
        """Goes on to the nodes in the log since the shape last read it; whether there are any."""
        span = (candidates.read, self._begin + len(self._log))
        if span[0] == span[1]:
            return False
        candidates.read = span[1]
        if self._grown is None or self._grown.span != span:  # most shapes read the same span
            nodes = self._state.nodes
            numbers = dict.fromkeys(self._log[span[0] - self._begin :])
            self._grown = Grown(span, [nodes[number] for number in numbers if number in nodes])
        candidates.fresh = self._fitting(need, self._grown.others_for(need))
        candidates.fresh_gpu = self._grown.gpu
        return True

    def _fitting(self, need: Need, nodes: Iterable[FreeNode]) -> Iterator[Candidate]:
        """The nodes that fit, as candidates; each is checked when it is needed."""
        cpu, memory, plain = need.cpu_milli, need.memory_bytes, need.plain
        for free, node in nodes:
            if free[CPU] >= cpu and free[MEMORY] >= memory and (node.open if plain else self._takes(need, node)):
                yield (-self.score(need, node) if free[GPU] else cpu - free[CPU], -node.id, node.version, node)

    def _gather(self, need: Need) -> Candidates:
        if len(self._candidates) > MOST_SHAPES:
            self._candidates.clear()
        candidates = self._candidates.setdefault(need.shape, Candidates())
        candidates.best_last = sorted(self._fitting(need, [(node.free, node) for node in self._state.nodes.values()]))
        candidates.fresh, candidates.fresh_gpu = iter(()), []
        candidates.read = self._begin + len(self._log)
        candidates.appetite = self.appetite.version
        return candidates

    def _takes(self, need: Need, node: Node) -> bool:
        """Whether the need fits and the node may be used. CPU and memory come first: most fail by them."""
        free = node.free
        if free[CPU] < need.cpu_milli or free[MEMORY] < need.memory_bytes:
            return False
        return node.open if need.plain else fits(need, free, node.devices) and admits(need, node)


def width(need: Need, node: Node) -> int:
    """How many tasks of the shape the node runs at once when empty."""
    return max(1, min((node.total[dimension] // amount for dimension, amount in need.amounts), default=1))
