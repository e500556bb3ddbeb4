"""The processes of tasks on a node, and the keeper, which freezes them at the fence even when the agent is paused.

Models `execute/processes/runner.py` and `execute/keeper/main.py`. Processes go on while their agent is paused. When the
whole machine is suspended nothing goes on; when it wakes, the keeper checks the fence first. A frozen process stands
still: its run time and its cap count on when it thaws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.execute.attempts.attempt import Attempt, Finish
from rota.model.attempt import Outcome
from rota.model.fence import NEVER, Fence

if TYPE_CHECKING:
    from rota.simulate.world.agent import Agent

# the drawn behaviour of a task → the auditor's word, the agent's outcome
ENDS = {
    "ok": ("ok", Outcome.OK),
    "error": ("error", Outcome.ERROR),
    "bad result": ("error", Outcome.BAD_RESULT),
    "out of memory": ("error", Outcome.ERROR),
}


@dataclass(slots=True, eq=False)
class Unit:
    attempt: Attempt
    began: float
    how: str = ""  # how it ends by itself
    left: float = 0.0  # seconds until then, not counting those in which it is frozen
    counted_from: float = 0.0  # the kernel's time from which on `left` counts
    alive: bool = True
    is_frozen: bool = False
    killed: bool = False


class Machine:
    log_limit_bytes = 0
    result_limit_bytes = 0

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kernel = agent.kernel
        self._units: dict[Attempt, Unit] = {}
        self._fence: Fence[Attempt] = Fence(agent.clock())
        self._frozen: dict[Unit, None] = {}
        self._fence_check_at = NEVER
        self._suspended_until = 0.0

    # ---- orders of the workbench ------------------------------------------------------------------------------------

    def start(self, attempt: Attempt) -> None:
        agent, world = self._agent, self._agent.world
        task, number = attempt.key
        epoch, floor = agent.epochs.get(attempt.key, (0, 0))
        if epoch < floor:
            world.auditor.start_accepted(agent.boot, task, number, epoch)
        world.auditor.process_started(agent.boot, task, number)
        world.story.tell(agent.name, f"runs {task}/{number}")
        spec = world.store.tables.tasks[task]
        how = spec.outcomes[min(number, len(spec.outcomes)) - 1]
        cap = spec.cap_ms / 1000
        hangs = how == "hang" or spec.run_seconds >= cap
        unit = self._units[attempt] = Unit(attempt, agent.clock(), "hang" if hangs else how)
        unit.left = cap if hangs else spec.run_seconds
        self._fence.add(attempt, attempt.fence_ms)
        self._check_fence_at(self._fence.next_at())
        self._count_on(unit)

    def _count_on(self, unit: Unit) -> None:
        unit.counted_from = self._kernel.now
        if unit.how == "hang":
            # The agent's own timer, which is late when the agent is paused.
            self._kernel.after(unit.left, self._agent.post, self._timeout, unit, unit.counted_from)
        else:
            self._kernel.after(unit.left, self._end, unit, unit.counted_from)

    def stop(self, attempt: Attempt) -> None:
        unit = self._units.get(attempt)
        if unit is not None:
            self._kernel.after(self._kernel.random.uniform(0.005, 0.2), self._stopped, unit)

    def kill(self, attempt: Attempt) -> None:
        unit = self._units.get(attempt)
        if unit is not None:
            unit.killed = True
            self._kernel.after(0.002, self._stopped, unit)

    def freeze(self, attempt: Attempt) -> None:
        """Nothing: the keeper freezes by itself, and freezes first."""

    thaw = freeze

    def recap(self, attempt: Attempt) -> None:
        """Caps never change here, and no child keeps a device."""

    give_up_devices = recap

    def top_up(self) -> None:
        """There are no functions here, no idle children, and the code never changes."""

    dismiss_idle = reload = top_up

    def recall(self, attempt: Attempt) -> bool:
        return False

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _end(self, unit: Unit, counted_from: float) -> None:
        if not self._counts(unit, counted_from) or self._delayed(self._end, unit, counted_from):
            return
        how = unit.how
        if how == "kills its agent":
            self._agent.world.story.tell(self._agent.name, f"is killed by {unit.attempt.key[0]}/{unit.attempt.key[1]}")
            self._agent.world.restart_agent(self._agent.node, self._agent.boot)
            return
        name, outcome = ENDS[how]
        self._over(unit, name, outcome)

    def _timeout(self, unit: Unit, counted_from: float) -> None:
        self._agent.bench.guard()
        if self._counts(unit, counted_from):
            self._over(unit, "timeout", Outcome.TIMEOUT)

    def _counts(self, unit: Unit, counted_from: float) -> bool:
        """Whether a timer that was set then is still right: the unit has not been frozen since."""
        return unit.alive and not unit.is_frozen and unit.counted_from == counted_from

    def _stopped(self, unit: Unit) -> None:
        if not unit.alive or self._delayed(self._stopped, unit):
            return
        if unit.is_frozen and not unit.killed:
            return  # a signal waits until it thaws
        self._over(unit, "fenced" if unit.is_frozen else "killed", unit.attempt.stopping or Outcome.DISRUPTED)

    def _over(self, unit: Unit, name: str, outcome: Outcome) -> None:
        """The process ends now; the agent learns of it when it is not paused."""
        unit.alive = False
        task, number = unit.attempt.key
        self._fence.discard(unit.attempt, unit.attempt.fence_ms)
        self._frozen.pop(unit, None)
        self._agent.world.auditor.process_ended(self._agent.boot, task, number, name)
        self._agent.world.story.tell(self._agent.name, f"{task}/{number} ends: {name}")
        self._agent.post(self._report, unit, outcome)

    def _report(self, unit: Unit, outcome: Outcome) -> None:
        agent = self._agent
        self._units.pop(unit.attempt, None)
        agent.bench.guard()
        ended = outcome if outcome is Outcome.OK else unit.attempt.stopping or outcome
        run_us = int((agent.clock() - unit.began) * 1_000_000)
        agent.bench.process_finished(unit.attempt, Finish(outcome=ended, run_us=run_us))

    def _delayed(self, action: Callable[..., None], *arguments: Any) -> bool:
        """Repeats the action when the machine wakes, if it is suspended."""
        suspended = self._suspended_until > self._kernel.now
        if suspended:
            self._kernel.at(self._suspended_until, action, *arguments)
        return suspended

    def kill_all(self) -> None:
        for unit in self._units.values():
            unit.alive = False

    # ---- the keeper -------------------------------------------------------------------------------------------------

    def _check_fence_at(self, at: float) -> None:
        if at < self._fence_check_at:
            self._fence_check_at = at
            agent = self._agent
            self._kernel.at((at - agent.offset) / agent.rate, self._freeze_fenced, at)

    def _freeze_fenced(self, at: float) -> None:
        if not self._agent.alive or at != self._fence_check_at or self._delayed(self._freeze_fenced, at):
            return
        self._fence_check_at = NEVER
        now = self._agent.clock() + 1e-6
        for attempt in self._fence.past(now):
            self._fence.discard(attempt, attempt.fence_ms)
            unit = self._units.get(attempt)
            if unit is not None and unit.alive:
                self._freeze(unit)
        following = self._fence.next_at()
        if following != NEVER:
            self._check_fence_at(max(following, now))

    def _freeze(self, unit: Unit) -> None:
        agent, (task, number) = self._agent, unit.attempt.key
        unit.is_frozen = True
        unit.left = max(0.0, unit.left - (self._kernel.now - unit.counted_from))
        self._frozen[unit] = None
        agent.world.auditor.process_frozen(agent.boot, task, number)
        agent.world.story.tell(agent.name, f"freezes {task}/{number}")

    def trust(self, sent_at: float) -> None:
        """The agent says that a leader acknowledged what it sent then: what that covers thaws."""
        self._fence.trust(sent_at)
        agent, now = self._agent, self._agent.clock()
        for unit in list(self._frozen):
            if now < self._fence.ends_at(unit.attempt.fence_ms) and not unit.killed:
                del self._frozen[unit]
                task, number = unit.attempt.key
                unit.is_frozen = False
                agent.world.auditor.process_thawed(agent.boot, task, number)
                agent.world.story.tell(agent.name, f"{task}/{number} thaws")
                self._fence.add(unit.attempt, unit.attempt.fence_ms)
                self._check_fence_at(self._fence.next_at())
                self._count_on(unit)
                if unit.attempt.stopping is not None:
                    self._stopped(unit)

    def suspend(self, seconds: float) -> None:
        """Stops the whole machine: the one case in which two executions may overlap (P3)."""
        agent = self._agent
        if self._suspended_until > self._kernel.now:
            return
        self._suspended_until = self._kernel.now + seconds
        agent.pause(seconds)
        agent.world.auditor.suspended(agent.boot, True)
        self._kernel.at(self._suspended_until, self._wake)

    def _wake(self) -> None:
        if self._agent.alive:
            if self._fence_check_at != NEVER:
                self._freeze_fenced(self._fence_check_at)
            self._agent.world.auditor.suspended(self._agent.boot, False)
