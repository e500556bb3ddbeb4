"""How a call ended whose child died in it, in the words of a result. Pure, but for the look at a full disk."""

from __future__ import annotations

import os

from rota.execute.attempts.attempt import Attempt, Finish, over_limit, signal_name, stopped
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.functions.child_link import WarmChild
from rota.execute.keeper import launch
from rota.execute.keeper_link import End, Ended, Lost, Refused
from rota.execute.logs.capture import Capture
from rota.model.attempt import Outcome
from rota.wire import Failure


def start_failure(child: WarmChild, end: End) -> tuple[str, str, str]:
    return child.failure or (
        "child-start-failed",
        f"the process for functions {_how(end)} while starting",
        "",
    )


def crash(attempt: Attempt, child: WarmChild, end: End, capture: Capture, run_us: int) -> Finish:
    if attempt.stopping is not None:
        outcome, failure = attempt.stopping, stopped(attempt, attempt.stopping)
    elif isinstance(end, Lost):
        why = "the process that keeps this node's tasks died, and the function's with it"
        outcome, failure = Outcome.DISRUPTED, Failure("keeper-lost", why)
    elif isinstance(end, Ended) and end.fenced:
        outcome, failure = Outcome.DISRUPTED, stopped(attempt, Outcome.DISRUPTED)
    elif isinstance(end, Ended) and end.limit:
        outcome, failure = Outcome.ERROR, over_limit(attempt.room, end.limit, end.used)
    elif child.broken:
        why = f"the function's process does not keep to the protocol: {child.broken}"
        outcome, failure = Outcome.CRASHED, Failure("crashed", why[:2000])
    elif not child.is_ready:
        outcome, failure = Outcome.REFUSED, Failure(*start_failure(child, end))
    else:
        outcome, failure = Outcome.CRASHED, Failure("crashed", f"the function's process {_how(end)}")
    used = end if isinstance(end, Ended) else None
    return Finish(
        outcome=outcome, run_us=run_us, failure=failure, capture=capture,
        cpu_ms=0 if used is None else max(0, used.cpu_us - child.cpu_us) // 1000,
        peak_memory_bytes=0 if used is None else used.peak_memory_bytes,
        written_bytes=0 if used is None else max(0, used.written_bytes - child.written_bytes),
    )  # fmt: skip


def unless_disk_is_full(full_disk: FullDisk, attempt: Attempt, end: End, finish: Finish) -> Finish:
    """Asked before its child's folder is removed."""
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
