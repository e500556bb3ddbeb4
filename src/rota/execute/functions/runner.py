"""Runs Python functions in warm children: fetches their packages and sends each call to the right kind of child.

Most calls have a child to themselves, one after the other (`sequential.py`); async functions may share one
(`concurrent.py`). A call whose package is not on the node yet waits for it here, within its cap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from rota.execute.attempts.attempt import Attempt, Phase, cancel_at_cap
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.attempts.workbench import Workbench
from rota.execute.functions.child_pool import ChildSettings
from rota.execute.functions.concurrent import ConcurrentCalls
from rota.execute.functions.packages import Packages
from rota.execute.functions.questions import QuestionServer
from rota.execute.functions.sequential import SequentialCalls
from rota.execute.functions.warm_calls import CallParts
from rota.execute.keeper_link import KeeperLink
from rota.execute.logs.pipes import Flow
from rota.execute.processes.ends import not_prepared
from rota.model.progress import Progress
from rota.wire import Failure


class FunctionRunner:
    def __init__(
        self,
        *,
        bench: Workbench,
        link: KeeperLink,
        flow: Flow,
        child_settings: ChildSettings,
        kill_grace_seconds: float,
        keep_idle: int,
        questions: QuestionServer | None = None,  # None: functions can't ask anything
        full_disk: FullDisk,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._bench = bench
        parts = CallParts(
            bench=bench,
            link=link,
            flow=flow,
            child_settings=child_settings,
            bounds=self,
            questions=questions,
            kill_grace_seconds=kill_grace_seconds,
            full_disk=full_disk,
        )
        self._concurrent = ConcurrentCalls(parts)
        self._sequential = SequentialCalls(parts, keep_idle=keep_idle, on_async=self._concurrent.learn)
        self._pools = (self._concurrent.child_pool, self._sequential.child_pool)
        self._packages = child_settings.packages
        self._fetching: dict[Attempt, asyncio.Task[None]] = {}  # calls whose package is being fetched
        self.log_limit_bytes = 0
        self.result_limit_bytes = 0

    async def preload(self) -> Failure | None:
        """Starts the first child, so that a broken import is a start-up error and the first call is fast."""
        return await self._sequential.preload()

    def start(self, attempt: Attempt) -> None:
        """Gives a granted attempt a child, once its package is here."""
        process_key, packages = attempt.terms.process_key, self._packages
        if process_key.package and packages is not None and not packages.find(process_key):
            fetching = self._start_when_here(attempt, packages)
            self._fetching[attempt] = self._loop.create_task(fetching, name="package")
        else:
            self._start(attempt)

    async def _start_when_here(self, attempt: Attempt, packages: Packages) -> None:
        began_at = self._loop.time()
        fetching = self._loop.create_task(packages.fetch(attempt), name="fetch a package")
        cancel_at_cap(attempt, fetching, began_at)
        try:
            await asyncio.wait({fetching})
        finally:
            fetching.cancel()  # no effect unless this call was taken back
        del self._fetching[attempt]
        finish = not_prepared(attempt, fetching, run_us=int((self._loop.time() - began_at) * 1e6))
        if finish is None:
            attempt.fetch_seconds = self._loop.time() - began_at
            self._start(attempt)
        else:
            self._bench.finished(attempt, finish)
            self._bench.slot_free(attempt.grant)

    def _start(self, attempt: Attempt) -> None:
        if self._concurrent.takes(attempt):
            self._concurrent.start(attempt)
        else:
            self._sequential.start(attempt)

    def top_up(self) -> None:
        """Sends short waiting calls ahead, behind running ones."""
        self._concurrent.top_up()
        self._sequential.top_up()

    def recall(self, attempt: Attempt) -> bool:
        """Takes back a call that its child has not begun; False if it runs (or has just ended)."""
        if attempt in self._fetching:
            self._fetching.pop(attempt).cancel()
            self._bench.put_back([attempt])
            self._bench.slot_free(attempt.grant)
            return attempt.phase is Phase.WAITING
        if self._concurrent.has(attempt):
            return self._concurrent.recall(attempt)
        return self._sequential.recall(attempt)

    def stop(self, attempt: Attempt) -> None:
        """TERM to the child's tree, KILL after the grace. Only for a call that `recall` could not take back."""
        if self._concurrent.has(attempt):
            self._concurrent.stop(attempt)
        else:
            self._sequential.stop(attempt)

    def reload(self) -> None:
        for pool in self._pools:
            pool.reload()

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def dismiss_idle(self) -> None:
        """The disk is short of space: files of idle children cost more than starting new ones."""
        for pool in self._pools:
            pool.dismiss_idle()

    def give_up_devices(self, attempt: Attempt) -> None:
        """Devices were given to an attempt that is no function: idle children that hold them exit."""
        self._sequential.child_pool.give_up_devices(attempt)

    def kill(self, attempt: Attempt) -> None:
        if attempt in self._fetching:
            self._fetching.pop(attempt).cancel()
            self._bench.slot_free(attempt.grant)
        elif self._concurrent.has(attempt):
            self._concurrent.kill(attempt)
        else:
            self._sequential.kill(attempt)

    def recap(self, attempt: Attempt) -> None:
        """Nothing to do: the tick reads the run's own cap, and how long it was frozen."""

    freeze = thaw = recap

    def progress(self) -> Iterator[tuple[Attempt, Progress | None]]:
        """The progress of calls that have run for a while."""
        return self._sequential.progress()
