"""The part that sequential and concurrent calls share: which child has which call and grant, and the tick.

One tick checks caps and stuck children while anything runs; there is no timer per call. `sequential.py` and
`concurrent.py` decide which calls a child gets, and read its replies.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from rota.execute.attempts.attempt import Attempt, Executor, Finish, Phase
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.attempts.workbench import Workbench
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.child_pool import ChildPool, ChildSettings
from rota.execute.functions.ends import RunAlone
from rota.execute.functions.questions import QuestionServer
from rota.execute.keeper_link import End, KeeperLink
from rota.execute.logs.pipes import Flow
from rota.execute.processes.spawn_order import BadSpec
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.wire import Failure

START_SECONDS = 60.0  # for a child to load its modules
_IDLE_TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParts:
    """The parts of the agent that calls use."""

    bench: Workbench
    link: KeeperLink
    flow: Flow
    child_settings: ChildSettings
    bounds: Executor  # for the sizes of output and results
    questions: QuestionServer | None
    kill_grace_seconds: float
    full_disk: FullDisk
    run_alone: RunAlone = field(default_factory=RunAlone)


class WarmCalls(ABC):
    def __init__(self, parts: CallParts, *, module: str, keep_idle: int, tick_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._run_alone = parts.run_alone
        self._full_disk = parts.full_disk
        self._bench = parts.bench
        self._link = parts.link
        self._bounds = parts.bounds
        self._kill_grace_seconds = parts.kill_grace_seconds
        self._tick_seconds = tick_seconds
        self.child_pool = ChildPool(
            owner=self,
            link=parts.link,
            flow=parts.flow,
            child_settings=parts.child_settings,
            questions=parts.questions,
            kill_grace_seconds=parts.kill_grace_seconds,
            keep_idle=keep_idle,
            module=module,
        )
        self._busy: dict[WarmChild, Resources] = {}
        self._child_of: dict[Attempt, WarmChild] = {}
        self._tick_timer: asyncio.TimerHandle | None = None

    def start(self, attempt: Attempt) -> None:
        """Gives it a child of its own."""
        try:
            child = self.child_pool.take(attempt, is_new=attempt.run.task in self._run_alone.tasks)
        except BadSpec as error:
            failure = Failure("bad-spec", str(error))
            self._bench.finished(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=failure))
            self._bench.slot_free(attempt.grant)
            return
        self._busy[child] = attempt.grant
        self._child_of[attempt] = child
        attempt.began_at = child.front_since = self._loop.time()
        if child.limit_orders:
            child.waiting = attempt
        else:
            self._put_first(child, attempt)
        self._keep_ticking()

    def top_up(self) -> None:
        """Sends waiting calls ahead, behind or beside running ones."""
        for child in list(self._busy):
            self._top_up(child)

    def recall(self, attempt: Attempt) -> bool:
        """Takes back a call that its child has not read; False if it runs."""
        child = self._child_of.get(attempt)
        if child is None or child.answered is not None:
            return False
        if child.waiting is attempt:
            child.waiting = None
            self._return([attempt])
        self._isolate(child)
        if not child.sent and child in self._busy:
            self._park_and_free(child)
        return attempt.phase is Phase.WAITING

    def kill(self, attempt: Attempt) -> None:
        child = self._child_of.get(attempt)
        if child is not None:
            child.is_leaving = True
            self._link.kill(child.number)

    # ---- children --------------------------------------------------------------------------------------------------

    @abstractmethod
    def child_readable(self, child: WarmChild) -> None: ...

    @abstractmethod
    def child_over(self, child: WarmChild, end: End) -> None: ...

    def child_limited(self, child: WarmChild, *, took: bool) -> None:
        attempt, child.waiting = child.waiting, None
        if attempt is None:
            return  # it was taken back meanwhile, or no call waited
        if not took:
            # It still holds more memory than the new call may have.
            grant = self._busy.pop(child)
            self.child_pool.dismiss(child)
            child = self.child_pool.spawn(child.process_key, child.limits, attempt.fence_ms)
            self._busy[child] = grant
        child.front_since = self._loop.time()
        self._put_first(child, attempt)

    def _gone(self, child: WarmChild, end: End) -> None:
        self.child_pool.gone(child, end)
        grant = self._busy.pop(child, None)
        if grant is not None:
            self._bench.slot_free(grant)

    def _park_and_free(self, child: WarmChild) -> None:
        grant = self._busy.pop(child)
        if not child.is_leaving:
            self.child_pool.park(child)
            self._keep_ticking()
        self._bench.slot_free(grant)

    # ---- calls -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _put(self, child: WarmChild, attempt: Attempt) -> bool: ...

    @abstractmethod
    def _top_up(self, child: WarmChild) -> None: ...

    @abstractmethod
    def _isolate(self, child: WarmChild) -> None:
        """Takes back every call that the child has not begun."""

    def _put_first(self, child: WarmChild, attempt: Attempt) -> None:
        sent = self._put(child, attempt)
        assert sent, "an idle child's socket is empty and takes one call"

    def _return(self, unbegun: list[Attempt]) -> None:
        for attempt in unbegun:
            del self._child_of[attempt]
        if unbegun:
            self._bench.put_back(unbegun)

    def _finish(self, attempt: Attempt, finish: Finish) -> None:
        del self._child_of[attempt]
        self._bench.finished(attempt, finish)

    # ---- the tick --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check(self, now: float) -> None:
        """Ends calls past their cap and children that do not start."""

    def _tick(self) -> None:
        self._bench.guard()  # this process may have been stopped: what is frozen since has not reached its cap
        now = self._loop.time()
        self._check(now)
        more = self.child_pool.trim_idle(now)
        wait = self._tick_seconds if self._busy else _IDLE_TICK_SECONDS
        self._tick_timer = self._loop.call_later(wait, self._tick) if self._busy or more else None

    def _keep_ticking(self) -> None:
        if self._tick_timer is None:
            self._tick_timer = self._loop.call_later(self._tick_seconds, self._tick)
