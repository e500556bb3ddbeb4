"""Where a shape goes: filter, score, pick; and how much work may wait behind what a node runs now.

The score is what a placement destroys. A node with GPUs is worth the GPU time it can still sell: as much as its free
devices, but no more than its CPUs and memory can feed, at the rate at which GPU work has been asking for them. So CPU
work goes where there are no GPUs to spoil, and GPU work goes where CPU and GPU run out together. Without GPUs at
stake it is best fit: the node that keeps the least room, so that big tasks still find a big hole.

Each shape keeps its candidates in line, the best at the end, where taking one off costs nothing. A node that changed is
scored again when it comes up, and nodes that got room are noted in one log all shapes read on from where they stopped:
nothing is ever scanned twice.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from rota.decide.node_resources import admits, could_hold, fits
from rota.decide.state import CPU, GPU, MEMORY, CoreState, Need, Node
from rota.model.resources import Resources

MOST_SHAPES = 256
NEAR = 64  # nodes looked at for a place behind
SCALE = 16
_LEFT = 1 << 44  # above any number of milli-CPUs

FreeNode = tuple[list[int], Node]  # its room beside it, because that is what is looked at
# Minus its score, minus its id, its version then, the node: the greatest is the best; no two compare as far as that.
Candidate = tuple[int, int, int, Node]


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
        self.fresh: Iterator[Candidate] = iter(())  # got room since, looked at as they are asked for
        self.fresh_gpu: list[FreeNode] = []  # the same with GPUs: they come after the others, all at once
        self.read = 0  # how far in the log
        self.appetite = -1  # under which appetite the scores were made


class Grown:
    """The nodes of a span of the log: those with GPUs, and the others, the tightest first."""

    __slots__ = ("cpu", "gpu", "others", "span")

    def __init__(self, span: tuple[int, int], grown: list[Node]) -> None:
        self.span = span
        others = sorted([(node.free[CPU], node.id, node) for node in grown if not node.free[GPU]])
        self.gpu = [(node.free, node) for node in grown if node.free[GPU]]
        self.others = [(node.free, node) for _, _, node in others]
        self.cpu = [cpu for cpu, _, _ in others]

    def others_for(self, need: Need) -> list[FreeNode]:
        """Room is only taken since: who had too little CPU then, or no GPU, has not got it now."""
        if need.has_gpu:
            return []
        return self.others[bisect_left(self.cpu, need.cpu_milli) :]


class Placement:
    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.appetite = Appetite()
        self._log: list[int] = []  # nodes that got room, in order
        self._begin = 0  # number of the log's first entry
        self._candidates: dict[int, Candidates] = {}
        self._near = 0
        self._grown: Grown | None = None
        self._possible: dict[int, bool] = {}

    # ---- what changed ---------------------------------------------------------------------------------------------

    def grew(self, node: Node) -> None:
        """The node has more room than before, or is new."""
        self._log.append(node.id)

    def trim(self) -> None:
        """Before a pass: a log that got long is begun anew, and whoever has not read it all looks at every node."""
        if len(self._log) > 8 * len(self._state.nodes) + 8_000:
            self._begin += len(self._log)
            self._log.clear()

    def forget(self) -> None:
        """Nodes came or went: begin again."""
        self._candidates.clear()
        self._possible.clear()
        self._grown = None

    # ---- picking --------------------------------------------------------------------------------------------------

    def pick(self, need: Need, *, avoid: int | None = None, refuse: int | None = None) -> Node | None:
        """The best node with room now; `avoid` only if there is no other, `refuse` never."""
        candidates = self._candidates.get(need.shape)
        if candidates is None or candidates.appetite != self.appetite.version or candidates.read < self._begin:
            candidates = self._gather(need)
        best_last = candidates.best_last
        # Those that got room since come only then: what was there before is used up first, which packs tighter.
        if avoid is None and refuse is None:
            return (self._best(best_last, need) if best_last else None) or self._more(candidates, need)
        found = self._best_but(best_last, need, avoid, refuse)
        while (found is None or found.id == avoid) and self._more(candidates, need) is not None:
            found = self._best_but(best_last, need, avoid, refuse) or found
        return found

    def _best(self, best_last: list[Candidate], need: Need) -> Node | None:
        """The last in line once those that changed are scored again; it stays there."""
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
            if (
                not best_last or best_last[-1] <= again
            ):  # a node with less room left than before is a better fit than before
                best_last.append(again)
                return node
            insort(best_last, again)
        return None

    def _best_but(self, best_last: list[Candidate], need: Need, avoid: int | None, refuse: int | None) -> Node | None:
        aside: list[Candidate] = []
        second: Node | None = None
        while (found := self._best(best_last, need)) is not None and (found.id == refuse or found.id == avoid):
            aside.append(best_last.pop())
            if found.id != refuse:
                second = found
        for entry in dict.fromkeys(aside):  # the same node, noted twice, is the same entry by now
            insort(best_last, entry)
        return found or second

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
            if admits(need, node) and could_hold(need, node) and (places := self._quick_places(need, node)) > 0
        ]

    def near_open(self) -> list[Node]:
        return [node for node in self._nearby() if node.open]

    def _quick_places(self, need: Need, node: Node) -> int:
        """How many of the shape run at once in what work that may go on for long leaves of the node."""
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
        """Brings the next of those that got room since into line; one that has room for the shape, the best if the line
        was empty.

        The tightest come first and one at a time: other shapes fill most of them before this one gets to them. Those
        with GPUs are scored otherwise, come last and all at once.
        """
        best_last = candidates.best_last
        while True:
            for candidate in candidates.fresh:
                insort(best_last, candidate)
                return candidate[3]
            if candidates.fresh_gpu:
                known = len(best_last)
                best_last += self._fitting(need, candidates.fresh_gpu)
                candidates.fresh_gpu = []
                if len(best_last) > known:
                    best_last.sort()
                    return best_last[-1][3]
            if not self._read_on(candidates, need):
                return None

    def _read_on(self, candidates: Candidates, need: Need) -> bool:
        """Goes on to those in the log since the shape was last here; whether there are any."""
        span = (candidates.read, self._begin + len(self._log))
        if span[0] == span[1]:
            return False
        candidates.read = span[1]
        if self._grown is None or self._grown.span != span:  # most shapes stopped reading at the same place
            nodes = self._state.nodes
            numbers = dict.fromkeys(self._log[span[0] - self._begin :])
            self._grown = Grown(span, [nodes[number] for number in numbers if number in nodes])
        candidates.fresh = self._fitting(need, self._grown.others_for(need))
        candidates.fresh_gpu = self._grown.gpu
        return True

    def _fitting(self, need: Need, nodes: Iterable[FreeNode]) -> Iterator[Candidate]:
        """Those of them that take it, each as it is when it is asked for."""
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
        """Whether it has room now and may be used. Most fail by CPU or memory, and most ask for nothing else."""
        free = node.free
        if free[CPU] < need.cpu_milli or free[MEMORY] < need.memory_bytes:
            return False
        return node.open if need.plain else fits(need, node) and admits(need, node)


def width(need: Need, node: Node) -> int:
    """How many of the shape the node runs at once when empty."""
    return max(1, min((node.total[dimension] // amount for dimension, amount in need.amounts), default=1))
