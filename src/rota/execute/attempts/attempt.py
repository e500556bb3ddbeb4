"""One attempt on this node, from its arrival to its result: the record that every part of the agent shares.

Exactly one part owns an attempt at a time: the grants while it waits, an executor while it runs, the outbox once it has
ended. The record decides nothing; `stopped` and `over_limit` write the failure messages of attempts that the agent
ended.
"""

from __future__ import annotations

import asyncio
import enum
import signal
from typing import Any, Protocol

import msgspec

from rota.execute.attempts.sharing import PLAIN, SCRATCH_BYTES, SharingTerms
from rota.execute.logs.capture import Capture
from rota.execute.messages.masking import mask_text, patterns_of
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.units import bytes_text, duration_text
from rota.wire import Failure, LogChunk, Result, Run

Key = tuple[int, int]  # task, attempt


class Phase(enum.Enum):
    WAITING = 1  # for its grant
    RUNNING = 2
    ENDED = 3


class Attempt(msgspec.Struct, eq=False):
    run: Run
    shape: bytes  # the encoded grant and the sharing mark: attempts of equal shape are interchangeable
    grant: Resources
    terms: SharingTerms = PLAIN
    key: Key = (0, 0)  # the run's, like the fence
    fence_ms: int = 0
    began_at: float = 0.0  # when its child got the call
    fetch_seconds: float = 0.0  # part of its cap, used while its package was fetched
    number: int = 0  # order of arrival
    notes: list[str] = []  # sentences for its output, written before it started
    damaged: list[int] = []  # numbers of checkpoints of its task that were found damaged
    call: int = 0  # its number in its warm child
    passed_over: int = 0
    calls_per_grant: int = 1  # how many calls of its function may share one grant, as far as known
    is_sequential: bool = False  # an async function that can't share its child
    returns: int = 0  # how often a child gave it back because its code had changed
    phase: Phase = Phase.WAITING
    stopping: Outcome | None = None  # why the agent is ending it; None: it is not
    stopping_order: str = ""  # the leader's reason, if the leader asked for it
    mean_run_us: float = 0.0
    ports: tuple[int, ...] = ()  # reserved for it while it runs
    gpus: tuple[int, ...] = ()  # devices it may use, whole or in part
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()  # devices of other kinds, never shared
    frozen_at: float | None = None  # since when it is frozen; None: it is not
    frozen_seconds: float = 0.0  # how long it was frozen before
    thawed: asyncio.Event | None = None  # set when it may go on; None: it was never frozen

    def __post_init__(self) -> None:
        self.key = (self.run.task, self.run.attempt)
        self.fence_ms = self.run.fence_ms
        self.shape += self.terms.mark

    def frozen_for(self, now: float) -> float:
        """How long it has been frozen in all: time that its cap does not count."""
        return self.frozen_seconds + (0.0 if self.frozen_at is None else max(0.0, now - self.frozen_at))


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, as its executor reports it. A msgspec struct because one is made per call."""

    outcome: Outcome
    run_us: int
    result: bytes | None = None
    exit_code: int | None = None
    failure: Failure | None = None
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
    written_bytes: int = 0
    capture: Capture | None = None
    retry_in_ms: int | None = None  # the task or its node asked for a retry then
    ended_at: float = 0.0  # when the run ended, by the monotonic clock; 0: now


class Executor(Protocol):
    """Runs attempts; the workbench starts and ends them through it."""

    log_limit_bytes: int
    result_limit_bytes: int

    def start(self, attempt: Attempt) -> None: ...

    def stop(self, attempt: Attempt) -> None: ...

    def kill(self, attempt: Attempt) -> None: ...

    def recap(self, attempt: Attempt) -> None: ...

    def freeze(self, attempt: Attempt) -> None: ...

    def thaw(self, attempt: Attempt) -> None: ...


class FunctionExecutor(Executor, Protocol):
    def recall(self, attempt: Attempt) -> bool: ...

    def top_up(self) -> None: ...

    def reload(self) -> None: ...

    def dismiss_idle(self) -> None: ...

    def give_up_devices(self, attempt: Attempt) -> None: ...


def result_of(attempt: Attempt, finish: Finish, inline: list[LogChunk], now: float) -> Result:
    """The message for the server; `inline` is output that no server has stored."""
    capture, failure = finish.capture, finish.failure
    frozen_us = int(1e6 * (attempt.frozen_for(finish.ended_at or now) if attempt.stopping else attempt.frozen_seconds))
    return Result(
        attempt.key[0],
        attempt.key[1],
        finish.outcome,
        max(0, finish.run_us - frozen_us),
        finish.result,
        finish.exit_code,
        without_secrets(attempt, failure) if failure is not None and attempt.run.secrets else failure,
        finish.cpu_ms,
        finish.peak_memory_bytes,
        inline,
        capture.kept_bytes if capture else 0,
        capture.dropped_bytes if capture else 0,
        finish.written_bytes,
        finish.retry_in_ms,
        attempt.calls_per_grant,
        max(0, int((now - finish.ended_at) * 1e6)) if finish.ended_at else 0,
        now,
        frozen_us,
    )


def without_secrets(attempt: Attempt, failure: Failure) -> Failure:
    """The failure with the values of the attempt's secrets masked."""
    patterns = patterns_of(attempt.run.secrets)
    if not patterns:
        return failure
    return Failure(*(mask_text(text, patterns) for text in (failure.type, failure.message, failure.traceback)))


def stopped(attempt: Attempt, reason: Outcome) -> Failure:
    if reason is Outcome.TIMEOUT:
        return Failure("timeout", f"ran longer than its cap of {duration_text(attempt.run.cap_ms)}")
    if reason is Outcome.CANCELLED:
        return Failure("cancelled", "stopped because its owner asked")
    if attempt.stopping_order == "pause":
        return Failure("paused", "stopped because its owner paused it")
    if attempt.stopping_order == "preempt":
        return Failure("preempted", "stopped to make room for work that could not wait")
    return Failure("disrupted", "stopped because its node was drained or cut off from the server")


def over_limit(grant: Resources, limit: str, used: int, what: str = "", *, processes: int = 0) -> Failure:
    """Which limit ended it, what was granted and what was used. `what`: the archive that would go over it.

    `processes`: how many were granted.
    """
    if limit == "oom":
        granted = bytes_text(grant.memory_bytes)
        return Failure(limit, f"went over its memory: {granted} granted, {bytes_text(used)} used")
    if limit == "disk-limit":
        granted = bytes_text(grant.disk_bytes)
        if not grant.disk_bytes:
            granted = f"none but {bytes_text(SCRATCH_BYTES)} for small files"
        if what:
            return Failure(
                limit, f"{what}: unpacked it goes over the disk space: {granted} granted, {bytes_text(used)} needed"
            )
        return Failure(limit, f"went over its disk space: {granted} granted, {bytes_text(used)} used")
    if limit == "pids-limit":
        more = " and more asked for" if used <= processes else ""
        return Failure(limit, f"went over its processes: {processes} granted, {used} used{more}")
    return Failure(limit, f"its folder holds more than {used} files, or folders more than 200 deep")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def cancel_at_cap(attempt: Attempt, bringing: asyncio.Task[Any], began_at: float) -> None:
    """Cancels `bringing`, which fetches the attempt's files, at the cap, unless that is raised until then."""
    loop = bringing.get_loop()
    if bringing.done() or attempt.stopping is not None or not attempt.run.cap_ms:
        return
    ends_at = began_at + attempt.frozen_for(loop.time()) + attempt.run.cap_ms / 1000
    if loop.time() < ends_at:
        loop.call_at(ends_at, cancel_at_cap, attempt, bringing, began_at)
    else:
        attempt.stopping = Outcome.TIMEOUT
        bringing.cancel()
