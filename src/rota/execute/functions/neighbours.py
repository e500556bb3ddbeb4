"""Calls that ended for what others did in their process: not blamed, and tried again in a process of their own.

Where several calls are in one process, nobody can tell which of them ended it or kept the others from running; nor
whose memory was too much, where calls before have left some. None is blamed: they end as disrupted, which uses up no
attempt, and this node remembers to run them apart. There the culprit fails for what it does, and the others succeed.
Other nodes don't know, so each may make the same mistake once; what has had very many attempts is not excused any more,
so that nothing goes round for ever.
"""

from __future__ import annotations

import msgspec

from rota.execute.attempts.attempt import Attempt, Finish
from rota.execute.functions.child_link import WarmChild
from rota.execute.keeper.limit_watch import OOM
from rota.execute.keeper_link import End, Ended
from rota.model.attempt import Outcome
from rota.model.units import bytes_text
from rota.wire import Failure

_MOST_REMEMBERED = 10_000
_MOST_ATTEMPTS = 100
_MUCH = 8  # of a grant of memory, one part in so many


class RunAlone:
    """Tasks whose next attempts share no process with what others do or have left there."""

    def __init__(self) -> None:
        self.tasks: dict[int, None] = {}

    def excuse(self, attempt: Attempt, finish: Finish, what: str) -> Finish:
        """`what` befell it, in a few words; why it would have ended otherwise is told with them."""
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
        """For a call that went over its memory in a child which held much already, of calls before it."""
        if not isinstance(end, Ended) or end.limit != OOM or not is_excusable(attempt, child, end):
            return finish
        if child.grown_bytes <= attempt.room.memory_bytes // _MUCH:
            return finish
        return self.excuse(
            attempt, finish, f"its process still held {bytes_text(child.grown_bytes)} of calls before it"
        )


def is_excusable(attempt: Attempt, child: WarmChild, end: End) -> bool:
    """Whether its end can be the doing of another call in its child. What somebody asked for is no call's doing."""
    if attempt.stopping not in (None, Outcome.TIMEOUT) or attempt.run.attempt > _MOST_ATTEMPTS:
        return False
    return child.is_ready and isinstance(end, Ended) and not end.fenced


def was_kept_from_running(attempt: Attempt, elapsed_us: int, stalled_us: int) -> bool:
    """Past its cap only because the loop it shares was blocked, for all one can tell by another call."""
    if not stalled_us or attempt.stopping is not Outcome.TIMEOUT or attempt.run.attempt > _MOST_ATTEMPTS:
        return False
    return elapsed_us - stalled_us < attempt.run.cap_ms * 1000
