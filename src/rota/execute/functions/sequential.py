"""Warm children that run one call at a time. `runner.py` decides which calls come here.

Short calls are sent ahead into a busy child's socket, on the same grant, up to a few milliseconds of expected work; a
stuck child gives the unread ones back. One tick checks caps and stuck children while anything runs; there is no timer
per call. A child that dies takes down the call it runs and no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from rota.execute.attempts.attempt import Attempt, Finish, stopped
from rota.execute.attempts.sharing import UNOWNED
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.ends import answered, crash, start_failure, unless_disk_is_full
from rota.execute.functions.replies import BadReply
from rota.execute.functions.run_times import RunTimes
from rota.execute.functions.warm_calls import START_SECONDS, CallParts, WarmCalls
from rota.execute.keeper_link import End, Lost, UnitLimits
from rota.model.attempt import Outcome
from rota.model.progress import Progress
from rota.wire import Failure

_AHEAD_US = 5_000.0  # expected work sent ahead into one child
_AHEAD_CALLS = 128
_DEEP_CALLS = 32
_DEEP_SECONDS = 0.001
_CALL_COST_US = 25.0  # what a call costs besides its function
_STUCK_SECONDS = 0.01
_TICK_SECONDS = 0.01
_PROGRESS_AFTER_SECONDS = 0.2  # shorter calls report no progress
_MOST_RETURNS = 3  # a call whose code keeps changing is refused
_REPLIES_PER_WAKE = 256


class SequentialCalls(WarmCalls):
    def __init__(self, parts: CallParts, *, keep_idle: int, on_async: Callable[[Attempt], None]) -> None:
        """`on_async` is called for functions that turn out to be async."""
        super().__init__(parts, module="rota.execute.child.main", keep_idle=keep_idle, tick_seconds=_TICK_SECONDS)
        self._on_async = on_async
        self._on_ready: dict[WarmChild, asyncio.Future[Failure | None]] = {}
        self._run_times = RunTimes()

    async def preload(self) -> Failure | None:
        """Starts the first child, so that a broken import is a start-up error and the first call is fast."""
        child = self.child_pool.spawn(UNOWNED, UnitLimits(), fence_ms=0)
        ready = self._loop.create_future()
        self._on_ready[child] = ready
        async with asyncio.timeout(START_SECONDS):
            failure: Failure | None = await ready
        if failure is None:
            self.child_pool.park(child)
        return failure

    def stop(self, attempt: Attempt) -> None:
        child = self._child_of.get(attempt)
        if child is not None and not child.is_leaving:
            child.is_leaving = True
            self._link.terminate(child.number)
            child.kill_timer = self._loop.call_later(self._kill_grace_seconds, self._link.kill, child.number)

    def progress(self) -> Iterator[tuple[Attempt, Progress | None]]:
        """The progress of calls that have run for a while."""
        since = self._loop.time() - _PROGRESS_AFTER_SECONDS
        for child in self._busy:
            if child.sent and child.is_ready and child.front_since <= since:
                yield child.sent[0], child.progress()

    # ---- children ------------------------------------------------------------------------------------------

    def child_over(self, child: WarmChild, end: End) -> None:
        """The child's whole tree is dead, and the call it ran, if any, with it."""
        if child in self._on_ready:
            self._on_ready.pop(child).set_result(Failure(*start_failure(child, end)))
        self._read_replies(child, is_dead=True)
        self._loop.remove_reader(child.descriptor())
        if child.is_ready or (child.failure is None and isinstance(end, Lost)):
            self._return(child.take_back())
        if child.waiting is not None:
            self._return_or_end(child.waiting)
        now = self._loop.time()
        run_us = max(0, int((now - child.front_since) * 1e6))
        while child.sent:  # more than one only if it has read calls ahead, against the protocol
            attempt = child.done(now)
            capture = child.collect_last_output(attempt, self._bounds.log_limit_bytes)
            finish = crash(attempt, child, end, capture, run_us)
            finish = self._run_alone.excuse_if_little_was_left(attempt, child, end, finish)
            self._finish(attempt, unless_disk_is_full(self._full_disk, attempt, end, finish))
        if child.answered is not None:
            self._finish(*child.answered)
        self._gone(child, end)

    # ---- calls ---------------------------------------------------------------------------------------------

    def _put(self, child: WarmChild, attempt: Attempt) -> bool:
        mean = self._run_times.mean_us(attempt.run.tenant, attempt.run.name) + _CALL_COST_US
        attempt.mean_run_us = min(mean, 1e9)
        if not child.put(attempt, self._bounds.result_limit_bytes):
            return False
        self._child_of[attempt] = child
        return True

    def _top_up(self, child: WarmChild) -> None:
        if child.is_leaving or child.is_outdated or not child.is_ready or child.watching or not child.sent:
            return
        shape = child.sent[0].shape
        while len(child.sent) < _AHEAD_CALLS and child.expected_us < _AHEAD_US:
            attempt = self._bench.peek(shape)
            if attempt is None or attempt.fence_ms != child.fence_ms:
                return
            run = attempt.run
            if run.task in self._run_alone.tasks:
                return
            if child.expected_us + self._run_times.mean_us(run.tenant, run.name) > _AHEAD_US:
                return
            if not self._put(child, attempt):
                return
            self._bench.follow(attempt)

    def _return_or_end(self, unbegun: Attempt) -> None:
        if unbegun.stopping is None:
            self._return([unbegun])
        else:
            why = stopped(unbegun, unbegun.stopping)
            self._finish(unbegun, Finish(outcome=unbegun.stopping, run_us=0, failure=why))

    def child_readable(self, child: WarmChild) -> None:
        self._read_replies(child)
        self._top_up(child)
        if len(child.sent) >= _DEEP_CALLS and not child.broken:
            # With many calls sent ahead, being woken for every reply costs more than the replies: poll instead.
            self._loop.remove_reader(child.descriptor())
            self._loop.call_later(_DEEP_SECONDS, self._poll_busy, child)

    def _poll_busy(self, child: WarmChild) -> None:
        if child not in self.child_pool.children:
            return
        self._read_replies(child)
        self._top_up(child)
        if child.broken:
            return
        if len(child.sent) >= _DEEP_CALLS:
            self._loop.call_later(_DEEP_SECONDS, self._poll_busy, child)
        else:
            self._loop.add_reader(child.descriptor(), self.child_readable, child)

    def _read_replies(self, child: WarmChild, *, is_dead: bool = False) -> None:
        now = self._loop.time()
        for _ in range(_REPLIES_PER_WAKE if not is_dead else 1_000_000):
            try:
                reply = child.next_reply(self._bounds.result_limit_bytes)
                if reply is None:
                    break
                if reply.number == 0:
                    child.learn(reply)
                    self._child_ready(child, reply.failure, now)
                    continue
                attempt = child.sent[0] if child.sent else None
                if attempt is None or attempt.call != reply.number or not child.is_ready:
                    raise BadReply(f"it answers call {reply.number}, which it is not in")
            except BadReply as error:
                if not is_dead:
                    self.child_pool.break_off(child, str(error))
                break
            if attempt.stopping is not None:
                # It answered after we had begun to end it. The child is killed all the same, and the attempt is over
                # only when its tree is dead: `child_over` reports it.
                self._link.kill(child.number)
                break
            if reply.stale:
                child.done(now)
                self._run_anew(child, attempt)
                break
            child.done(now)
            child.learn(reply)
            capture = child.collect_output(
                attempt, is_pending=reply.output_pending, capture_limit_bytes=self._bounds.log_limit_bytes
            )
            self._run_times.learn(attempt.run.tenant, attempt.run.name, reply.run_us)
            if reply.is_async:
                self._on_async(attempt)
            if reply.retire:
                self._return(child.take_back())
                self.child_pool.dismiss(child)
            finish = answered(reply, capture)
            if finish.failure is not None:
                finish = self._full_disk.judge(attempt, finish)  # before its files are removed
            if child.process_key.devices:
                self._end_with(child, attempt, finish, is_dead=is_dead)
                break
            self._finish(attempt, finish)
        if not child.sent and child in self._busy and not is_dead and child.answered is None:
            self._park_and_free(child)

    def _end_with(self, child: WarmChild, attempt: Attempt, finish: Finish, *, is_dead: bool) -> None:
        """It has used devices, and must be dead before another attempt gets them: `child_over` reports the finish."""
        child.answered = (attempt, finish)
        child.is_leaving = True
        if not is_dead:
            self._link.kill(child.number)

    def _run_anew(self, child: WarmChild, attempt: Attempt) -> None:
        """Gives a call back that did not begin because its code has changed since the child loaded it."""
        attempt.returns += 1
        if attempt.returns > _MOST_RETURNS:
            self._return(child.take_back())
            why = "its code changed on disk each time it was about to begin"
            self._finish(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=Failure("code-changing", why)))
        else:
            self._return([attempt, *child.take_back()])
        self.child_pool.reload(child.process_key)
        self.child_pool.dismiss(child)

    def _child_ready(self, child: WarmChild, failure: tuple[str, str, str] | None, now: float) -> None:
        self.child_pool.started(child, failure)
        child.front_since = now
        if child in self._on_ready:
            self._on_ready.pop(child).set_result(None if failure is None else Failure(*failure))

    # ---- the tick ------------------------------------------------------------------------------------------

    def _check(self, now: float) -> None:
        for child in list(self._busy):
            if now - child.front_since >= _STUCK_SECONDS:
                self._check_stuck(child, now)

    def _check_stuck(self, child: WarmChild, now: float) -> None:
        self._read_replies(child)
        if not child.sent or child.is_leaving or now - child.front_since < _STUCK_SECONDS:
            return
        attempt = child.sent[0]
        if attempt.frozen_at is not None:
            return
        call = attempt.call
        if not child.is_ready:
            if now - child.front_since - attempt.frozen_seconds > START_SECONDS:
                self.kill(attempt)
            return
        if len(child.sent) > 1:
            self._run_times.learn(attempt.run.tenant, attempt.run.name, (now - child.front_since) * 1e6)
            self._isolate(child)
        if not child.sent or child.sent[0].call != call:
            # It was not stuck: it has answered meanwhile, or had not begun and has been given the same call again.
            self._bench.start_waiting()
            return
        if len(child.sent) > 1:
            self.child_pool.break_off(child, "it reads calls before it has answered the one it is in")
            return
        child.watch_output(self._bounds.log_limit_bytes)
        self._bench.start_waiting()  # another child may have free resources for the returned calls
        run_seconds = now - child.front_since + attempt.fetch_seconds - attempt.frozen_seconds
        if attempt.run.cap_ms and run_seconds * 1000 >= attempt.run.cap_ms and attempt.stopping is None:
            attempt.stopping = Outcome.TIMEOUT
            self.stop(attempt)

    def _isolate(self, child: WarmChild) -> None:
        """Leaves the child with nothing but the call it runs, if any.

        Replies are read again after the unread calls were taken back: in between the child may have answered one call
        and read the next, and watching its output or killing it would hit the wrong call.
        """
        self._read_replies(child)
        self._return(child.take_back())
        self._read_replies(child)
