"""How a call ended, as a `Finish`: answered by its child, or by the child's death; and which calls are not blamed.

Where several calls share a process, nobody can tell which of them ended it, blocked the others, or left memory in use.
None is blamed: they end as disrupted, which uses up no attempt, and this node remembers to run them alone. Then the
culprit fails by itself and the others succeed. Other nodes don't know, so each may make the same mistake once; a task
with very many attempts is not excused any more, so that nothing goes round for ever.
"""

from __future__ import annotations

import os

import msgspec

from rota.execute.attempts.attempt import Attempt, Finish, over_limit, signal_name, stopped
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.functions.child_link import WarmChild
from rota.execute.keeper import launch
from rota.execute.keeper.limit_watch import OOM
from rota.execute.keeper_link import End, Ended, Lost, Refused
from rota.execute.logs.capture import Capture
from rota.execute.messages.calls import Reply
from rota.model.attempt import Outcome
from rota.model.units import bytes_text
from rota.wire import Failure

_MOST_REMEMBERED = 10_000
_MOST_ATTEMPTS = 100
_MUCH = 8  # a grown child has kept more than one part in so many of the grant's memory
_OUTCOMES = {int(outcome): outcome for outcome in Outcome}  # a quarter of the cost of Outcome(number)


def answered(reply: Reply, capture: Capture | None) -> Finish:
    """The finish of a call that its child has answered."""
    return Finish(
        outcome=_OUTCOMES[reply.outcome],
        run_us=reply.run_us,
        result=reply.result,
        failure=None if reply.failure is None else Failure(*reply.failure),
        cpu_ms=reply.cpu_us // 1000,
        peak_memory_bytes=reply.peak_memory_bytes,
        written_bytes=reply.written_bytes,
        retry_in_ms=reply.retry_in_ms,
        capture=capture,
    )


def start_failure(child: WarmChild, end: End) -> tuple[str, str, str]:
    return child.failure or ("child-start-failed", f"the process for functions {_how(end)} while starting", "")


def crash(attempt: Attempt, child: WarmChild, end: End, capture: Capture, run_us: int) -> Finish:
    if attempt.stopping is not None:
        outcome, failure = attempt.stopping, stopped(attempt, attempt.stopping)
    elif isinstance(end, Lost):
        why = "the keeper process of its node died, and the function's process with it"
        outcome, failure = Outcome.DISRUPTED, Failure("keeper-lost", why)
    elif isinstance(end, Ended) and end.fenced:
        outcome, failure = Outcome.DISRUPTED, stopped(attempt, Outcome.DISRUPTED)
    elif isinstance(end, Ended) and end.limit:
        outcome, failure = (
            Outcome.ERROR,
            over_limit(attempt.grant, end.limit, end.used, processes=end.granted_processes),
        )
    elif child.broken:
        why = f"the function's process does not keep to the protocol: {child.broken}"
        outcome, failure = Outcome.CRASHED, Failure("crashed", why[:2000])
    elif not child.is_ready:
        outcome, failure = Outcome.REFUSED, Failure(*start_failure(child, end))
    else:
        outcome, failure = Outcome.CRASHED, Failure("crashed", f"the function's process {_how(end)}")
    used = end if isinstance(end, Ended) else None
    return Finish(
        outcome=outcome,
        run_us=run_us,
        failure=failure,
        capture=capture,
        cpu_ms=0 if used is None else max(0, used.cpu_us - child.cpu_us) // 1000,
        peak_memory_bytes=0 if used is None else used.peak_memory_bytes,
        written_bytes=0 if used is None else max(0, used.written_bytes - child.written_bytes),
    )


def unless_disk_is_full(full_disk: FullDisk, attempt: Attempt, end: End, finish: Finish) -> Finish:
    """Call it before the child's folder is removed."""
    if isinstance(end, Refused) and end.slug == launch.DISK_FULL and attempt.stopping is None:
        return full_disk.blame(attempt, finish, innocent=True)
    return full_disk.judge(attempt, finish, limit=end.limit) if isinstance(end, Ended) else finish


def _how(end: End) -> str:
    if isinstance(end, Ended):
        code = os.waitstatus_to_exitcode(end.status)
        return f"exited with code {code}" if code >= 0 else f"died of {signal_name(-code)}"
    if isinstance(end, Refused):
        return f"could not be started ({end.message})"
    return "was lost with its keeper"


class RunAlone:
    """Tasks whose next attempts run in a process of their own."""

    def __init__(self) -> None:
        self.tasks: dict[int, None] = {}

    def excuse(self, attempt: Attempt, finish: Finish, what: str) -> Finish:
        """Ends the attempt as disrupted because of `what`; the message keeps why it would have failed."""
        self.tasks[attempt.run.task] = None
        if len(self.tasks) > _MOST_REMEMBERED:
            del self.tasks[next(iter(self.tasks))]
        if finish.failure is not None:
            what = f"{what} ({finish.failure.message})"
        failure = Failure("neighbour", f"{what}; it is tried again alone"[:2000])
        return msgspec.structs.replace(
            finish, outcome=Outcome.DISRUPTED, failure=failure, result=None, retry_in_ms=None
        )

    def excuse_if_little_was_left(self, attempt: Attempt, child: WarmChild, end: End, finish: Finish) -> Finish:
        """For a call that went over its memory in a child that had kept much of earlier calls."""
        if not isinstance(end, Ended) or end.limit != OOM or not is_excusable(attempt, child, end):
            return finish
        if child.grown_bytes <= attempt.grant.memory_bytes // _MUCH:
            return finish
        return self.excuse(attempt, finish, f"its process still held {bytes_text(child.grown_bytes)} of earlier calls")


def is_excusable(attempt: Attempt, child: WarmChild, end: End) -> bool:
    """Whether another call in its child may have ended it. A stop that somebody asked for is no call's doing."""
    if attempt.stopping not in (None, Outcome.TIMEOUT) or attempt.run.attempt > _MOST_ATTEMPTS:
        return False
    return child.is_ready and isinstance(end, Ended) and not end.fenced


def was_kept_from_running(attempt: Attempt, elapsed_us: int, stalled_us: int) -> bool:
    """Past its cap only because its event loop was blocked, probably by another call."""
    if not stalled_us or attempt.stopping is not Outcome.TIMEOUT or attempt.run.attempt > _MOST_ATTEMPTS:
        return False
    return elapsed_us - stalled_us < attempt.run.cap_ms * 1000
