"""A failure on a full disk says so, and does not use up an attempt if the task was granted its disk space.

Such a task runs again, on another node if it can; without another node it waits longer each time, so that a task which
fills the disk alone does not do so once a second. Judged when an attempt has ended and before its folder is removed.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from rota.execute.attempts.attempt import Attempt, Finish
from rota.execute.attempts.workbench import Workbench
from rota.execute.keeper import launch
from rota.execute.machine.disk_space import DiskSpace
from rota.model.attempt import Outcome
from rota.wire import Failure

log = structlog.get_logger()

_CHECK_SECONDS = 1.0
_FIRST_WAIT_MS = 1_000
_LONGEST_WAIT_MS = 300_000
_FAILED = frozenset({Outcome.ERROR, Outcome.REFUSED, Outcome.CRASHED})


class FullDisk:
    def __init__(self, disk: DiskSpace, bench: Workbench) -> None:
        self._disk = disk
        self._bench = bench

    async def watch(self) -> None:
        """Reads the free space in a thread, because a file system may take its time to answer."""
        while True:
            self.note(await asyncio.to_thread(self._disk.is_short, already=self._bench.is_full))
            await asyncio.sleep(_CHECK_SECONDS)

    def note(self, short: bool) -> None:
        """Closes the node to work or opens it again, and logs the change."""
        if self._bench.set_full(short):
            write = log.warning if short else log.info
            event = "too little disk space: no work is taken" if short else "there is disk space again: work is taken"
            write(event, **self._disk.figures())

    def is_full(self) -> bool:
        return self._disk.is_full()

    def judge(self, attempt: Attempt, finish: Finish, *, limit: str = "") -> Finish:
        """The same finish, unless it failed while the disk is full (and not by its own `limit`)."""
        if finish.outcome not in _FAILED or limit or not self._disk.is_full():
            return finish
        return self.blame(attempt, finish, innocent=bool(attempt.grant.disk_bytes))

    def blame(self, attempt: Attempt, finish: Finish, *, innocent: bool) -> Finish:
        self.note(True)
        assert finish.failure is not None
        message = f"{finish.failure.message}; the disk of its node is full"
        failure = Failure(launch.DISK_FULL, message, finish.failure.traceback)
        if not innocent:
            return msgspec.structs.replace(finish, failure=failure)
        wait_ms = min(_FIRST_WAIT_MS << min(attempt.run.attempt - 1, 20), _LONGEST_WAIT_MS)
        return msgspec.structs.replace(finish, outcome=Outcome.DISRUPTED, failure=failure, retry_in_ms=wait_ms)
