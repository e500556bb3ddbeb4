"""A task's whole life through the store, in random order, against a model in plain Python."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from rota.model.attempt import Outcome
from rota.model.task import State, Upstream
from rota.settle.settlement import Settled, release, settle
from rota.settle.verdict import MOST_LOSSES
from rota.store import queue
from rota.store.admission import take_ids
from rota.store.cancel_and_rerun import cancel_tasks, rerun_task
from rota.store.queue import Fence
from rota.store.statements import sql
from tests.store.rows import Rows

T = TypeVar("T")

FAILURES = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.CRASHED, Outcome.REFUSED)


@dataclass
class Model:
    """What a task should be, told in the fewest words."""

    attempts: int
    after: tuple[int, ...]
    upstream: Upstream
    state: State
    attempt: int = 0
    used: int = 0
    losses: int = 0
    cancelling: bool = False
    rerun: int | None = None


@dataclass
class Models:
    tasks: dict[int, Model] = field(default_factory=dict)

    def ends(self, number: int, state: State) -> None:
        self.tasks[number].state = state
        for child, model in self.tasks.items():
            if model.state is State.BLOCKED and number in model.after:
                self.looks_at_parents(child)

    def looks_at_parents(self, child: int) -> None:
        model = self.tasks[child]
        parents = [self.tasks[parent].state for parent in model.after]
        if model.upstream is Upstream.SKIP and any(s.terminal and s is not State.DONE for s in parents):
            self.ends(child, State.SKIPPED)
        elif all(state.terminal for state in parents):
            model.state = State.READY

    def attempt_ends(self, number: int, outcome: Outcome) -> None:
        model = self.tasks[number]
        if outcome is Outcome.OK:
            return self.ends(number, State.DONE)
        if model.cancelling or outcome is Outcome.CANCELLED:
            return self.ends(number, State.CANCELLED)
        if outcome in (Outcome.RECALLED, Outcome.DISRUPTED):
            model.state = State.READY
            return None
        if outcome is Outcome.LOST:
            model.losses += 1
            if model.losses == MOST_LOSSES:
                return self.ends(number, State.FAILED)
            model.state = State.READY
            return None
        model.used += 1
        if outcome is Outcome.BAD_RESULT or model.used == model.attempts:
            return self.ends(number, State.FAILED)
        model.state = State.DELAYED
        return None


class Lifecycle(RuleBasedStateMachine):
    """Invariant: the rows are always what the model says; no task is stuck; none is both live and ended."""

    rows: ClassVar[Rows]
    loop: ClassVar[asyncio.AbstractEventLoop]
    tasks = Bundle("tasks")

    @initialize()
    def begin(self) -> None:
        self.fence: Fence = self.run(self.rows.lead())
        self.models = Models()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 20))

    @rule(target=tasks, attempts=st.integers(1, 3), delayed=st.booleans())
    def submit(self, attempts: int, delayed: bool) -> int:
        number = self.run(self.rows.task(attempts=attempts, wait=600 if delayed else None))
        self.models.tasks[number] = Model(attempts, (), Upstream.SKIP, State.DELAYED if delayed else State.READY)
        return number

    @rule(
        target=tasks, parents=st.lists(tasks, min_size=1, max_size=3, unique=True), upstream=st.sampled_from(Upstream)
    )
    def submit_after(self, parents: list[int], upstream: Upstream) -> object:
        live = tuple(sorted(number for number in parents if not self.models.tasks[number].state.terminal))
        if not live:
            return multiple()  # admission answers for itself there: see tests/admit
        number = self.run(self.rows.task(after=live, upstream=upstream))
        self.models.tasks[number] = Model(1, live, upstream, State.BLOCKED)
        return number

    @rule(number=tasks)
    def start(self, number: int) -> None:
        model = self.models.tasks[number]
        started = self.run(self.rows.start(self.fence, number))
        if model.state is State.READY:
            model.state, model.attempt = State.RUNNING, model.attempt + 1
            assert [(row.task, row.attempt) for row in started] == [(number, model.attempt)]
        else:
            assert started == []

    @rule(number=tasks)
    def timer_runs_out(self, number: int) -> None:
        model = self.models.tasks[number]
        if model.state is State.DELAYED:
            self.run(self.rows.make_due(number))
            model.attempt += 1
            model.state = State.RUNNING
            assert [row.attempt for row in self.run(self.rows.start(self.fence, number))] == [model.attempt]

    @rule(number=tasks, outcome=st.sampled_from([o for o in Outcome if o is not Outcome.NEVER]), stale=st.booleans())
    def attempt_ends(self, number: int, outcome: Outcome, stale: bool) -> None:
        model = self.models.tasks[number]
        attempt = model.attempt - 1 if stale else model.attempt
        settled = self.run(self._settle(number, outcome, attempt))
        if model.state is State.RUNNING and not stale:
            self.models.attempt_ends(number, outcome)
        else:
            assert settled == Settled(), "a result of an attempt that is over changes nothing"

    async def _settle(self, number: int, outcome: Outcome, attempt: int) -> Settled:
        settled = await settle(
            self.rows.connection, self.fence, [self.rows.ended(number, outcome, attempt=attempt or 9999)]
        )
        await self._release_children()
        return settled

    async def _release_children(self) -> None:
        """The leader's slow poll, until it finds nothing more to do."""
        for _ in range(30):
            children = await queue.dependents_to_release(self.rows.connection, 1, after=0, limit=1000)
            settled = await release(self.rows.connection, self.fence, children) if children else Settled()
            if settled == Settled():
                return
        raise AssertionError("the children never come to rest")

    @rule(number=tasks)
    def cancel(self, number: int) -> None:
        model = self.models.tasks[number]
        cancelled = self.run(cancel_tasks(self.rows.connection, [number], self.rows.tenant, "not wanted"))
        self.run(self._release_children())
        assert bool(cancelled.ended) == (not model.state.terminal and model.state is not State.RUNNING)
        assert bool(cancelled.stopping) == (model.state is State.RUNNING and not model.cancelling)
        if model.state is State.RUNNING:
            model.cancelling = True
        elif not model.state.terminal:
            self.models.ends(number, State.CANCELLED)

    @rule(target=tasks, number=tasks)
    def run_again(self, number: int) -> object:
        model = self.models.tasks[number]
        if not model.state.terminal or model.state is State.DONE:
            return multiple()  # the API refuses these
        run = self.run(self._rerun(number))
        if model.rerun is not None:
            assert (run.ready, run.rerun) == (None, model.rerun)
            return multiple()
        model.rerun = run.rerun
        self.models.tasks[run.rerun] = Model(model.attempts, (), Upstream.SKIP, State.READY)
        return run.rerun

    async def _rerun(self, number: int) -> Any:
        new_id = await take_ids(self.rows.connection, 1)
        return await rerun_task(self.rows.connection, number, self.rows.tenant, new_id=new_id, user="ann", server=0)

    @rule()
    def leader_changes(self) -> None:
        old, self.fence = self.fence, self.run(self.rows.lead())
        assert self.fence.epoch > old.epoch

    @rule(number=consumes(tasks))
    def forget(self, number: int) -> None:
        """No more rules for this one: whatever it is now, it must stay."""

    def teardown(self) -> None:
        if hasattr(self, "models"):
            self.run(self._compare())

    async def _compare(self) -> None:
        connection = self.rows.connection
        numbers = list(self.models.tasks)
        live = {
            row["id"]: (State(row["state"]), row["attempt"], row["used"], row["losses"], row["cancel_requested"])
            for row in await connection.fetch("select * from queue where id = any($1)", numbers)
        }
        final = dict(
            await connection.fetch("select task, state from attempts where task = any($1) and state > 0", numbers)
        )
        models = self.models.tasks
        assert live == {
            number: (model.state, model.attempt, model.used, model.losses, model.cancelling)
            for number, model in models.items()
            if not model.state.terminal
        }
        assert final == {number: model.state for number, model in models.items() if model.state.terminal}
        dead = {
            row["task"] for row in await connection.fetch("select task from dead_letters where task = any($1)", numbers)
        }
        assert dead == {n for n, model in models.items() if model.state is State.FAILED and model.rerun is None}
        for number, model in models.items():
            ended = await connection.fetch(
                "select number from attempts where task = $1 and number > 0 order by 1", number
            )
            expected = model.attempt - (1 if model.state is State.RUNNING else 0)
            assert [row["number"] for row in ended] == list(range(1, expected + 1)), "attempts are 1..n without a gap"
        assert await connection.fetch(sql("doctor/stuck_tasks")) == []
        await connection.execute("delete from queue where id = any($1)", numbers)
        await connection.execute("delete from edges where child = any($1) or parent = any($1)", numbers)


def test_any_life_of_tasks_agrees_with_the_model(shared: str, loop: asyncio.AbstractEventLoop) -> None:
    Lifecycle.loop = loop
    Lifecycle.rows = loop.run_until_complete(_fresh(shared))
    run_state_machine_as_test(
        Lifecycle,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    loop.run_until_complete(Lifecycle.rows.close())


async def _fresh(url: str) -> Rows:
    rows = await Rows.open(url)
    await rows.connection.execute("delete from queue; delete from edges")  # the watchdog looks at everybody's
    return rows
