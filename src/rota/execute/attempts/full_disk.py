"""What fails while its node's disk is full: told as that, and not blamed if it was granted the space.

It runs again without using up an attempt, elsewhere if it can; where there is no other node, it waits longer each time,
so that a task which fills the disk alone does not do so once a second. Asked when an attempt has ended and before what
it left behind is removed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rota.execute.attempts.attempt import Attempt, Finish
from rota.execute.keeper import launch
from rota.execute.machine.disk_space import DiskSpace
from rota.model.attempt import Outcome
from rota.wire import Failure

_FIRST_WAIT_MS = 1_000
_LONGEST_WAIT_MS = 300_000
_FAILED = frozenset({Outcome.ERROR, Outcome.REFUSED, Outcome.CRASHED})


class FullDisk:
    def __init__(self, disk: DiskSpace, on_full: Callable[[bool], None]) -> None:
        self._disk = disk
        self._on_full = on_full

    def is_full(self) -> bool:
        return self._disk.is_full()

    def judge(self, attempt: Attempt, finish: Finish, *, limit: str = "") -> Finish:
        """The same finish, unless it failed (but not for going over its own `limit`) and the disk is full."""
        if finish.outcome not in _FAILED or limit or not self._disk.is_full():
            return finish
        return self.blame(attempt, finish, innocent=bool(attempt.grant.disk_bytes))

    def blame(self, attempt: Attempt, finish: Finish, *, innocent: bool) -> Finish:
        self._on_full(True)
        assert finish.failure is not None
        message = f"{finish.failure.message}; the disk of its node is full"
        failure = Failure(launch.DISK_FULL, message, finish.failure.traceback)
        if not innocent:
            return msgspec.structs.replace(finish, failure=failure)
        wait_ms = min(_FIRST_WAIT_MS << min(attempt.run.attempt - 1, 20), _LONGEST_WAIT_MS)
        return msgspec.structs.replace(finish, outcome=Outcome.DISRUPTED, failure=failure, retry_in_ms=wait_ms)
