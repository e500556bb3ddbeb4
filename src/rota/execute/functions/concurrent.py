"""Runs `async def` functions concurrently in one child, on one grant: the agent's side of `child/main_concurrent.py`.

Whether a function is async is learned from its first run, in an ordinary child. From then on its calls go here: up to
32 for every CPU of the grant, and 32 for less than one, share a child, each with its own result, cap and output. A
stopped call is cancelled; if it does not end within the grace, its child is killed. A child that dies takes every begun
call with it. If there were several, none is blamed and each is retried alone (`RunAlone` in `ends.py`).
"""

from __future__ import annotations

import msgspec

from rota.execute.attempts.attempt import Attempt, Finish, stopped
from rota.execute.attempts.sharing import ProcessKey
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.ends import answered, crash, is_excusable, unless_disk_is_full, was_kept_from_running
from rota.execute.functions.replies import BadReply
from rota.execute.functions.warm_calls import START_SECONDS, CallParts, WarmCalls
from rota.execute.keeper_link import End
from rota.execute.logs.capture import Capture
from rota.execute.messages import calls
from rota.execute.messages.spec import log_limit_of
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.units import duration_text

MODULE = "rota.execute.child.main_concurrent"
_PER_CPU = 32
_MOST_CALLS_PER_GRANT = 256
_LEAST_PROCESSES = _MOST_CALLS_PER_GRANT + 64  # each call has a thread, and threads count as processes
_TICK_SECONDS = 0.05
_MOST_KNOWN = 10_000


class ConcurrentCalls(WarmCalls):
    def __init__(self, parts: CallParts) -> None:
        super().__init__(parts, module=MODULE, keep_idle=1, tick_seconds=_TICK_SECONDS)
        self._flow = parts.flow
        self._known: dict[tuple[ProcessKey, str], None] = {}  # functions that are async, as far as known

    def learn(self, attempt: Attempt) -> None:
        """Its function is async: the leader will send more of its calls at once."""
        if len(self._known) < _MOST_KNOWN:
            self._known[attempt.terms.process_key, attempt.run.name] = None
        if self.takes(attempt):
            attempt.calls_per_grant = _calls_per_grant(attempt.grant)

    def takes(self, attempt: Attempt) -> bool:
        grant = attempt.grant
        return (
            (attempt.terms.process_key, attempt.run.name) in self._known
            and not attempt.is_sequential
            and attempt.run.task not in self._run_alone.tasks
            and not 0 < attempt.terms.processes < _LEAST_PROCESSES
            and not (grant.ports or grant.gpus or grant.gpu_milli or attempt.devices)
            and len(attempt.run.secrets) <= attempt.run.may_submit  # its key is no variable: each call has its own
        )

    def has(self, attempt: Attempt) -> bool:
        return attempt in self._child_of

    def stop(self, attempt: Attempt) -> None:
        child = self._child_of[attempt]
        if child.is_ready and child.tell(calls.CANCEL + attempt.call.to_bytes(8, "big")):
            self._loop.call_later(self._kill_grace_seconds, self.kill, attempt)
        else:
            self.kill(attempt)

    # ---- children --------------------------------------------------------------------------------------------------

    def child_over(self, child: WarmChild, end: End) -> None:
        self._read(child, is_dead=True)
        self._loop.remove_reader(child.descriptor())
        unbegun = child.take_back() if child.is_ready else []
        if child.waiting is not None:
            unbegun.append(child.waiting)
        self._return([attempt for attempt in unbegun if attempt.stopping is None])
        begun = len(child.sent)
        for attempt in [*child.sent, *(attempt for attempt in unbegun if attempt.stopping is not None)]:
            finish = crash(attempt, child, end, Capture(*attempt.key, 0), self._elapsed_us(attempt))
            if begun > 1 and is_excusable(attempt, child, end):
                finish = self._run_alone.excuse(attempt, finish, f"one of {begun} calls in its process ended it")
            else:
                finish = self._run_alone.excuse_if_little_was_left(attempt, child, end, finish)
                if child.calls_made > 1:  # usage can't be told apart from that of earlier calls
                    finish = msgspec.structs.replace(finish, cpu_ms=0, written_bytes=0)
                finish = unless_disk_is_full(self._full_disk, attempt, end, finish)
            self._finish(attempt, finish)
        self._gone(child, end)

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _put(self, child: WarmChild, attempt: Attempt) -> bool:
        attempt.began_at = self._loop.time()
        if not child.put(attempt, self._bounds.result_limit_bytes):
            return False
        self._child_of[attempt] = child
        return True

    def _top_up(self, child: WarmChild) -> None:
        if child.is_leaving or child.is_outdated or not child.is_ready or not child.sent:
            return
        first = child.sent[0]
        most = _calls_per_grant(first.grant)
        while len(child.sent) < most:
            attempt = self._bench.peek(first.shape)
            if (
                attempt is None
                or attempt.fence_ms != child.fence_ms
                or not self.takes(attempt)
                or not self._put(child, attempt)
            ):
                return
            self._bench.follow(attempt)

    def child_readable(self, child: WarmChild) -> None:
        self._read(child)
        self._top_up(child)

    def _read(self, child: WarmChild, *, is_dead: bool = False) -> None:
        while True:
            try:
                reply = child.next_reply(self._bounds.result_limit_bytes)
                if reply is None:
                    break
                if reply.number == 0:
                    self._ready(child, reply)
                    continue
                attempt = child.attempt_of(reply.number)
                if attempt is None or not child.is_ready:
                    raise BadReply(f"it answers call {reply.number}, which it does not have")
            except BadReply as error:
                if not is_dead:
                    self.child_pool.break_off(child, str(error))
                break
            child.sent.remove(attempt)
            child.grown_bytes = reply.grown_bytes
            self._answered(child, attempt, reply)
        if not child.sent and child.waiting is None and child in self._busy and not is_dead:
            self._park_and_free(child)

    def _answered(self, child: WarmChild, attempt: Attempt, reply: calls.Reply) -> None:
        if reply.retire:
            child.is_outdated = True  # it exits when it has answered its calls
        if reply.is_async:
            attempt.calls_per_grant = _calls_per_grant(attempt.grant)
        else:
            self._known.pop((attempt.terms.process_key, attempt.run.name), None)
        if attempt.stopping is not None:
            finish = Finish(outcome=attempt.stopping, run_us=reply.run_us, failure=stopped(attempt, attempt.stopping))
            counted_us = self._elapsed_us(attempt) - int(attempt.frozen_seconds * 1e6)
            if was_kept_from_running(attempt, counted_us, reply.stalled_us):
                blocked = duration_text(reply.stalled_us // 1000)
                finish = self._run_alone.excuse(
                    attempt, finish, f"calls in its process blocked each other for {blocked}"
                )
            self._finish(attempt, finish)
        elif reply.sequential or reply.stale:
            # An ordinary child is always right for it, and bounds how often it is given back.
            attempt.is_sequential = True
            if reply.stale:
                self.child_pool.reload(child.process_key)
            self._return([attempt])
        else:
            finish = answered(reply, self._capture(attempt, reply))
            self._finish(attempt, finish if reply.failure is None else self._full_disk.judge(attempt, finish))

    def _elapsed_us(self, attempt: Attempt) -> int:
        return max(0, int((self._loop.time() - attempt.began_at) * 1e6))

    def _capture(self, attempt: Attempt, reply: calls.Reply) -> Capture | None:
        if not reply.output:
            return None
        capture = Capture(*attempt.key, log_limit_of(attempt.run.spec, self._bounds.log_limit_bytes))
        ends = [0, 0, 0]
        for stream, offset, data in reply.output:
            capture.skip(stream, offset - ends[stream])
            ends[stream] = offset + len(data)
            self._flow.add(capture, stream, data)
        return capture

    def _ready(self, child: WarmChild, reply: calls.Reply) -> None:
        self.child_pool.started(child, reply.failure)
        if child.is_ready:  # start-up time does not count against their caps
            for attempt in child.sent:
                attempt.began_at = self._loop.time()

    def _isolate(self, child: WarmChild) -> None:
        self._return(child.take_back())

    def _check(self, now: float) -> None:
        for attempt, child in list(self._child_of.items()):
            if attempt.frozen_at is not None:
                continue
            cap_ms, began_at = attempt.run.cap_ms, attempt.began_at + attempt.frozen_seconds
            if not child.is_ready:
                if now - began_at > START_SECONDS:
                    self.kill(attempt)
            elif cap_ms and (now - began_at + attempt.fetch_seconds) * 1000 >= cap_ms and attempt.stopping is None:
                attempt.stopping = Outcome.TIMEOUT
                self.stop(attempt)


def _calls_per_grant(grant: Resources) -> int:
    """How many calls may run concurrently on one grant. They mostly wait: a small grant has as many as a whole CPU."""
    return min(_MOST_CALLS_PER_GRANT, max(_PER_CPU, _PER_CPU * grant.cpu_milli // 1000))
