"""The auditor: keeps its own history of the cluster and reports which invariant of docs/promises.md was broken.

It shares no code with the product: it gets numbers, and has its own copy of the rules for states, limits and times.
Every observation is checked at once, so a violation is found at the event that caused it. This file is about processes
on nodes, leases and leaders' decisions; `ledger.py` is about rows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rota.simulate.world.ledger import Ledger
from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.task_record import DONE, NAMES, RUNNING, Violation


@dataclass(slots=True)
class Boot:
    """One start of an agent."""

    name: str
    capacity: tuple[int, int]
    suspended: bool = False  # its whole machine is stopped, the keeper included
    floor: int = 0  # the highest epoch it has seen
    running: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # (task, attempt) → its demand
    frozen: set[tuple[int, int]] = field(default_factory=set)  # those of `running` that stand still

    def lets_act(self, task: int, attempt: int) -> bool:
        return (task, attempt) in self.running and (task, attempt) not in self.frozen and not self.suspended


@dataclass(slots=True)
class Term:
    """The facts that one leader has received, for judging its decisions."""

    ready: dict[int, None] = field(default_factory=dict)
    nodes: dict[int, tuple[int, int]] = field(default_factory=dict)
    granted: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)  # node → task → demand since it joined
    paused: set[tuple[str, int]] = field(default_factory=set)  # ("pool" or "tenant", number)


class Auditor(Ledger):
    def __init__(self, sometimes: Sometimes, shapes: dict[int, tuple[int, int]]) -> None:
        super().__init__(sometimes, shapes)
        self.boots: dict[int, Boot] = {}
        self.terms: defaultdict[tuple[int, int], Term] = defaultdict(Term)  # (pool, epoch)
        self.starts: dict[tuple[int, int], int] = {}  # (task, attempt) → number of process starts
        self.lease_until_us: dict[int, int] = {}
        self.lease_of: dict[int, str] = {}
        self.highest_epoch: dict[int, int] = {}
        self._forgotten: set[tuple[int, int]] = set()
        self.killed_frozen: list[tuple[int, int]] = []
        self._given_up: set[tuple[int, int]] = set()  # frozen attempts that a leader regards as ended
        self._epoch_before: dict[int, int | None] = {}
        self.steady_since_us: int | None = None  # after this time leadership must not change

    # ---- leases -----------------------------------------------------------------------------------------------------

    def lease_acquired(self, pool: int, epoch: int, process: str, now_us: int, until_us: int) -> None:
        if epoch <= self.highest_epoch.get(pool, 0):
            raise Violation("I8", f"pool {pool}: epoch {epoch} after {self.highest_epoch[pool]}")
        before = self.lease_of.get(pool)
        if before is not None and before != process and self.lease_until_us[pool] > now_us:
            raise Violation("I30", f"{process} took pool {pool} while the lease of {before} had not run out")
        if self.steady_since_us is not None and before is not None and now_us > self.steady_since_us:
            raise Violation("I24", f"pool {pool} changed its leader ({before} to {process}) although nothing was wrong")
        if self.epochs.get(pool, 0) < self.highest_epoch.get(pool, 0):
            self._sometimes.hit("epoch raised above a forgotten one")
        self._epoch_before[pool] = self.epochs.get(pool)
        self.highest_epoch[pool] = epoch
        self.lease_of[pool] = process
        self.lease_until_us[pool] = until_us
        self.epochs[pool] = epoch
        self.watch_fairness_anew(pool, now_us)

    def lease_renewed(self, pool: int, epoch: int, until_us: int) -> None:
        self.lease_until_us[pool] = until_us

    def before_take_over(self, pool: int) -> int | None:
        """The previous epoch, if nothing was written in the current one yet."""
        return self._epoch_before.get(pool) if self.written_epoch.get(pool) != self.epochs.get(pool) else None

    def lease_reverted(self, pool: int, epoch: int) -> None:
        """A fail-over of the database lost only the newest take-over: the previous epoch is current again."""
        self._forgotten.add((pool, self.epochs[pool]))
        self.epochs[pool] = epoch
        self.lease_until_us[pool] = 0

    def heartbeat_acknowledged(self, process: str, pool: int, epoch: int, now_us: int) -> None:
        if (pool, epoch) in self._forgotten:
            return  # the database lost its lease row; its trust expires by itself
        if self.epochs.get(pool) == epoch and now_us >= self.lease_until_us[pool]:
            raise Violation("I7", f"{process} acknowledges heartbeats of pool {pool} after its lease ran out")
        # One holder may win twice, when the reply to an abandoned campaign comes late. It is still the only leader.
        if self.epochs.get(pool, 0) > epoch and self.lease_of[pool] != process:
            raise Violation("I7", f"{process} acknowledges heartbeats of pool {pool} in epoch {epoch}, which is over")

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def boot_began(self, name: str, boot: int, capacity: tuple[int, int]) -> None:
        self.boots[boot] = Boot(name, capacity)

    def boot_died(self, boot: int) -> None:
        for task, attempt in list(self.boots[boot].running):
            self.process_ended(boot, task, attempt, "killed")
        self.boot_gone(boot)

    def suspended(self, boot: int, suspended: bool) -> None:
        self.boots[boot].suspended = suspended

    def learned_epoch(self, boot: int, epoch: int) -> None:
        self.boots[boot].floor = max(self.boots[boot].floor, epoch)

    def start_accepted(self, boot: int, task: int, attempt: int, epoch: int) -> None:
        if epoch < self.boots[boot].floor:
            raise Violation("I9", f"node {self.boots[boot].name} takes {task}/{attempt} of epoch {epoch}, an old one")

    def process_started(self, boot: int, task: int, attempt: int) -> None:
        at, key = self.boots[boot], (task, attempt)
        if (task, attempt) not in self.authorised:
            raise Violation("I10", f"{task}/{attempt} runs on {at.name}, and no committed row knows of it")
        self._check_confirmed(task, self.tasks[task], self.sent_to[key])
        self.starts[key] = self.starts.get(key, 0) + 1
        if self.starts[key] > 1:
            raise Violation("I9", f"{task}/{attempt} was started {self.starts[key]} times")
        demand = self.shapes[self.tasks[task].shape]
        at.running[key] = demand
        for dimension in (0, 1):
            if sum(taken[dimension] for taken in at.running.values()) > at.capacity[dimension]:
                raise Violation("I13", f"node {at.name} runs more than its capacity: {sorted(at.running)}")
        for other in self.boots.values():
            for number, before in other.running:
                if number == task and before != attempt and other.lets_act(number, before):
                    raise Violation(
                        "I6", f"{task}/{attempt} starts on {at.name} while {task}/{before} runs on {other.name}"
                    )

    def process_frozen(self, boot: int, task: int, attempt: int) -> None:
        self.boots[boot].frozen.add((task, attempt))
        self.stood_still[task] = attempt
        self._sometimes.hit("an attempt was frozen")

    def process_thawed(self, boot: int, task: int, attempt: int) -> None:
        """It goes on; it must be the attempt that its task's row still names."""
        at, record = self.boots[boot], self.tasks[task]
        at.frozen.discard((task, attempt))
        if (task, attempt) in self._given_up:
            raise Violation("I11", f"{task}/{attempt} thaws on {at.name} after a leader gave it up")
        if record.state != RUNNING or record.attempt != attempt:
            raise Violation(
                "I6",
                f"{task}/{attempt} thaws on {at.name}; its task is {NAMES[record.state]}, attempt {record.attempt}",
            )
        self._sometimes.hit("a frozen attempt went on")

    def process_ended(self, boot: int, task: int, attempt: int, how: str) -> None:
        self.boots[boot].running.pop((task, attempt), None)
        self.boots[boot].frozen.discard((task, attempt))
        self.results.setdefault((task, attempt), how)
        self.attempt_over(task, attempt)
        if how == "fenced":
            self.killed_frozen.append((task, attempt))

    # ---- leaders' decisions -----------------------------------------------------------------------------------------

    def learned_ready(self, term: tuple[int, int], tasks: list[int]) -> None:
        self.terms[term].ready |= dict.fromkeys(tasks)

    def learned_gone(self, term: tuple[int, int], tasks: list[int]) -> None:
        for task in tasks:
            self.terms[term].ready.pop(task, None)

    def learned_paused(self, term: tuple[int, int], target: tuple[str, int], *, paused: bool) -> None:
        targets = self.terms[term].paused
        (targets.add if paused else targets.discard)(target)

    def learned_cooled(self) -> None:
        self._sometimes.hit("a key cooled down")  # after a start was planned

    def learned_refused(self, term: tuple[int, int], task: int) -> None:
        for granted in self.terms[term].granted.values():
            granted.pop(task, None)

    def learned_ended(self, term: tuple[int, int], task: int) -> None:
        """A leader regards an attempt as ended: it must be, or be frozen for good, unless its machine is suspended."""
        attempt = self.active.get(task)
        if attempt is not None and term[1] == self.epochs.get(term[0]):
            boot = self.boots[self.authorised[task, attempt]]
            if boot.lets_act(task, attempt):
                raise Violation("I11", f"a leader takes {task}/{attempt} for ended while it runs on {boot.name}")
            if (task, attempt) in boot.frozen:
                self._given_up.add((task, attempt))
            self.attempt_over(task, attempt)
        for granted in self.terms[term].granted.values():
            granted.pop(task, None)

    def learned_joined(self, term: tuple[int, int], node: int, capacity: tuple[int, int]) -> None:
        """Grants on a joining node are reconciled anew, so only later plans are counted."""
        self.terms[term].nodes[node] = capacity
        self.terms[term].granted[node] = {}

    def planned(self, term: tuple[int, int], task: int, node: int, behind: bool) -> None:
        leader = self.terms[term]
        if task not in leader.ready:
            raise Violation("I21", f"the leader of pool {term[0]} plans task {task}, which it knows is gone")
        for target in (("pool", term[0]), ("tenant", self.tasks[task].tenant)):
            if target in leader.paused:
                raise Violation(
                    "R50", f"task {task} is planned; its leader knows that {target[0]} {target[1]} is paused"
                )
        del leader.ready[task]
        if behind:
            return
        granted = leader.granted.setdefault(node, {})
        granted[task] = self.shapes[self.tasks[task].shape]
        for dimension in (0, 1):
            if sum(demand[dimension] for demand in granted.values()) > leader.nodes[node][dimension]:
                raise Violation("I13", f"node {node} was granted more than it has: tasks {sorted(granted)}")

    # ---- at the end -------------------------------------------------------------------------------------------------

    def check_rest(self) -> None:
        """After healing and quiescence: every task and every process has ended."""
        for task, record in self.tasks.items():
            if record.state < DONE:
                raise Violation("I24", f"task {task} is still {NAMES[record.state]} after everything healed")
        for boot in self.boots.values():
            if boot.running:
                raise Violation("I22", f"node {boot.name} still runs {sorted(boot.running)}")
