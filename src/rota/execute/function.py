"""Runs Python functions in warm children: one call at a time per child, as many children as there is room
for.

Short calls are put ahead into a busy child's socket, on the same grant, up to a few milliseconds of
expected work; a child that turns out to be stuck gives the unread ones back. Caps and stuck children are
looked at by one tick while anything runs, not by a timer per call. A child that dies takes down the call it
was in and no other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Protocol

import structlog

from rota.execute.desk import Desk
from rota.execute.held import Finish, Held, Phase, signal_name, stopped
from rota.execute.keeper_link import End, Ended, KeeperLink, Lost, Refused, Spawn
from rota.execute.logs import Capture, Flow
from rota.execute.run_times import RunTimes
from rota.execute.trees import MARK
from rota.execute.warm_child import WarmChild
from rota.model.attempt import Outcome
from rota.model.progress import Progress
from rota.model.resources import Resources
from rota.wire import Failure

log = structlog.get_logger()

_AHEAD_US = 5_000.0  # expected work put into one child
_AHEAD_CALLS = 128
_DEEP_CALLS = 32
_DEEP_SECONDS = 0.001
_CALL_COST_US = 25.0  # what a call costs besides its function
_STUCK_SECONDS = 0.01
_TICK_SECONDS = 0.01
_START_SECONDS = 60.0
_SAYING_SECONDS = 0.2  # nobody wants to know how far a shorter call is
_IDLE_SECONDS = 30.0
_REPLIES_PER_WAKE = 256
_OUTCOMES = {int(outcome): outcome for outcome in Outcome}  # a quarter of the cost of Outcome(number)


class Bench(Protocol):
    """What the runner needs from its owner: the next run that may share a grant, and where ends are told."""

    def peek(self, shape: bytes) -> Held | None: ...

    def follow(self, held: Held) -> None: ...

    def put_back(self, returned: list[Held]) -> None: ...

    def finished(self, held: Held, finish: Finish) -> None: ...

    def slot_free(self, room: Resources) -> None: ...

    def look_again(self) -> None: ...


class FunctionRunner:
    def __init__(
        self,
        *,
        bench: Bench,
        link: KeeperLink,
        flow: Flow,
        work: str,
        environment: dict[str, str],
        imports: tuple[str, ...],
        directory: str,
        kill_grace_seconds: float,
        keep_idle: int,
        desk: Desk | None = None,  # None: nobody can be asked anything
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._bench = bench
        self._link = link
        self._flow = flow
        self._work = work
        self._environment = environment
        self._imports = imports
        self._directory = directory
        self._kill_grace_seconds = kill_grace_seconds
        self._keep_idle = keep_idle
        self._desk = desk
        self._children: dict[WarmChild, None] = {}
        self._busy: dict[WarmChild, Resources] = {}
        self._idle: list[WarmChild] = []
        self._child_of: dict[Held, WarmChild] = {}
        self._born = 0
        self._tick_timer: asyncio.TimerHandle | None = None
        self._on_ready: dict[WarmChild, asyncio.Future[Failure | None]] = {}
        self.run_times = RunTimes()
        self.log_limit_bytes = 0
        self.result_limit_bytes = 0

    async def preload(self) -> Failure | None:
        """Starts the first child, so that a broken import is a start-up error and the first call is fast."""
        child = self._new_child(fence_ms=0)
        ready = self._loop.create_future()
        self._on_ready[child] = ready
        async with asyncio.timeout(_START_SECONDS):
            failure: Failure | None = await ready
        if failure is None:
            self._rest(child)
        return failure

    def start(self, held: Held) -> None:
        """`held` has been granted room:

        gives it a child of its own, then others behind it if they are short.
        """
        child = self._idle.pop() if self._idle else self._new_child(held.fence_ms)
        if child.fence_ms != held.fence_ms:
            child.fence_ms = held.fence_ms
            self._link.set_fence(child.number, held.fence_ms)
        self._busy[child] = held.room
        child.front_since = self._loop.time()
        sent = self._put(child, held)
        assert sent, "an idle child's socket is empty and takes one call"
        if self._tick_timer is None:
            self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def top_up(self) -> None:
        """Puts short waiting calls behind those that run."""
        for child in list(self._busy):
            self._top_up(child)

    def recall(self, held: Held) -> bool:
        """Takes a call back that its child has not begun; False if it runs (or has just ended)."""
        child = self._child_of.get(held)
        if child is None:
            return False
        self._isolate(child)
        if not child.sent and child in self._busy:
            self._rest_and_free(child)
        return held.phase is Phase.WAITING

    def stop(self, held: Held) -> None:
        """TERM to the child's tree, KILL after the grace. Only for a call that `recall` did not get."""
        child = self._child_of.get(held)
        if child is not None and not child.is_leaving:
            child.is_leaving = True
            self._link.terminate(child.number)
            child.kill_timer = self._loop.call_later(self._kill_grace_seconds, self._link.kill, child.number)

    def kill(self, held: Held) -> None:
        child = self._child_of.get(held)
        if child is not None:
            child.is_leaving = True
            self._link.kill(child.number)

    def recap(self, held: Held) -> None:
        """The tick looks at the run's own cap: nothing to do."""

    def progress(self) -> Iterator[tuple[Held, Progress | None]]:
        """How far the calls say they are that have run for a while."""
        since = self._loop.time() - _SAYING_SECONDS
        for child in self._busy:
            if child.sent and child.is_ready and child.front_since <= since:
                yield child.sent[0], child.progress()

    # ---- children ------------------------------------------------------------------------------------------

    def _new_child(self, fence_ms: int) -> WarmChild:
        self._born += 1
        child = WarmChild(self, self._flow, self._loop)
        child.fence_ms = fence_ms
        folder = f"{self._work}/child-{os.getpid()}-{self._born}"
        what = Spawn(
            program=sys.executable,
            arguments=["-m", "rota.execute.child", *self._imports],
            env=self._environment | {"HOME": folder, "TMPDIR": folder, MARK: folder},
            folder=folder,
            fence_ms=fence_ms,
            cwd=self._directory,
        )
        child.front_since = self._loop.time()
        child.number = self._link.spawn(child, what, child.end)
        self._children[child] = None
        self._loop.add_reader(child.descriptor(), self._on_readable, child)
        if self._desk is not None:
            self._desk.open(child.desk, child.key_of)
        return child

    def child_over(self, child: WarmChild, end: End) -> None:
        """The child's whole tree is dead; the call it was in, if any, died with it."""
        if child in self._on_ready:
            self._on_ready.pop(child).set_result(Failure(*_start_failure(child, end)))
        self._read_replies(child, is_dead=True)
        self._loop.remove_reader(child.descriptor())
        if child.is_ready or (child.failure is None and isinstance(end, Lost)):
            self._return_unread(child)
        if child.sent:
            held = child.done(self._loop.time())
            capture = child.collect_last_output(held, self.log_limit_bytes)
            self._finish(held, _crash(held, child, end, capture, self._loop.time()))
            assert not child.sent, "a child that never was ready is given one call, never more behind it"
        if child.kill_timer is not None:
            child.kill_timer.cancel()
        if self._desk is not None:
            self._desk.close(child.desk)
        child.close()
        self._children.pop(child, None)
        if child in self._idle:
            self._idle.remove(child)
        room = self._busy.pop(child, None)
        if room is not None:
            self._bench.slot_free(room)

    def _rest(self, child: WarmChild) -> None:
        child.idle_since = self._loop.time()
        self._idle.append(child)
        if self._tick_timer is None:
            self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _dismiss(self, child: WarmChild) -> None:
        child.dismiss()
        child.kill_timer = self._loop.call_later(self._kill_grace_seconds, self._link.kill, child.number)

    # ---- calls ---------------------------------------------------------------------------------------------

    def _put(self, child: WarmChild, held: Held) -> bool:
        mean = self.run_times.mean_us(held.run.tenant, held.run.name) + _CALL_COST_US
        held.mean_run_us = min(mean, 1e9)
        if not child.put(held, self.result_limit_bytes):
            return False
        self._child_of[held] = child
        return True

    def _top_up(self, child: WarmChild) -> None:
        if child.is_leaving or not child.is_ready or child.watching or not child.sent:
            return
        shape = child.sent[0].shape
        while len(child.sent) < _AHEAD_CALLS and child.expected_us < _AHEAD_US:
            held = self._bench.peek(shape)
            if held is None or held.fence_ms != child.fence_ms:
                return
            run = held.run
            if child.expected_us + self.run_times.mean_us(run.tenant, run.name) > _AHEAD_US:
                return
            if not self._put(child, held):
                return
            self._bench.follow(held)

    def _return_unread(self, child: WarmChild) -> None:
        taken = child.take_back()
        if taken:
            for held in taken:
                del self._child_of[held]
            self._bench.put_back(taken)

    def _on_readable(self, child: WarmChild) -> None:
        self._read_replies(child)
        self._top_up(child)
        if len(child.sent) >= _DEEP_CALLS:
            # With much put ahead, being woken for every reply costs more than the replies: look now and then.
            self._loop.remove_reader(child.descriptor())
            self._loop.call_later(_DEEP_SECONDS, self._look_now_and_then, child)

    def _look_now_and_then(self, child: WarmChild) -> None:
        if child not in self._children:
            return
        self._read_replies(child)
        self._top_up(child)
        if len(child.sent) >= _DEEP_CALLS:
            self._loop.call_later(_DEEP_SECONDS, self._look_now_and_then, child)
        else:
            self._loop.add_reader(child.descriptor(), self._on_readable, child)

    def _read_replies(self, child: WarmChild, *, is_dead: bool = False) -> None:
        now = self._loop.time()
        for _ in range(_REPLIES_PER_WAKE if not is_dead else 1_000_000):
            reply = child.next_reply()
            if reply is None:
                break
            if reply.number == 0:
                self._child_ready(child, reply.failure, now)
                continue
            held = child.sent[0]
            assert held.call == reply.number, "a child answers in the order it was asked"
            if held.stopping is not None:
                # It answered after we had begun to end it. The child must go all the same, and the attempt is over
                # only when its tree is dead: `child_over` reports it.
                self._link.kill(child.number)
                break
            child.done(now)
            capture = child.collect_output(
                held, is_pending=reply.output_pending, capture_limit_bytes=self.log_limit_bytes
            )
            self.run_times.learn(held.run.tenant, held.run.name, reply.run_us)
            failure = None if reply.failure is None else Failure(*reply.failure)
            if reply.retire:
                self._return_unread(child)
                self._dismiss(child)
            self._finish(
                held,
                Finish(
                    outcome=_OUTCOMES[reply.outcome],
                    run_us=reply.run_us,
                    result=reply.result,
                    failure=failure,
                    cpu_ms=reply.cpu_us // 1000,
                    peak_memory_bytes=reply.peak_memory_bytes,
                    retry_in_ms=reply.retry_in_ms,
                    capture=capture,
                ),
            )
        if not child.sent and child in self._busy and not is_dead:
            self._rest_and_free(child)

    def _rest_and_free(self, child: WarmChild) -> None:
        room = self._busy.pop(child)
        if not child.is_leaving:
            self._rest(child)
        self._bench.slot_free(room)

    def _child_ready(self, child: WarmChild, failure: tuple[str, str, str] | None, now: float) -> None:
        child.is_ready = failure is None
        child.failure = failure
        child.front_since = now
        if failure is not None:
            child.is_leaving = True
        if child in self._on_ready:
            self._on_ready.pop(child).set_result(None if failure is None else Failure(*failure))

    def _finish(self, held: Held, finish: Finish) -> None:
        del self._child_of[held]
        self._bench.finished(held, finish)

    # ---- the tick ------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._loop.time()
        for child in list(self._busy):
            if now - child.front_since >= _STUCK_SECONDS:
                self._look_at(child, now)
        self._let_idle_go(now)
        if self._busy:
            self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        elif len(self._idle) > self._keep_idle:
            self._tick_timer = self._loop.call_later(1.0, self._tick)
        else:
            self._tick_timer = None

    def _look_at(self, child: WarmChild, now: float) -> None:
        self._read_replies(child)
        if not child.sent or child.is_leaving or now - child.front_since < _STUCK_SECONDS:
            return
        held = child.sent[0]
        if not child.is_ready:
            if now - child.front_since > _START_SECONDS:
                self.kill(held)
            return
        if len(child.sent) > 1:
            self.run_times.learn(held.run.tenant, held.run.name, (now - child.front_since) * 1e6)
            self._isolate(child)
        if len(child.sent) != 1 or child.sent[0] is not held:
            self._bench.look_again()
            return  # it was not stuck after all: it has answered meanwhile
        child.watch_output(self.log_limit_bytes)
        self._bench.look_again()  # another slot may have room for what came back
        if held.run.cap_ms and (now - child.front_since) * 1000 >= held.run.cap_ms and held.stopping is None:
            held.stopping = Outcome.TIMEOUT
            self.stop(held)

    def _isolate(self, child: WarmChild) -> None:
        """Leaves the child with nothing but the call it is in, if any.

        Replies are read again after the unread calls were taken back: between the two the child may have answered
        one call and read the next, and what we do then (watch its output, kill it) would hit the wrong one.
        """
        self._read_replies(child)
        self._return_unread(child)
        self._read_replies(child)

    def _let_idle_go(self, now: float) -> None:
        while len(self._idle) > self._keep_idle and now - self._idle[0].idle_since > _IDLE_SECONDS:
            self._dismiss(self._idle.pop(0))


def _start_failure(child: WarmChild, end: End) -> tuple[str, str, str]:
    return child.failure or (
        "child-start-failed",
        f"the process for functions {_how(end)} while starting",
        "",
    )


def _crash(held: Held, child: WarmChild, end: End, capture: Capture, now: float) -> Finish:
    run_us = max(0, int((now - child.front_since) * 1e6))
    if held.stopping is not None:
        outcome, failure = held.stopping, stopped(held, held.stopping)
    elif isinstance(end, Lost):
        why = "the process that keeps this node's tasks died, and the function's with it"
        outcome, failure = Outcome.DISRUPTED, Failure("keeper-lost", why)
    elif isinstance(end, Ended) and end.fenced:
        outcome, failure = Outcome.DISRUPTED, stopped(held, Outcome.DISRUPTED)
    elif not child.is_ready:
        outcome, failure = Outcome.REFUSED, Failure(*_start_failure(child, end))
    else:
        outcome, failure = Outcome.CRASHED, Failure("crashed", f"the function's process {_how(end)}")
    return Finish(outcome=outcome, run_us=run_us, failure=failure, capture=capture)


def _how(end: End) -> str:
    if isinstance(end, Ended):
        code = os.waitstatus_to_exitcode(end.status)
        return f"exited with code {code}" if code >= 0 else f"died of {signal_name(-code)}"
    if isinstance(end, Refused):
        return f"could not be started ({end.message})"
    return "was lost with its keeper"
