"""How a container ended, in words: its engine's exit codes and complaints told apart from the task's own. Pure.

An engine says that it failed by exit codes that programs use too, and the first process in a container by others; only
together with their own words, as the last on standard error, are they taken for theirs. A task that imitates them
gets nothing by it but a misleading reason.
"""

from __future__ import annotations

import re

import msgspec

from rota.execute.attempts.attempt import Finish, signal_name
from rota.execute.logs.capture import Capture
from rota.execute.sandbox.container import NOT_STARTED
from rota.execute.sandbox.engine_calls import last_words
from rota.model.attempt import Outcome
from rota.wire import Failure

# What the first process, put there by the engine, says of a program that it can't become.
_INIT = re.compile(r"^(?:ERROR \(catatonit:\d+\): failed to exec pid1|\[FATAL tini \(\d+\)\] exec .* failed): (.*)$")


def in_words(finish: Finish, *, image: str, program: str) -> Finish:
    if finish.failure is None or finish.failure.type != "exit-code" or finish.exit_code is None:
        return finish
    code, told = finish.exit_code, "" if finish.capture is None else _last_error(finish.capture)
    init = _INIT.match(told)
    if init is not None:
        slug = "no-such-program" if "No such file" in init[1] else "not-executable"
        failure = Failure(slug, f"{program} can't be run in image {image}: {init[1]}")
        return msgspec.structs.replace(finish, failure=failure)
    if code in NOT_STARTED and told.startswith(("Error", "docker:")):
        slug = {125: "engine-failed", 126: "not-executable", 127: "no-such-program"}[code]
        failure = Failure(slug, f"{program} can't be run in image {image}: {last_words(told)}")
        outcome = Outcome.REFUSED if code == 125 else finish.outcome
        return msgspec.structs.replace(finish, outcome=outcome, failure=failure)
    if code > 128:
        return msgspec.structs.replace(finish, failure=Failure("signal", f"died of {signal_name(code - 128)}"))
    return finish


def _last_error(capture: Capture) -> str:
    lines = (capture.error_tail or b"").decode("utf-8", "replace").rstrip().splitlines()
    return lines[-1] if lines else ""
