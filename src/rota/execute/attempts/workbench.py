"""Owns every attempt on this node: takes the leader's orders, starts attempts as their grants fit, hands on results.

An attempt runs at most once (I9): one that is here, has ended, or was declared unknown is never started again. The
node's capacity is never exceeded (I13). Before anything is started, sent or read after a pause of this process,
attempts past their fence are frozen (`guard`, `frozen.py`). Everything runs on the event loop and nothing waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

import msgspec
import structlog

from rota import wire
from rota.execute.attempts.attempt import Attempt, Executor, Finish, FunctionExecutor, Key, Phase, result_of, stopped
from rota.execute.attempts.frozen import DEFAULT_LIMIT_SECONDS, TrustedAttempts
from rota.execute.attempts.grants import Grants
from rota.execute.attempts.outbox import Outbox
from rota.execute.attempts.sharing import PLAIN, terms_of
from rota.execute.logs.shipping import LogShipper
from rota.execute.machine.ports import Ports
from rota.model.attempt import Outcome
from rota.model.fence import NEVER
from rota.model.node import Closed
from rota.model.resources import Resources
from rota.model.task import Kind
from rota.wire import Failure

log = structlog.get_logger()

_REMEMBERED_ENDS = 100_000
_encode = msgspec.msgpack.Encoder().encode


class Workbench:
    def __init__(
        self,
        *,
        capacity: Resources,
        outbox: Outbox,
        shipper: LogShipper,
        on_trust: Callable[[float], None],  # the keeper enforces the fence too
        ports: Ports,
        kinds: Mapping[str, int] | None = None,  # custom resources that are devices
        frozen_limit_seconds: float = DEFAULT_LIMIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ports = ports
        self._outbox = outbox
        self._shipper = shipper
        self._on_trust = on_trust
        self._clock = clock
        self._grants = Grants(capacity, kinds)
        self._attempts: dict[Key, Attempt] = {}
        # Also attempts reported as unknown: neither may start any more. Ordered: a plain dict that loses its first
        # entry again and again walks over all the gaps each time.
        self._ended: OrderedDict[Key, None] = OrderedDict()
        self._trusted = TrustedAttempts(clock, frozen_limit_seconds=frozen_limit_seconds)
        self._guard_at = NEVER
        self._draining = False
        self.is_full = False  # the node's disk is full
        self._only_one = False  # takes a single attempt, then nothing more
        self._leaving = False  # about to leave: takes nothing new
        self._stopping = False  # the agent ends: nothing makes it take work again
        self._is_still = False
        self.empty = asyncio.Event()  # there is no attempt here
        self.empty.set()
        self.busy = asyncio.Event()  # there is one
        self.has_leader = asyncio.Event()  # a leader has registered this node, and its connection lasts
        self.acknowledged = asyncio.Event()  # a leader has answered since this was last cleared
        self.worked = asyncio.Event()  # an attempt has run here and was reported
        self.processes: Executor
        self.functions: FunctionExecutor

    def set_executors(self, processes: Executor, functions: FunctionExecutor) -> None:
        self.processes = processes
        self.functions = functions

    # ---- orders from the leader ----------------------------------------------------------------------------

    def welcome(self, frame: wire.Welcome) -> None:
        self.processes.log_limit_bytes = frame.log_limit_bytes
        self.functions.log_limit_bytes = frame.log_limit_bytes
        self.processes.result_limit_bytes = self.functions.result_limit_bytes = frame.result_limit_bytes
        self._draining = self._stopping  # a leader that still drains this node repeats its order

    def inventory(self, expected: list[Key]) -> wire.Inventory:
        keys = [*self._attempts, *(key for key in self._outbox.unacknowledged if key not in self._attempts)]
        unknown = [key for key in expected if key not in self._attempts and key not in self._outbox.unacknowledged]
        for key in unknown:
            self._remember(key)
        for attempt in self._trusted.given_up(expected):
            self._kill_frozen(attempt, "given up by the leader while it was frozen; killing")
        return wire.Inventory(present=keys, unknown=unknown, frozen=self._trusted.frozen_keys())

    def start(self, frame: wire.Start) -> None:
        shapes = {number: (_encode(grant), grant) for number, grant in frame.shapes.items()}
        fitting = {number for number, grant in frame.shapes.items() if self._grants.could_ever_fit(grant)}
        refused: list[Key] = []
        for run in frame.runs:
            key = (run.task, run.attempt)
            if key in self._attempts or key in self._ended or key in self._outbox.unacknowledged:
                log.warning("a start for an attempt that was here before is ignored", task=key[0], attempt=key[1])
                continue
            if self._draining or self.closed_for is not None:
                refused.append(key)
                continue
            terms = terms_of(run) if run.kind is Kind.FUNCTION else PLAIN
            attempt = Attempt(run, *shapes[run.shape], terms)
            self._attempts[key] = attempt
            self.empty.clear()
            self.busy.set()
            if run.shape not in fitting:
                failure = Failure("does-not-fit", "asks for more than this node has")
                self.finished(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=failure))
                continue
            self._trusted.add(attempt)
            self._grants.wait(attempt)
        self._guard_at = self._trusted.next_at()
        if self._only_one:
            self._outbox.beat()  # before anything goes back, or the leader sends it here again
        self._outbox.give_back(refused)
        self.start_waiting()

    def stop(self, keys: list[Key], reason: str) -> None:
        outcome = Outcome.CANCELLED if reason == "cancel" else Outcome.DISRUPTED
        with self._starting_nothing():
            for attempt in [self._attempts[key] for key in keys if key in self._attempts]:
                if self._is_unstarted(attempt):
                    if outcome is Outcome.CANCELLED:
                        self._end_unstarted(attempt, outcome)
                    else:
                        self._give_back([attempt])
                elif attempt.stopping is None and attempt.phase is Phase.RUNNING:
                    attempt.stopping, attempt.stopping_order = outcome, reason
                    if attempt.frozen_at is None:
                        self._executor(attempt).stop(attempt)
                    else:  # a signal would let it act
                        self._kill_frozen(attempt, "told to stop while it was frozen; killing")
        self.start_waiting()

    def recall(self, keys: list[Key], number: int = 0) -> None:
        with self._starting_nothing():
            attempts = [self._attempts[key] for key in keys if key in self._attempts]
            self._give_back([attempt for attempt in attempts if self._is_unstarted(attempt)])
        if number:
            self._outbox.confirm_recall(number)
        self.start_waiting()

    def recap(self, caps: list[tuple[int, int, int]]) -> None:
        """Changes caps; attempts that are being ended are left alone."""
        for task, number, cap_ms in caps:
            attempt = self._attempts.get((task, number))
            if attempt is not None and attempt.stopping is None and attempt.phase is not Phase.ENDED:
                attempt.run = msgspec.structs.replace(attempt.run, cap_ms=cap_ms)
                if attempt.phase is Phase.RUNNING:
                    self._executor(attempt).recap(attempt)

    def drain(self) -> None:
        self._draining = True
        with self._starting_nothing():
            self._give_back([attempt for attempt in list(self._attempts.values()) if self._is_unstarted(attempt)])

    def set_full(self, full: bool) -> bool:
        """The disk is full or has space again; whether that is new. The leader is told before it gets anything back."""
        if full == self.is_full:
            return False
        self.is_full = full
        self._outbox.beat()
        if full:
            with self._starting_nothing():
                self._give_back([attempt for attempt in list(self._attempts.values()) if self._is_unstarted(attempt)])
            self.functions.dismiss_idle()
        return True

    def take_only_one(self) -> None:
        """For a machine that is used once. An attempt that is given back before it began does not count."""
        self._only_one = True

    def leave(self) -> None:
        """The agent is about to leave: tells the leader to send nothing more; what still arrives goes back."""
        self._leaving = True
        self._outbox.beat()

    @property
    def closed_for(self) -> Closed | None:
        """Why nothing new is taken, if the leader can't know the reason by itself."""
        had_enough = self._only_one and (bool(self._attempts) or self.worked.is_set())
        if self._leaving or had_enough:
            return Closed.LEAVING
        return Closed.FULL if self.is_full else None

    @property
    def trusted_at(self) -> float:
        return self._trusted.trusted_at

    def undrain(self) -> None:
        self._draining = self._stopping

    def disrupt_all(self) -> None:
        """The agent is stopping: takes nothing new, gives waiting attempts back, ends running ones politely."""
        self._stopping = True
        self.drain()
        self.stop(list(self._attempts), "drain")

    def kill_all(self) -> None:
        """The time to end politely is over."""
        for attempt in [one for one in self._attempts.values() if one.phase is Phase.RUNNING]:
            self._executor(attempt).kill(attempt)

    def forget_all(self) -> None:
        """Another database, which knows nothing of these attempts: kills them all and reports none."""
        for attempt in list(self._attempts.values()):
            if attempt.phase is Phase.RUNNING:
                attempt.stopping = Outcome.DISRUPTED
                self._executor(attempt).kill(attempt)
            else:
                attempt.phase = Phase.ENDED
            self._trusted.discard(attempt)
        self._attempts.clear()
        self.empty.set()
        self.busy.clear()
        self._ended.clear()
        self._outbox.forget_all()
        self._shipper.forget_all()

    @property
    def attempt_count(self) -> int:
        return len(self._attempts)

    @property
    def frozen_count(self) -> int:
        return self._trusted.frozen_count

    # ---- the fence -----------------------------------------------------------------------------------------

    def trust(self, sent_at: float) -> None:
        """A leader has acknowledged this node, after `inventory` on this connection: what is frozen here thaws."""
        thawed = self._trusted.trust(sent_at)
        self.acknowledged.set()
        self._on_trust(self._trusted.trusted_at)
        for attempt in thawed:
            log.warning("thawed", task=attempt.key[0], attempt=attempt.key[1], seconds=round(attempt.frozen_seconds, 1))
            self._executor(attempt).thaw(attempt)
            if attempt.thawed is not None:
                attempt.thawed.set()
        self._guard_at = self._trusted.next_at()

    def guard(self) -> float:
        """Freezes attempts past their fence; cheap when there are none. Returns when to call again."""
        if self._clock() >= self._guard_at:
            self._enforce_fence()
        return self._guard_at

    def _enforce_fence(self) -> None:
        with self._starting_nothing():
            for attempt in self._trusted.past():
                if self._is_unstarted(attempt):
                    self._end_unstarted(attempt, Outcome.DISRUPTED)
                elif attempt.phase is Phase.RUNNING:
                    log.warning("cut off from the leader; freezing", task=attempt.key[0], attempt=attempt.key[1])
                    self._trusted.freeze(attempt)
                    self._executor(attempt).freeze(attempt)
                else:
                    self._trusted.discard(attempt)
            for attempt in self._trusted.overdue():
                self._kill_frozen(attempt, "frozen for too long without a leader; killing")
        self._guard_at = self._trusted.next_at()

    def _kill_frozen(self, attempt: Attempt, why: str) -> None:
        log.warning(why, task=attempt.key[0], attempt=attempt.key[1])
        self._trusted.discard(attempt)  # so that nothing thaws it
        attempt.stopping = attempt.stopping or Outcome.DISRUPTED
        self._executor(attempt).kill(attempt)

    # ---- starting and ending -------------------------------------------------------------------------------

    def start_waiting(self) -> None:
        """Starts every waiting attempt whose grant fits now."""
        if self._is_still:
            return  # called from inside the loop below or from inside an order
        self.guard()
        with self._starting_nothing():
            while (attempt := self._grants.next()) is not None:
                if not attempt.grant.ports or self._reserve_ports(attempt):
                    if (attempt.gpus or attempt.devices) and attempt.run.kind is not Kind.FUNCTION:
                        self.functions.give_up_devices(attempt)
                    self._executor(attempt).start(attempt)
            self.functions.top_up()

    def _reserve_ports(self, attempt: Attempt) -> bool:
        """The grant counts ports; other programs on this machine may hold them all the same."""
        ports = self._ports.take(attempt.grant.ports)
        if ports is None:
            why = (
                f"{attempt.grant.ports} ports were promised, but other programs on this node hold too many of its range"
            )
            self._grants.release(attempt.grant)
            self.finished(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=Failure("no-free-ports", why)))
            return False
        attempt.ports = ports
        return True

    def _release_own(self, attempt: Attempt) -> None:
        if attempt.gpus or attempt.devices:
            self._grants.unassign(attempt)
        if attempt.ports:
            self._ports.give_back(attempt.ports)
            attempt.ports = ()

    @contextlib.contextmanager
    def _starting_nothing(self) -> Iterator[None]:
        """During an order, resources that become free must not go to an attempt that is about to be ended."""
        before, self._is_still = self._is_still, True
        try:
            yield
        finally:
            self._is_still = before

    def peek(self, shape: bytes) -> Attempt | None:
        """The next call that may share a running call's grant; never one with ports or devices of its own."""
        head = self._grants.peek(shape)
        if head is None or head.run.kind is not Kind.FUNCTION:
            return None
        return None if head.grant.ports or self._grants.has_devices(head.grant) else head

    def follow(self, attempt: Attempt) -> None:
        self._grants.follow(attempt)

    def put_back(self, returned: list[Attempt]) -> None:
        for attempt in returned:
            self._release_own(attempt)
        # Not those that were forgotten with their database.
        self._grants.put_back([attempt for attempt in returned if self._attempts.get(attempt.key) is attempt])

    def process_finished(self, attempt: Attempt, finish: Finish) -> None:
        self._grants.release(attempt.grant)
        self.finished(attempt, finish)
        self.start_waiting()

    def slot_free(self, grant: Resources) -> None:
        self._grants.release(grant)
        self.start_waiting()

    def finished(self, attempt: Attempt, finish: Finish) -> None:
        attempt.phase = Phase.ENDED
        self._release_own(attempt)
        self._trusted.discard(attempt)
        capture = finish.capture
        if self._attempts.get(attempt.key) is not attempt:  # forgotten together with its database
            if capture is not None:
                self._shipper.abandon(capture)
            return
        if capture is not None:
            self._shipper.flow.end_masking(capture)
        if capture is None or (not capture.kept_bytes and not capture.dropped_bytes):
            self._report(attempt, finish, [])
        else:
            self._shipper.finish(capture, lambda inline: self._report(attempt, finish, inline))

    def _report(self, attempt: Attempt, finish: Finish, inline: list[wire.LogChunk]) -> None:
        self._release(attempt)
        self._remember(attempt.key)
        if finish.outcome not in (Outcome.REFUSED, Outcome.RECALLED):
            self.worked.set()
        self._outbox.add(result_of(attempt, finish, inline, self._clock()))

    def _end_unstarted(self, attempt: Attempt, outcome: Outcome) -> None:
        self.finished(attempt, Finish(outcome=outcome, run_us=0, failure=stopped(attempt, outcome)))

    def _give_back(self, unstarted: list[Attempt]) -> None:
        for attempt in unstarted:
            attempt.phase = Phase.ENDED
            self._trusted.discard(attempt)
            self._release(attempt)
        self._outbox.give_back([attempt.key for attempt in unstarted])

    def _release(self, attempt: Attempt) -> None:
        del self._attempts[attempt.key]
        if not self._attempts:
            self.empty.set()
            self.busy.clear()

    def _is_unstarted(self, attempt: Attempt) -> bool:
        if attempt.phase is Phase.RUNNING and attempt.run.kind is Kind.FUNCTION:
            self.functions.recall(attempt)
        return attempt.phase is Phase.WAITING

    def _executor(self, attempt: Attempt) -> Executor:
        return self.functions if attempt.run.kind is Kind.FUNCTION else self.processes

    def _remember(self, key: Key) -> None:
        self._ended[key] = None
        if len(self._ended) > _REMEMBERED_ENDS:
            self._ended.popitem(last=False)
