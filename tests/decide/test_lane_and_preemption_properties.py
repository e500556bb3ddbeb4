"""Properties of who goes first and who gives way, over random histories.

What each history may not break is the first line of its test. Every task of the first is of one size: whichever started
took the place of whichever waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.decide.messages import Preempt, Start
from rota.decide.policy import Policy
from rota.model.queue import ReadyTask
from rota.model.task import Lane
from tests.decide.scene import SECOND_US, Scene

LONG = 36_000  # seconds
RANKS = {Lane.URGENT: 0, Lane.NORMAL: 1, Lane.PERIODIC: 1, Lane.OFF_PEAK: 2}

lane_histories = st.lists(
    st.one_of(
        st.tuples(st.just("ready"), st.sampled_from(list(RANKS)), st.integers(1, 3)),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("promote"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("later"), st.integers(1, 4000), st.just(0)),
        st.tuples(st.just("plan"), st.integers(1, 9), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(history=lane_histories)
def test_no_lane_is_served_while_a_more_important_one_waits(history: list[tuple[str, int, int]]) -> None:
    """Invariant: what starts is of no less important a lane than anything that still waits for the same room, and what
    a gate holds back never takes the pool over its peak mark."""
    scene = Scene()
    for tenant in (1, 2, 3):
        scene.tenant(tenant, urgent_percent=100)
    scene.worker(cpus=6)
    scene.worker(cpus=4)
    tasks: dict[int, ReadyTask] = {}
    for what, number, tenant in history:
        ready, running = scene.core.state.ready, scene.core.state.running
        if what == "ready":
            task = scene.task(lane=number, tenant=tenant, cap=LONG, start_by=2 * LONG)
            tasks[task.id] = task
        elif what == "end" and running:
            scene.ends(tasks[list(running)[number % len(running)]])
        elif what == "promote" and ready:
            task = scene.promotes(tasks[list(ready)[number % len(ready)]])
            tasks[task.id] = task
        elif what == "later":
            scene.later(seconds=number)
        elif what == "plan":
            started = [tasks[task] for task in scene.order(at_most=number)]
            waits = min((RANKS[Lane(tasks[task].lane)] for task in scene.core.state.ready), default=9)
            assert all(RANKS[Lane(task.lane)] <= waits for task in started)
            if any(task.lane == Lane.OFF_PEAK for task in started):
                assert len(scene.core.state.running) <= 8


@dataclass
class Busy:
    """Tasks as a preemption meets them: how large, how important, whether they agreed."""

    cpus: int
    lane: int
    preemptible: bool
    minutes: int


lanes = st.sampled_from(list(RANKS))
mostly = st.sampled_from([True, True, True, False])
busy = st.builds(Busy, st.integers(1, 3), lanes, mostly, st.sampled_from([60, 600, 6000]))
claims = st.lists(
    st.tuples(st.integers(1, 5), lanes, st.sampled_from([1, 60, 3600]), st.integers(0, 90)), min_size=1, max_size=8
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(before=st.lists(busy, min_size=4, max_size=8), coming=claims, burst=st.integers(1, 4))
def test_nobody_gives_way_in_vain(before: list[Busy], coming: list[tuple[int, int, int, int]], burst: int) -> None:
    """Invariant: only who agreed, and is no more important, is asked, once and at a bounded rate; those asked make room
    together and none of them is too many; the task for which they leave starts when they have left."""
    scene = Scene(Policy(preempt_burst=burst, urgent_kept_ppm=0))
    for tenant in (1, 2):
        scene.tenant(tenant, urgent_percent=100)
    workers = [scene.worker(cpus=5), scene.worker(cpus=4)]
    tasks: dict[int, ReadyTask] = {}
    for one in before:
        task = scene.task(cpus=one.cpus, lane=one.lane, preemptible=one.preemptible, cap=60 * one.minutes, start_by=0)
        tasks[task.id] = task
    scene.order()
    asked: dict[int, int] = {}  # task → when
    for cpus, lane, cap, seconds in coming:
        scene.later(seconds=seconds)
        task = scene.task(tenant=2, cpus=cpus, lane=lane, cap=cap, start_by=scene.now_us // SECOND_US + 1)
        tasks[task.id] = task
        free = {worker.id: worker.free.cpu_milli for worker in workers}
        decisions = scene.core.plan(scene.now_us, 1000)
        scene.core.state.check()
        for decision in decisions:
            if isinstance(decision, Start):
                free[decision.node] -= _size(scene, decision.task)
        for for_task, (node, victims) in _by_task(decisions).items():
            rank = RANKS[Lane(tasks[for_task].lane)]
            for victim in victims:
                assert tasks[victim].preemptible
                assert victim not in asked
                assert RANKS[Lane(tasks[victim].lane)] >= max(rank, 1)
                asked[victim] = scene.now_us
            sizes = [_size(scene, tasks[victim]) for victim in victims]
            short = _size(scene, tasks[for_task]) - free[node]
            assert sum(sizes) - min(sizes) < short <= sum(sizes), "as many leave as are needed"
            scene.ends(*(tasks[victim] for victim in victims))
            assert for_task in scene.order(), "it starts when they have left"
    for begin in asked.values():
        within = sum(1 for at in asked.values() if begin <= at < begin + 10 * SECOND_US)
        assert within <= burst + 10


def _size(scene: Scene, task: ReadyTask) -> int:
    return scene.core.state.shapes[task.shape].resources.cpu_milli


def _by_task(decisions: list[object]) -> dict[int, tuple[int, list[int]]]:
    """Who is asked on which node, for each task that needs their room."""
    found: dict[int, tuple[int, list[int]]] = {}
    for decision in decisions:
        if isinstance(decision, Preempt):
            found.setdefault(decision.for_task, (decision.node, []))[1].append(decision.task)
    return found
