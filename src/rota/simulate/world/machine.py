"""The processes of tasks on a node, and the keeper, which kills them at the fence even when the agent is paused.

Models `execute/processes/runner.py` and `execute/keeper/main.py`. Processes go on while their agent is paused. When the
whole machine freezes nothing goes on; when it thaws, the keeper checks the fence first.
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
    alive: bool = True


class Machine:
    log_limit_bytes = 0
    result_limit_bytes = 0

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kernel = agent.kernel
        self._units: dict[Attempt, Unit] = {}
        self._fence: Fence[Attempt] = Fence(agent.clock())
        self.trust = self._fence.trust
        self._fence_check_at = NEVER
        self._frozen_until = 0.0

    # ---- orders of the workbench ------------------------------------------------------------------------------------

    def start(self, attempt: Attempt) -> None:
        agent, world = self._agent, self._agent.world
        task, number = attempt.key
        epoch, floor = agent.epochs.get(attempt.key, (0, 0))
        if epoch < floor:
            world.auditor.start_accepted(agent.boot, task, number, epoch)
        world.auditor.process_started(agent.boot, task, number)
        world.story.tell(agent.name, f"runs {task}/{number}")
        unit = self._units[attempt] = Unit(attempt, agent.clock())
        self._fence.add(attempt, attempt.fence_ms)
        self._check_fence_at(self._fence.next_hard())
        spec = world.store.tables.tasks[task]
        how = spec.outcomes[min(number, len(spec.outcomes)) - 1]
        seconds = spec.run_seconds
        cap = spec.cap_ms / 1000
        if how == "hang" or seconds >= cap:
            # The agent's own timer, which is late when the agent is paused.
            self._kernel.after(cap, agent.post, self._timeout, unit)
        else:
            self._kernel.after(seconds, self._end, unit, how)

    def stop(self, attempt: Attempt) -> None:
        unit = self._units.get(attempt)
        if unit is not None:
            self._kernel.after(self._kernel.random.uniform(0.005, 0.2), self._stopped, unit)

    def kill(self, attempt: Attempt) -> None:
        unit = self._units.get(attempt)
        if unit is not None:
            self._kernel.after(0.002, self._stopped, unit)

    def recap(self, attempt: Attempt) -> None:
        """Caps never change here, and no child keeps a device."""

    give_up_devices = recap

    def top_up(self) -> None:
        """There are no functions here, no idle children, and the code never changes."""

    dismiss_idle = reload = top_up

    def recall(self, attempt: Attempt) -> bool:
        return False

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _end(self, unit: Unit, how: str) -> None:
        if not unit.alive or self._delayed(self._end, unit, how):
            return
        if how == "kills its agent":
            self._agent.world.story.tell(self._agent.name, f"is killed by {unit.attempt.key[0]}/{unit.attempt.key[1]}")
            self._agent.world.restart_agent(self._agent.node, self._agent.boot)
            return
        name, outcome = ENDS[how]
        self._over(unit, name, outcome)

    def _timeout(self, unit: Unit) -> None:
        if unit.alive:
            self._over(unit, "timeout", Outcome.TIMEOUT)

    def _stopped(self, unit: Unit) -> None:
        if not unit.alive or self._delayed(self._stopped, unit):
            return
        fenced = unit.attempt.stopping is Outcome.DISRUPTED
        self._over(unit, "fenced" if fenced else "killed", unit.attempt.stopping or Outcome.DISRUPTED)

    def _over(self, unit: Unit, name: str, outcome: Outcome) -> None:
        """The process ends now; the agent learns of it when it is not paused."""
        unit.alive = False
        task, number = unit.attempt.key
        self._fence.discard(unit.attempt, unit.attempt.fence_ms)
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
        """Repeats the action when the machine thaws, if it is frozen."""
        frozen = self._frozen_until > self._kernel.now
        if frozen:
            self._kernel.at(self._frozen_until, action, *arguments)
        return frozen

    def kill_all(self) -> None:
        for unit in self._units.values():
            unit.alive = False

    # ---- the keeper -------------------------------------------------------------------------------------------------

    def _check_fence_at(self, at: float) -> None:
        if at < self._fence_check_at:
            self._fence_check_at = at
            agent = self._agent
            self._kernel.at((at - agent.offset) / agent.rate, self._kill_fenced, at)

    def _kill_fenced(self, at: float) -> None:
        if not self._agent.alive or at != self._fence_check_at or self._delayed(self._kill_fenced, at):
            return
        self._fence_check_at = NEVER
        now = self._agent.clock() + 1e-6
        for attempt in self._fence.past_hard(now):
            unit = self._units.get(attempt)
            if unit is not None and unit.alive:
                self._over(unit, "fenced", Outcome.DISRUPTED)
        following = self._fence.next_hard()
        if following != NEVER:
            self._check_fence_at(max(following, now))

    def freeze(self, seconds: float) -> None:
        """Stops the whole machine: the one case in which two executions may overlap (P3)."""
        agent = self._agent
        if self._frozen_until > self._kernel.now:
            return
        self._frozen_until = self._kernel.now + seconds
        agent.pause(seconds)
        agent.world.auditor.frozen(agent.boot, True)
        self._kernel.at(self._frozen_until, self._thaw)

    def _thaw(self) -> None:
        if self._agent.alive:
            if self._fence_check_at != NEVER:
                self._kill_fenced(self._fence_check_at)
            self._agent.world.auditor.frozen(self._agent.boot, False)
