"""Prefetch: the nodes where a task may wait behind the work they run, so that they are not idle for a round trip.

Short tasks wait behind short work. Calls that share a grant run at the same time beside a call that has one. The nodes
of a shape are looked up once a pass; nothing here starts anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from rota.decide.placement import Placement
from rota.decide.state import CoreState, Need, Node
from rota.model.queue import ReadyTask


class Prefetch:
    """Lives for one pass."""

    def __init__(self, state: CoreState, placement: Placement) -> None:
        self._state = state
        self._placement = placement
        self._behind: dict[int, list[tuple[Node, int]]] = {}  # shape → nodes that are free soon, how many run at once
        self._beside: dict[tuple[int, int, int], list[list[int]]] = {}  # (tenant, work, shape) → [calls left, −node]

    def pick_behind(self, need: Need, expected_us: int) -> Node | None:
        """The node whose present work ends first, if the task would wait there no longer than the policy allows."""
        policy = self._state.policy
        near = self._behind.get(need.shape)
        if near is None:
            # Only nodes with less than half of the allowed work waiting: each is refilled by many tasks at once.
            near = self._behind[need.shape] = [
                (node, at_once)
                for node, at_once in self._placement.moving(need)
                if 2 * node.behind_us < policy.ahead_us * at_once
            ]
        best: Node | None = None
        best_wait, most = policy.ahead_us, policy.most_behind
        for node, at_once in near:
            wait = (node.behind_us + expected_us) // at_once
            if wait <= best_wait and len(node.behind) < most:
                best, best_wait = node, wait - 1
        return best

    def pick_beside(self, task: ReadyTask, calls_per_grant: int) -> Node | None:
        """The node where most calls of the same work may still join a grant."""
        work = (task.tenant, task.work, task.shape)
        nodes = self._beside.get(work)
        if nodes is None:
            nodes = self._beside[work] = [
                [left, -node.id]
                for node in self._placement.near_open()
                if (left := self._left_beside(node, work, calls_per_grant)) > 0
            ]
        best = max(nodes, default=None)
        if best is None or not best[0]:
            return None
        best[0] -= 1
        return self._state.nodes[-best[1]]

    def _left_beside(self, node: Node, work: tuple[int, int, int], calls_per_grant: int) -> int:
        running = self._state.running

        def same_work(tasks: Iterable[int]) -> int:
            return sum((r := running[task]).tenant == work[0] and (r.work, r.shape) == work[1:] for task in tasks)

        granted = same_work(node.held)
        queue_left = self._state.policy.most_behind - len(node.behind)
        return min(queue_left, granted * (calls_per_grant - 1) - same_work(node.behind)) if granted else 0
