"""A ticker in this process, on a real database, ticked by hand; schedules whose cursor lies where a test wants it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

import asyncpg
import msgspec

from rota.model.schedule.schedule import Rule, RuleKind, Schedule
from rota.model.tenant import Caller
from rota.settings import Settings
from rota.store import schedules
from rota.store.cancel_and_rerun import Cancelled
from rota.store.database import Connection, Database
from rota.store.leases import acquire_lease
from rota.store.queue import Fence
from rota.store.schedules import HEAD, TICKER_POOL, DueCursor, Occurrence
from rota.timetable.runs import Runs
from rota.timetable.ticker import Ticker
from tests.admit.node import Node, running_node

TRUE = '{"tasks": [{"command": ["true"], "unplaceable": "wait"}]}'


@dataclass
class Clockwork:
    node: Node
    ticker: Ticker
    runs: Runs
    connection: Connection
    caller: Caller
    cancelled: list[Cancelled]

    @property
    def database(self) -> Database:
        return self.node.database

    async def now(self) -> datetime:
        return await self.connection.fetchval("select clock_timestamp()")

    async def nobody_leads(self) -> None:
        await self.connection.execute("update leases set expires_at = '-infinity' where pool = $1", TICKER_POOL)

    async def lead(self) -> Fence:
        """A new term, whoever had the last one."""
        await self.nobody_leads()
        holder = uuid4()
        epoch = await acquire_lease(self.connection, TICKER_POOL, holder, seconds=60)
        assert epoch is not None
        return Fence(TICKER_POOL, epoch, holder)

    async def schedule(
        self, *, every: str = "PT1M", ago: float = 0, next_at: datetime | None = None, **said: object
    ) -> Schedule:
        """One whose cursor came `ago` seconds ago."""
        cursor = next_at or (await self.now()) - timedelta(seconds=ago)
        made = Schedule(
            tenant=self.caller.tenant_id, name=f"s{uuid4().hex[:10]}", user="ann", request=TRUE,
            rule=Rule(RuleKind.EVERY, every, "UTC", cursor), next_at=cursor,
        )  # fmt: skip
        stored = await schedules.insert_schedule(self.connection, replace(made, **said))  # type: ignore[arg-type]
        assert stored is not None
        return stored

    async def tick(self, fence: Fence | None = None) -> None:
        """Ticks until nothing is due."""
        fence = fence or await self.lead()
        after: DueCursor | None = HEAD
        while after is not None:
            after = await self.ticker.tick(self.connection, fence, after)

    async def history(self, schedule: Schedule) -> list[Occurrence]:
        """Oldest first."""
        far = await self.now() + timedelta(days=400)
        return list(reversed(await schedules.list_occurrences(self.connection, schedule.id, before=far, limit=5000)))

    async def reread(self, schedule: Schedule) -> Schedule:
        found = await schedules.read_schedule(self.connection, schedule.tenant, schedule.name)
        assert found is not None
        return found

    async def task(self, number: int) -> asyncpg.Record:
        row = await self.connection.fetchrow(
            """select tasks.*, queue.state, queue.wake_at, queue.cancel_requested
                from tasks left join queue on queue.id = tasks.id where tasks.id = $1""",
            number,
        )
        assert row is not None
        return row

    async def tasks_of(self, schedule: Schedule) -> list[tuple[datetime, int]]:
        rows = await self.connection.fetch(
            "select scheduled_for, id from tasks where schedule = $1 order by 1, 2", schedule.id
        )
        return [(row[0], row[1]) for row in rows]

    async def end(self, *tasks: int) -> None:
        await self.connection.execute("delete from queue where id = any($1)", list(tasks))


def spec(row: asyncpg.Record) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(row["spec"])
    return found


@contextlib.asynccontextmanager
async def running_clockwork(url: str) -> AsyncIterator[Clockwork]:
    async with running_node(url) as node:
        cancelled: list[Cancelled] = []
        settings = Settings(database=url)
        runs = Runs(node.database, node.admission, node.facts, server=1)
        ticker = Ticker(
            database=node.database, settings=settings, holder=uuid4(), runs=runs, on_cancelled=cancelled.append
        )
        connection = await node.database.direct("test")
        await connection.execute("delete from schedules; delete from occurrences")
        yield Clockwork(node, ticker, runs, connection, await node.caller(), cancelled)
        await connection.close()
