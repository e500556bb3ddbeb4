"""The records of a pass: `Pass` lives for one pass over the ready set, `Turn` while one rank of it is served.

They only carry out what `planning` has decided: a start, a tenant passed over, a shape skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.decide import fairness, ready
from rota.decide.grants import Grants
from rota.decide.messages import Decision, Start
from rota.decide.placement import Placement
from rota.decide.prefetch import Prefetch
from rota.decide.state import CoreState, Need, Node, RankQueue, Tenant
from rota.model.queue import ReadyTask


@dataclass(slots=True)
class Pass:
    """Lives for one pass."""

    state: CoreState
    placement: Placement
    grants: Grants
    prefetch: Prefetch
    now_us: int
    left: int  # how many decisions may still be taken
    keeps_for_urgent: bool
    decisions: list[Decision] = field(default_factory=list)
    passed_over: list[tuple[int, Tenant]] = field(default_factory=list)  # (rank, tenant): they queue again afterwards
    demoted: dict[int, None] = field(default_factory=dict)  # tenants whose further urgent tasks count as normal
    full: dict[int, None] = field(default_factory=dict)  # shapes that fit on no node
    asked: int = 0  # tasks for which preemption was considered

    def start(self, rank: int, tenant: Tenant, task: ReadyTask, node: Node, need: Need, *, behind: bool) -> None:
        state = self.state
        ready.take(state, tenant, task, rank)
        # Before the charge: the tenant that is served has the lowest one, so a tenant that comes back begins there.
        state.served, state.floor_key = tenant.id, tenant.key
        running = self.grants.start(task, node, need, tenant, rank, behind=behind, now_us=self.now_us)
        self.decisions.append(Start(task, node.id, behind, running.devices))
        self.left -= 1

    def queue_again(self) -> None:
        """Tenants that were passed over queue again."""
        for rank, tenant in self.passed_over:
            queue = self.state.ranks[rank]
            if rank in tenant.queues and tenant.id not in queue.entries:
                fairness.enter(queue, tenant)
        self.passed_over = []


@dataclass(slots=True)
class Turn:
    """Lives while one rank is served."""

    rank: int
    queue: RankQueue
    gated: bool
    running_limit: int | None  # of the pool
    has_limits: bool  # a start must pass other limits than its tenant's own
    takes_demoted: bool  # urgent tasks of demoted tenants are served here
    hurried: bool  # tenants whose next task can wait long are passed over
    waved_on: int = 0  # how many were
    blocked: ReadyTask | None = None  # the rank's first task that fits on no node
    reserved: bool = False  # a reservation for it was tried
    skip: dict[int, dict[int, None]] = field(default_factory=dict)  # tenant → shapes not to be tried again
    over: bool = False

    def skip_shape(self, tenant: Tenant, shape: int) -> None:
        self.skip.setdefault(tenant.id, {})[shape] = None
