"""Runs Python functions in warm children: brings the code they come with, and sends each call where it belongs.

Most calls get a child for themselves, one after the other (`solo.py`); async functions that may share one do
(`chorus.py`). A call whose package is not on the node yet waits for it here, within its cap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from rota.execute.attempts.attempt import Held, Phase
from rota.execute.attempts.caps import cancel_at_cap
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.functions.child_pool import Cradle
from rota.execute.functions.concurrent import Chorus
from rota.execute.functions.neighbours import Apart
from rota.execute.functions.packages import Packages
from rota.execute.functions.questions import Desk
from rota.execute.functions.sequential import Bench, Solo
from rota.execute.keeper_link import KeeperLink
from rota.execute.logs.capture import Flow
from rota.execute.processes.ends import not_prepared
from rota.model.progress import Progress
from rota.wire import Failure


class FunctionRunner:
    def __init__(
        self,
        *,
        bench: Bench,
        link: KeeperLink,
        flow: Flow,
        cradle: Cradle,
        kill_grace_seconds: float,
        keep_idle: int,
        desk: Desk | None = None,  # None: nobody can be asked anything
        full_disk: FullDisk,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._bench = bench
        apart = Apart()
        self._chorus = Chorus(
            bench=bench,
            link=link,
            flow=flow,
            cradle=cradle,
            bounds=self,
            desk=desk,
            kill_grace_seconds=kill_grace_seconds,
            apart=apart,
            full_disk=full_disk,
        )
        self._solo = Solo(
            bench=bench,
            link=link,
            flow=flow,
            cradle=cradle,
            bounds=self,
            on_async=self._chorus.learn,
            kill_grace_seconds=kill_grace_seconds,
            keep_idle=keep_idle,
            desk=desk,
            apart=apart,
            full_disk=full_disk,
        )
        self._packages = cradle.packages
        self._fetching: dict[Held, asyncio.Task[None]] = {}  # calls whose code is on its way
        self.log_limit_bytes = 0
        self.result_limit_bytes = 0

    async def preload(self) -> Failure | None:
        """Starts the first child, so that a broken import is a start-up error and the first call is fast."""
        return await self._solo.preload()

    def start(self, held: Held) -> None:
        """`held` has been granted room: gives it a child, then others behind it if they are short.

        Code that it brings along comes first.
        """
        if held.terms.company.package and self._packages is not None and not self._packages.find(held.terms.company):
            self._fetching[held] = self._loop.create_task(self._start_when_here(held, self._packages), name="package")
        else:
            self._start(held)

    async def _start_when_here(self, held: Held, packages: Packages) -> None:
        began_at = self._loop.time()
        fetching = self._loop.create_task(packages.fetch(held), name="fetch a package")
        cancel_at_cap(held, fetching, began_at)
        try:
            await asyncio.wait({fetching})
        finally:
            fetching.cancel()  # of no effect unless this call was taken back
        del self._fetching[held]
        finish = not_prepared(held, fetching)
        if finish is None:
            held.fetch_seconds = self._loop.time() - began_at
            self._start(held)
        else:
            self._bench.finished(held, finish)
            self._bench.slot_free(held.room)

    def _start(self, held: Held) -> None:
        if self._chorus.takes(held):
            self._chorus.start(held)
        else:
            self._solo.start(held)

    def top_up(self) -> None:
        """Puts short waiting calls behind those that run."""
        self._chorus.top_up()
        self._solo.top_up()

    def recall(self, held: Held) -> bool:
        """Takes a call back that its child has not begun; False if it runs (or has just ended)."""
        if held in self._fetching:
            self._fetching.pop(held).cancel()
            self._bench.put_back([held])
            self._bench.slot_free(held.room)
            return held.phase is Phase.WAITING
        if self._chorus.has(held):
            return self._chorus.recall(held)
        return self._solo.recall(held)

    def stop(self, held: Held) -> None:
        """TERM to the child's tree, KILL after the grace. Only for a call that `recall` did not get."""
        if self._chorus.has(held):
            self._chorus.stop(held)
        else:
            self._solo.stop(held)

    def reload(self) -> None:
        self._chorus.reload()
        self._solo.reload()

    def close(self) -> None:
        self._chorus.close()
        self._solo.close()

    def dismiss_idle(self) -> None:
        """The disk is short of space: what they and their calls have put there is worth more than their warmth."""
        self._chorus.dismiss_idle()
        self._solo.dismiss_idle()

    def give_up_devices(self, held: Held) -> None:
        """`held`, which is no function, was given devices: what idles with them lets go."""
        self._solo.give_up_devices(held)

    def kill(self, held: Held) -> None:
        if held in self._fetching:
            self._fetching.pop(held).cancel()
            self._bench.slot_free(held.room)
        elif self._chorus.has(held):
            self._chorus.kill(held)
        else:
            self._solo.kill(held)

    def recap(self, held: Held) -> None:
        """The tick looks at the run's own cap: nothing to do."""

    def progress(self) -> Iterator[tuple[Held, Progress | None]]:
        """How far the calls say they are that have run for a while."""
        return self._solo.progress()
