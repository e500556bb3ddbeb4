"""Wakes clients that wait for the end of tasks: at once if this node settled the task, else by polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import structlog

from rota.model.errors import Problem
from rota.model.task import State
from rota.store.database import Database
from rota.store.reading import ended_tasks

log = structlog.get_logger()

POLL_SECONDS = 0.25
POLL_WHEN_LEADING_SECONDS = 2.0  # if this node leads all pools, polling is only a safety net


class Waiter:
    """Waits for all of a set of tasks, or for any of them."""

    def __init__(self, tasks: Iterable[int], *, for_any: bool = False) -> None:
        self.left = set(tasks)
        self._for_any = for_any
        self._over = asyncio.Event()

    def ended(self, task: int) -> None:
        self.left.discard(task)
        if not self.left or self._for_any:
            self._over.set()

    def give_up(self) -> None:
        self._over.set()

    async def until_over(self, seconds: float) -> bool:
        """Whether all have ended. False: the time ran out first, this node is stopping, or one of many has ended."""
        if self.left:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._over.wait()
        return not self.left


class Waiting:
    def __init__(self, database: Database, leads_all: Callable[[], bool]) -> None:
        self._database = database
        self._leads_all = leads_all
        self._waiters: dict[int, list[Waiter]] = {}
        self.is_closed = False

    def close(self) -> None:
        """This node is stopping: clients are answered at once, and go on waiting at another node."""
        self.is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.give_up()

    def ended(self, tasks: list[tuple[int, State]]) -> None:
        if self._waiters:
            for task, _ in tasks:
                for waiter in self._waiters.get(task, ()):
                    waiter.ended(task)

    @contextmanager
    def waiter(self, tasks: Iterable[int], *, for_any: bool = False) -> Iterator[Waiter]:
        """Must be entered before the caller reads the database, so that no end is missed in between."""
        wanted = list(tasks)
        waiter = Waiter(wanted, for_any=for_any)
        if self.is_closed:
            waiter.give_up()
        for task in wanted:
            self._waiters.setdefault(task, []).append(waiter)
        try:
            yield waiter
        finally:
            for task in wanted:
                waiters = self._waiters[task]
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[task]

    async def run(self) -> None:
        """Finds tasks that other nodes settled, with one query for all waiters."""
        while True:
            await asyncio.sleep(POLL_WHEN_LEADING_SECONDS if self._leads_all() else POLL_SECONDS)
            if not self._waiters:
                continue
            try:
                async with self._database.engine() as connection:
                    ended = await ended_tasks(connection, list(self._waiters))
                self.ended(ended)
            except Problem as error:
                log.debug("waiting.database_away", error=error.detail)
