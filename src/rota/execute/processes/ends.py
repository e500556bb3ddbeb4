"""How a process attempt ended, as a `Finish`: from the keeper's report, or from the reason it never started.

A container engine reports its own failures by exit codes that programs use too, and so does the first process in a
container. Such a code counts as the engine's only if the last line on standard error is the engine's as well. A task
that imitates them gets nothing by it but a misleading reason.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal

import msgspec
import structlog

from rota.execute.attempts.attempt import Attempt, Finish, over_limit, signal_name, stopped
from rota.execute.files.collect import NotCollected
from rota.execute.files.prepare import NotPrepared
from rota.execute.images.node_images import wait_ms
from rota.execute.keeper import launch
from rota.execute.keeper.launch import one_line
from rota.execute.keeper_link import End, Ended, Lost, Refused, Spawn
from rota.execute.logs.capture import Capture
from rota.execute.messages.masking import mask_json, patterns_of
from rota.execute.processes import task_files
from rota.execute.sandbox.container import NOT_STARTED
from rota.execute.sandbox.engine_calls import error_line
from rota.model.attempt import Outcome
from rota.wire import Failure

log = structlog.get_logger()

_SIGNALS = {int(number) for number in signal.Signals}


def not_prepared(
    attempt: Attempt, preparing: asyncio.Task[Spawn] | asyncio.Task[None], *, run_us: int
) -> Finish | None:
    """The finish of an attempt that can't start; None if it can. Its run so far was the fetching of its files."""
    error = None if preparing.cancelled() else preparing.exception()
    if attempt.stopping is not None or preparing.cancelled():
        reason = attempt.stopping or Outcome.DISRUPTED
        return Finish(outcome=reason, run_us=run_us, failure=stopped(attempt, reason))
    if error is None:
        return None
    outcome = error.outcome if isinstance(error, NotPrepared) else Outcome.REFUSED
    return Finish(outcome=outcome, run_us=run_us, failure=why_of(error))


def without_image(attempt: Attempt, image: str, *, is_pulled: bool) -> Finish:
    """An attempt whose image is not on its node. It comes back later, or never if the image can't be had.

    The reason is the same whatever went wrong: a registry's answer would tell a tenant what the node can reach.
    """
    if is_pulled:
        failure = Failure("image-pull", f"was given back while image {image} is pulled to its node")
        wait = wait_ms(attempt.run.attempt)
        return Finish(outcome=Outcome.RECALLED, run_us=0, failure=failure, retry_in_ms=wait)
    why = "there is no such image, or its registry is not allowed, or it can't be reached: the node's log says which"
    failure = Failure("image-unavailable", f"there is no image {image} for this node: {why}")
    return Finish(outcome=Outcome.REFUSED, run_us=0, failure=failure)


def why_of(error: BaseException) -> Failure:
    if isinstance(error, NotPrepared | NotCollected):
        return error.failure
    # A bug of ours must not leave the attempt without a finish.
    log.error("an attempt's files could not be handled", exc_info=error)
    return Failure("agent-error", f"the agent failed: {type(error).__name__}")


def with_result(attempt: Attempt, finish: Finish, folder: str, limit_bytes: int) -> Finish:
    """Adds the result that the task wrote."""
    try:
        result = task_files.read_result(folder, limit_bytes)
    except task_files.BadResult as error:
        failure = Failure(error.slug, str(error))
        return msgspec.structs.replace(finish, outcome=Outcome.BAD_RESULT, failure=failure)
    if result is not None and attempt.run.secrets:
        result = mask_json(result, patterns_of(attempt.run.secrets))
    return finish if result is None else msgspec.structs.replace(finish, result=result)


def may_be_the_disks_fault(end: End, finish: Finish) -> bool:
    if isinstance(end, Refused):
        return end.slug == launch.DISK_FULL
    return isinstance(end, Ended) and finish.outcome is Outcome.ERROR and not end.limit


def finish_of(attempt: Attempt, end: End, capture: Capture, *, lost_run_us: int) -> Finish:
    """`lost_run_us`: how long it ran if its keeper died and can't tell."""
    if isinstance(end, Lost):
        failure = Failure("keeper-lost", "the keeper process of its node died, and the task with it")
        return Finish(outcome=Outcome.DISRUPTED, run_us=lost_run_us, failure=failure, capture=capture)
    if isinstance(end, Refused):
        outcome = Outcome.DISRUPTED if end.slug == "folder-lost" else Outcome.REFUSED
        return Finish(outcome=outcome, run_us=0, failure=Failure(end.slug, end.message), capture=capture)
    outcome, exit_code, why = _outcome(attempt, end)
    return Finish(
        outcome=outcome,
        run_us=max(0, end.ended_us - end.started_us),
        ended_at=end.ended_us / 1e6,
        exit_code=exit_code,
        failure=why,
        cpu_ms=end.cpu_us // 1000,
        peak_memory_bytes=end.peak_memory_bytes,
        written_bytes=end.written_bytes,
        capture=capture,
    )


def _outcome(attempt: Attempt, end: Ended) -> tuple[Outcome, int, Failure | None]:
    code = os.waitstatus_to_exitcode(end.status)
    exit_code = code if code >= 0 else 128 - code
    if attempt.stopping is not None:
        return attempt.stopping, exit_code, stopped(attempt, attempt.stopping)
    if end.fenced:
        return Outcome.DISRUPTED, exit_code, stopped(attempt, Outcome.DISRUPTED)
    if exit_code == 128 + signal.SIGXFSZ and attempt.grant.disk_bytes:
        return Outcome.ERROR, exit_code, over_limit(attempt.grant, "disk-limit", attempt.grant.disk_bytes)
    if end.limit:
        return Outcome.ERROR, exit_code, over_limit(attempt.grant, end.limit, end.used, processes=end.granted_processes)
    if code == 0:
        return Outcome.OK, 0, None
    if code > 0:
        return Outcome.ERROR, exit_code, Failure("exit-code", f"exited with code {code}{_as_if_by_signal(code)}")
    return Outcome.ERROR, exit_code, Failure("signal", f"died of {signal_name(-code)}")


def _as_if_by_signal(code: int) -> str:
    """Shells and bubblewrap pass on a signal as 128 plus its number, like an exit code of the task's own."""
    return f", as if by {signal_name(code - 128)}" if code - 128 in _SIGNALS else ""


# What the first process, which the engine adds, prints when it can't execute the program.
_INIT = re.compile(r"^(?:ERROR \(catatonit:\d+\): failed to exec pid1|\[FATAL tini \(\d+\)\] exec .* failed): (.*)\Z")


def container_finish(finish: Finish, *, image: str, program: str) -> Finish:
    if finish.failure is None or finish.failure.type != "exit-code" or finish.exit_code is None:
        return finish
    code, line = finish.exit_code, "" if finish.capture is None else _last_error(finish.capture)
    program = one_line(program)
    init = _INIT.match(line)
    if init is not None:
        slug = "no-such-program" if "No such file" in init[1] else "not-executable"
        failure = Failure(slug, f"{program} can't be run in image {image}: {init[1]}")
        return msgspec.structs.replace(finish, failure=failure)
    if code in NOT_STARTED and line.startswith(("Error", "docker:")):
        slug = {125: "engine-failed", 126: "not-executable", 127: "no-such-program"}[code]
        failure = Failure(slug, f"{program} can't be run in image {image}: {error_line(line)}")
        outcome = Outcome.REFUSED if code == 125 else finish.outcome
        return msgspec.structs.replace(finish, outcome=outcome, failure=failure)
    if code > 128:
        return msgspec.structs.replace(finish, failure=Failure("signal", f"died of {signal_name(code - 128)}"))
    return finish


def _last_error(capture: Capture) -> str:
    lines = (capture.error_tail or b"").decode("utf-8", "replace").rstrip().splitlines()
    return lines[-1] if lines else ""
