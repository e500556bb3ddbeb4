"""Random histories of the core: after any order of events the counts are right and no task waits without a reason."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.decide.core import Core
from rota.decide.messages import (
    AttemptAdopted,
    AttemptEnded,
    LaneKnown,
    NodeClosed,
    NodeJoined,
    NodeLeft,
    NodeOpened,
    PolicyKnown,
    Preempt,
    ShapeKnown,
    Start,
    StartRefused,
    TasksGone,
    TasksReady,
    TenantKnown,
)
from rota.decide.policy import Policy
from rota.model.queue import AuthorisedAttempt, ReadyTask
from rota.model.resources import Resources, Shape
from tests.decide.auditor import audit, left_waiting_for_nothing

SECOND_US = 1_000_000
SHAPES = {
    1: Shape(Resources(cpu_milli=1000)),
    2: Shape(Resources(cpu_milli=3000, memory_bytes=2)),
    3: Shape(Resources(cpu_milli=500, gpus=1)),
    4: Shape(Resources(cpu_milli=1000, custom={"license": 1})),
    5: Shape(Resources(cpu_milli=1000), {"zone": "a"}),
    6: Shape(Resources(cpu_milli=200, gpu_milli=400)),
    7: Shape(Resources(cpu_milli=200, gpus=2)),
}
POLICIES = [
    Policy(),
    Policy(peak_ppm=500_000),
    Policy(pool_running_limit=3),
    Policy(urgent_kept_ppm=0, preempt_burst=1),
    Policy(half_life_us=10_000_000, gain_us=0),
]

numbers = st.integers(min_value=1, max_value=12)
tenants = st.integers(min_value=1, max_value=3)
nodes = st.integers(min_value=1, max_value=3)
capacities = st.builds(
    Resources,
    cpu_milli=st.sampled_from([1000, 2500, 4000]),
    memory_bytes=st.sampled_from([0, 2, 9]),
    gpus=st.integers(0, 2),
    custom=st.sampled_from([{}, {"license": 1}]),
)
labels = st.sampled_from([{}, {"zone": "a"}])


class GrantsMachine(RuleBasedStateMachine):
    """Invariant: after every event the counts equal a recount; after a plan no task that could start is left waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Core()
        self.now_us = 0
        self.versions: dict[int, int] = {}
        for number, shape in SHAPES.items():
            self.core.apply(ShapeKnown(number, shape), 0)

    @rule(node=nodes, capacity=capacities, labels=labels, draining=st.booleans())
    def node_joins(self, node: int, capacity: Resources, labels: dict[str, str], draining: bool) -> None:
        self.core.apply(NodeJoined(node, capacity, labels, draining), self.now_us)

    @rule(node=nodes, event=st.sampled_from([NodeClosed, NodeLeft, NodeOpened]))
    def node_changes(self, node: int, event: type) -> None:
        self.core.apply(event(node), self.now_us)

    @rule(
        task=numbers,
        owner=tenants,
        lane=st.integers(0, 3),
        urgency=st.integers(-1, 1),
        start_by=st.integers(0, 2),
        shape=st.sampled_from(list(SHAPES)),
        key=st.sampled_from([None, None, "k", "l"]),
        newer=st.booleans(),
        preemptible=st.booleans(),
        avoid=st.sampled_from([None, 1, 2]),
        cap_seconds=st.sampled_from([1, 60, 36_000]),
    )
    def task_is_ready(
        self,
        task: int,
        owner: int,
        lane: int,
        urgency: int,
        start_by: int,
        shape: int,
        key: str | None,
        newer: bool,
        preemptible: bool,
        avoid: int | None,
        cap_seconds: int,
    ) -> None:
        known = self.core.state.ready.get(task)
        version = self.versions.get(task, 0) + (1 if newer else 0)
        if known is not None and version == known.version:  # the same row again, at most in a more urgent lane
            ready = ReadyTask(
                task,
                version,
                known.tenant,
                lane,
                known.urgency,
                known.start_by_us,
                known.cap_ms,
                known.shape,
                known.work,
                known.concurrency_key,
                known.concurrency_limit,
                known.preemptible,
                known.avoid_node,
            )
        else:
            version = self.versions.get(task, 0) + 1
            limit = 2 if key == "l" else 1
            ready = ReadyTask(
                task,
                version,
                owner,
                lane,
                urgency,
                self.now_us + start_by * SECOND_US,
                1000 * cap_seconds,
                shape,
                shape % 2,
                key,
                limit,
                preemptible,
                avoid,
            )
        self.versions[task] = version
        self.core.apply(TasksReady([ready]), self.now_us)

    @rule(task=numbers)
    def task_is_gone(self, task: int) -> None:
        self.core.apply(TasksGone([task]), self.now_us)

    @rule(
        owner=tenants,
        weight=st.integers(1, 3),
        cpu=st.sampled_from([None, 1000, 4000]),
        memory=st.sampled_from([None, 2]),
        running=st.sampled_from([None, 2]),
        urgent_ppm=st.sampled_from([0, 300_000, 1_000_000]),
    )
    def plan_changes(
        self, owner: int, weight: int, cpu: int | None, memory: int | None, running: int | None, urgent_ppm: int
    ) -> None:
        self.core.apply(TenantKnown(owner, weight, cpu, memory, running, urgent_ppm), self.now_us)

    @rule(seconds=st.sampled_from([1, 30, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.now_us += seconds * SECOND_US

    @rule(lane=st.integers(0, 4), level=st.integers(0, 3), gated=st.booleans())
    def lane_moves(self, lane: int, level: int, gated: bool) -> None:
        self.core.apply(LaneKnown(lane, level, gated), self.now_us)

    @rule(policy=st.sampled_from(POLICIES))
    def policy_changes(self, policy: Policy) -> None:
        self.core.apply(PolicyKnown(policy), self.now_us)

    @precondition(lambda self: self.core.state.running)
    @rule(data=st.data(), run_us=st.sampled_from([None, 100, 30_000, 1_000_000]), refused=st.booleans())
    def attempt_ends(self, data: st.DataObject, run_us: int | None, refused: bool) -> None:
        task = data.draw(st.sampled_from(sorted(self.core.state.running)))
        self.core.apply(StartRefused(task) if refused else AttemptEnded(task, run_us), self.now_us)

    @rule(
        task=numbers,
        owner=tenants,
        node=nodes,
        shape=st.sampled_from(list(SHAPES)),
        lane=st.integers(0, 3),
        preemptible=st.booleans(),
    )
    def attempt_is_adopted(self, task: int, owner: int, node: int, shape: int, lane: int, preemptible: bool) -> None:
        if task not in self.core.state.running:  # a leader restores each attempt once
            held = AuthorisedAttempt(
                task, 1, owner, shape, node, 1, 1000, shape % 2, None, 1, False, lane, 60_000, preemptible, self.now_us
            )
            self.core.apply(AttemptAdopted(held), self.now_us)

    @rule(at_most=st.sampled_from([1, 2, 1000]))
    def plan(self, at_most: int) -> None:
        decisions = self.core.plan(self.now_us, at_most)
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        assert len(starts) <= at_most
        assert all(start.task.id in self.core.state.running for start in starts)
        for decision in decisions:
            if isinstance(decision, Preempt):
                victim = self.core.state.running[decision.task]
                assert victim.preemptible, f"task {decision.task} never agreed to give way"
                assert (victim.node, decision.task != decision.for_task) == (decision.node, True)
                assert decision.for_task in self.core.state.ready, "a task was preempted for nothing"
        if at_most == 1000:
            assert left_waiting_for_nothing(self.core) == []

    @invariant()
    def books_are_right(self) -> None:
        self.core.state.check()
        audit(self.core.state)


TestGrants = GrantsMachine.TestCase
TestGrants.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
