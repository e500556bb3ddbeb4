"""Tasks as rows, for tests below the HTTP API: made, started and settled by the product's own statements.

rows = await Rows.open(url)
fence = await rows.lead()
task = await rows.task(attempts=2)
await rows.start(fence, task)
await settle(rows.connection, fence, [rows.ended(task, Outcome.OK)])
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from rota.model.attempt import Outcome
from rota.model.queue import work_hash
from rota.model.resources import Resources, Shape
from rota.model.task import Kind, Lane, Scheduling, State, Upstream
from rota.settle.settlement import Reported
from rota.store import admission
from rota.store.catalogue import rules_version
from rota.store.database import Connection, Database
from rota.store.leases import acquire_lease
from rota.store.nodes import register_node
from rota.store.queue import Fence, Started, StartRequest, start_attempts
from rota.store.shapes import number_of
from rota.store.task_rows import QUEUE_COLUMNS, TASK_COLUMNS
from rota.wire import Failure, Result
from tests.harness.postgres import TestPostgres

BOOT = 77
NODE = Resources(
    cpu_milli=10**6, memory_bytes=10**14, disk_bytes=10**15
)  # room for whatever admission is asked beside it
_names = itertools.count(1)


@functools.cache
def shared_database(postgres: TestPostgres) -> str:
    """One database for all tests of a process that only add rows: each `Rows` has a tenant and a node of its own."""
    return postgres.create()


@dataclass
class Rows:
    database: Database
    connection: Connection  # pinned as a leader's are
    tenant: int
    shape: int
    node: int
    attempts: dict[int, int] = field(default_factory=dict)  # task → number of its last attempt

    @staticmethod
    async def open(url: str) -> Rows:
        database = Database(url, connections=4)
        connection = await database.direct("test", pinned=True)
        tenant = await add_tenant(connection)
        shape = await number_of(connection, Shape(Resources(cpu_milli=1000, memory_bytes=10**8)))
        node, _ = await register_node(
            connection, pool=1, name=f"node-{next(_names)}", boot=BOOT, capacity=NODE, labels={},
            capabilities=[], version="test",
        )  # fmt: skip
        return Rows(database, connection, tenant, shape, node)

    async def close(self) -> None:
        await self.connection.close()
        await self.database.close()

    async def another_connection(self) -> Connection:
        return await self.database.direct("test", pinned=True)

    # ---- making -----------------------------------------------------------------------------------------------------

    async def lead(self, pool: int = 1, holder: UUID | None = None) -> Fence:
        """A new term of leading the pool, whoever led it before. A pool that no test has made is made."""
        await self.connection.execute(
            """with made as (
                insert into pools (id, name) overriding system value values ($1::smallint, 'pool-' || $1::smallint) on conflict do nothing
                returning id
            )
            select setval(pg_get_serial_sequence('pools', 'id'), greatest(made.id, max(pools.id))) from made, pools
            group by made.id""",
            pool,
        )
        await self.connection.execute("update leases set expires_at = '-infinity' where pool = $1", pool)
        holder = holder or uuid4()
        epoch = await acquire_lease(self.connection, pool, holder, seconds=600)
        assert epoch is not None
        return Fence(pool, epoch, holder, await rules_version(self.connection, pool))

    async def task(self, *, after: tuple[int, ...] = (), connection: Connection | None = None, **other: Any) -> int:
        connection = connection or self.connection
        number = await admission.take_ids(connection, 1)
        async with connection.transaction():
            await self._insert(connection, number, after, **other)
        return number

    async def _insert(
        self,
        connection: Connection,
        number: int,
        after: tuple[int, ...],
        *,
        tenant: int | None = None,
        pool: int = 1,
        name: str = "work",
        lane: Lane = Lane.NORMAL,
        priority: int = 0,
        tolerance: float | None = None,
        wait: float | None = None,
        attempts: int = 1,
        backoff_ms: int = 1000,
        upstream: Upstream = Upstream.SKIP,
        key: str | None = None,
        limit: int = 1,
        everywhere: bool = False,
        expires: bool = False,
    ) -> None:
        """As admission writes it. `tolerance` and `wait` are seconds."""
        now: datetime = await connection.fetchval("select now()")
        not_before = None if wait is None else now + timedelta(seconds=wait)
        tolerance_ms = 3_600_000 if tolerance is None else int(tolerance * 1000)
        start_by = (not_before or now) + timedelta(milliseconds=tolerance_ms)
        urgent_at = None
        if tolerance is not None:
            urgent_at = start_by - timedelta(milliseconds=max(5_000, tolerance_ms // 10))
        state = State.BLOCKED if after else State.DELAYED if not_before else State.READY
        values: dict[str, Any] = {
            "id": number, "spec": '{"command":["true"]}', "after_tasks": list(after) or None,
            "scheduling": Scheduling.NOW, "start_by": start_by, "urgent_at": urgent_at, "tenant": tenant or self.tenant,
            "user_name": "tester", "pool": pool, "kind": Kind.COMMAND, "name": name, "lane": lane,
            "priority": priority, "tolerance_ms": tolerance_ms, "tolerance_given": tolerance is not None,
            "not_before": not_before, "tier": "basic", "shape": self.shape, "server": 0, "cap_ms": 60_000,
            "attempts": attempts, "backoff_ms": backoff_ms, "backoff_limit_ms": 300_000, "upstream": upstream,
            "state": state, "wake_at": not_before or urgent_at, "urgency": -priority,
            "work": work_hash(Kind.COMMAND, name), "concurrency_key": key, "concurrency_limit": limit if key else None,
            "concurrency_global": everywhere, "preemptible": False, "unplaceable_waits": False, "created_at": now,
            "expires": expires,
        }  # fmt: skip
        task = [values.get(name) for name in TASK_COLUMNS]
        values["expires"] = expires and not after
        queue = [values.get(name) for name in QUEUE_COLUMNS]
        await connection.copy_records_to_table("tasks", records=[task], columns=TASK_COLUMNS)
        await connection.copy_records_to_table("queue", records=[queue], columns=QUEUE_COLUMNS)
        edges = [(parent, number, pool, int(upstream)) for parent in after]
        if edges:
            await admission.copy_edges(connection, edges)

    async def start(self, fence: Fence, *tasks: int, boot: int = BOOT) -> list[Started]:
        versions = dict(await self.connection.fetch("select id, version from queue where id = any($1)", list(tasks)))
        requests = [StartRequest(task, versions.get(task, 0), self.node, boot, 30_000) for task in sorted(tasks)]
        started = await start_attempts(self.connection, fence, requests)
        self.attempts.update({row.task: row.attempt for row in started})
        return started

    async def running(self, fence: Fence, **task: Any) -> int:
        """A task with a running attempt."""
        number = await self.task(**task)
        assert [row.task for row in await self.start(fence, number)] == [number]
        return number

    def ended(
        self, task: int, outcome: Outcome, *, attempt: int | None = None, boot: int = BOOT, **more: Any
    ) -> Reported:
        """What its agent reports of the task's last attempt."""
        if outcome is not Outcome.OK:
            more.setdefault("failure", Failure("ValueError", "no"))
        return Reported(Result(task, attempt or self.attempts.get(task, 1), outcome, 5000, **more), boot)

    # ---- looking ----------------------------------------------------------------------------------------------------

    async def state(self, task: int) -> State:
        row = await self.connection.fetchrow(
            """select (select state from queue where id = $1) as live,
                (select state from attempts where task = $1 and state > 0) as final""",
            task,
        )
        assert row is not None
        assert (row["live"] is None) != (row["final"] is None), f"task {task} is in exactly one of queue and ledger"
        return State(row["live"] or row["final"])

    async def queued(self, task: int) -> asyncpg.Record:
        row = await self.connection.fetchrow("select * from queue where id = $1", task)
        assert row is not None
        return row

    async def reason(self, task: int) -> str | None:
        return await self.connection.fetchval("select reason from attempts where task = $1 and state > 0", task)

    async def make_due(self, task: int) -> None:
        """Its timer has run out, without anybody waiting for it."""
        await self.connection.execute("update queue set wake_at = now() - interval '1 second' where id = $1", task)

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that a task's life writes, to compare before and after."""
        return {
            table: [tuple(row) for row in await self.connection.fetch(f"select * from {table} order by 1, 2")]
            for table in ("queue", "attempts", "dead_letters", "edges", "log_chunks", "idempotency", "tasks")
        }


async def add_tenant(connection: Connection, plan: str = "unlimited") -> int:
    name = f"tenant-{uuid4().hex[:12]}"
    return int(
        await connection.fetchval(
            "insert into tenants (name, plan, trusted) values ($1, $2, true) returning id", name, plan
        )
    )


async def until_blocked(url: str, connection: Connection) -> None:
    """Until the connection's backend waits for a lock that another one holds: PostgreSQL itself says so."""
    watcher = await asyncpg.connect(url)
    pid = connection.get_server_pid()
    try:
        async with asyncio.timeout(10):
            while not await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                await asyncio.sleep(0.005)
    finally:
        await watcher.close()
