"""The cost of retention for clients: old ranges of ids are dropped while tasks are submitted and old ones still wait.

Tasks that ended 40 days ago fill some ranges, and each range has a few tasks that wait for the next day. Two clients
send batches of functions at a steady pace, a third sends single tasks and measures each. Then the ranges are dropped,
one every few seconds, by the function that server nodes run every half minute.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from dataclasses import dataclass, field

import asyncpg

from bench.stand import Stand, batch_body
from bench.workloads import NOOP, settle, warm_up
from rota.server.housekeeping import retain
from rota.store.database import Database
from rota.store.retention import old_ranges
from rota.store.task_rows import PARTITION_SIZE

RANGES = 4
WAITING = 500  # in each range
BATCH = 250
CLIENTS = 2
_SINGLE_SECONDS = 0.01
_LATER: dict[str, object] = {"command": ["true"], "delay": "1d"}

_TASKS = """
    insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
        tier, shape, scheduling, server, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream, spec, created_at)
    select n, 1, 'bench', 1, 1, 'old', 1, 0, 3600000, false, now(), 'basic', (select min(id) from shapes), 1, 0, 60000,
        1, 1000, 300000, 1, '{"command":["true"]}', now() - interval '40 days'
    from generate_series($1::bigint, $2::bigint) n"""
_ATTEMPTS = """
    insert into attempts (task, number, tenant, state, outcome, node, ended_at)
    select n, 1, 1, 10, 1, 1, now() - interval '40 days' from generate_series($1::bigint, $2::bigint) n"""


@dataclass
class Flow:
    """The clients' record: when each single submission began and how long it took, and every id."""

    singles: list[tuple[float, float]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    trouble: list[str] = field(default_factory=list)


def retention(stand: Stand, *, per_second: int, rows: int) -> None:
    """`rows` ended tasks in each old range."""
    warm_up(stand)
    waiting = asyncio.run(_fill(stand, rows))
    flow = Flow()
    clients = [threading.Thread(target=_batches, args=(stand, flow, per_second // CLIENTS)) for _ in range(CLIENTS)]
    clients.append(threading.Thread(target=_singles, args=(stand, flow)))
    before, began, stored = stand.mark(), time.perf_counter(), stand.stored()
    for client in clients:
        client.start()
    try:
        time.sleep(5)
        drops, put_off = asyncio.run(_drop(stand.database))
        time.sleep(2)
    finally:
        flow.stop.set()
        for client in clients:
            client.join()
    took = time.perf_counter() - began
    flowed = stand.stored() - stored
    settle(stand, flow.ids)  # waits until every task has ended
    left = asyncio.run(_left(stand.database, waiting, flow.ids))
    during = [s for at, s in flow.singles if any(low - 0.1 <= at + s and at <= high + 0.1 for low, high in drops)]
    stand.report(
        "retention",
        len(flow.ids),
        before,
        wanted_per_second=per_second,
        settled_per_second=round(flowed / took),
        dropped_ranges=len(drops),
        old_tasks_dropped=rows * RANGES,
        rounds_put_off=put_off,
        drop_ms=[round((high - low) * 1e3) for low, high in drops],
        waiting_lost=len(waiting) - left[0],
        flowed_lost=len(flow.ids) - left[1],
        refused=len(flow.trouble),
        **_figures("submit", flow.singles),
        **_figures("submit_during_drops", [(0, s) for s in during]),
    )


def _figures(name: str, singles: list[tuple[float, float]]) -> dict[str, float]:
    took = sorted(seconds * 1e3 for _, seconds in singles)
    if len(took) < 2:
        return {f"{name}_samples": len(took)}
    return {
        f"{name}_samples": len(took),
        f"{name}_p50_ms": round(statistics.median(took), 1),
        f"{name}_p99_ms": round(took[int(len(took) * 0.99)], 1),
        f"{name}_max_ms": round(took[-1], 1),
    }


def _batches(stand: Stand, flow: Flow, per_second: int) -> None:
    body, pause = batch_body(BATCH, NOOP), BATCH / per_second
    with stand.client() as client:
        due = time.perf_counter()
        while not flow.stop.is_set():
            answer = client.post("/v1/tasks/batch", content=body)
            if answer.status_code == 201:
                flow.ids += answer.json()["ids"]
            else:
                flow.trouble.append(answer.text)
            due += pause
            flow.stop.wait(max(0.0, due - time.perf_counter()))


def _singles(stand: Stand, flow: Flow) -> None:
    with stand.client() as client:
        while not flow.stop.is_set():
            began = time.perf_counter()
            answer = client.post("/v1/tasks", json=NOOP)
            flow.singles.append((began, time.perf_counter() - began))
            if answer.status_code == 201:
                flow.ids.append(answer.json()["id"])
            else:
                flow.trouble.append(answer.text)
            flow.stop.wait(_SINGLE_SECONDS)


async def _fill(stand: Stand, rows: int) -> list[int]:
    """Fills the ranges; returns the ids of the tasks that wait."""
    connection = await asyncpg.connect(stand.database, command_timeout=3600)
    waiting: list[int] = []
    try:
        for number in range(RANGES + 4):
            await connection.execute("select make_partition($1, $2)", number * PARTITION_SIZE, PARTITION_SIZE)
        for number in range(RANGES):
            first = number * PARTITION_SIZE + 1_000_000
            for statement in (_TASKS, _ATTEMPTS):
                await connection.execute(statement, first, first + rows - 1)
            # A server node has reserved ids: it uses them first, and goes on in the range that is next then.
            with stand.client() as client:
                answer = client.post("/v1/tasks/batch", content=batch_body(WAITING, _LATER)).raise_for_status()
                waiting += answer.json()["ids"]
            await connection.execute("select setval('task_ids', $1)", (number + 1) * PARTITION_SIZE + 1)
        await connection.execute("select setval('task_ids', $1)", (RANGES + 2) * PARTITION_SIZE)
        # The warm-up's attempts in the first range are young and would keep it.
        await connection.execute("update attempts set ended_at = now() - interval '40 days'")
        await connection.execute("analyze tasks, attempts")
        await connection.execute("update retention set tasks_days = 30")
    finally:
        await connection.close()
    return waiting


async def _drop(url: str) -> tuple[list[tuple[float, float]], int]:
    """When each range was dropped, and how many rounds did not get the lock."""
    database = Database(url, connections=2)
    drops, put_off, after = [], 0, 0
    try:
        deadline = time.perf_counter() + 180
        while time.perf_counter() < deadline:
            async with database.engine() as connection:
                there = [n for n in await old_ranges(connection, "tasks") if await _has_old(connection, n)]
            if not there:
                break
            began = time.perf_counter()
            after = await retain(database, after)
            ended = time.perf_counter()
            async with database.engine() as connection:
                gone = not await _has_old(connection, there[0])
            if gone:
                drops.append((began, ended))
            else:
                put_off += 1
            await asyncio.sleep(2)
    finally:
        await database.close()
    return drops, put_off


async def _has_old(connection: asyncpg.pool.PoolConnectionProxy, number: int) -> bool:
    exists: bool = await connection.fetchval(
        "select exists (select from attempts where task >= $1 and task < $2)",
        number * PARTITION_SIZE,
        (number + 1) * PARTITION_SIZE,
    )
    return exists


async def _left(url: str, waiting: list[int], flowed: list[int]) -> tuple[int, int]:
    """How many old tasks still wait, and how many of the submitted ones have a stored end."""
    connection = await asyncpg.connect(url)
    try:
        live = await connection.fetchval(
            "select count(*) from queue join tasks using (id) where id = any($1) and state = 2", waiting
        )
        done = await connection.fetchval(
            """select count(*) from attempts join tasks on tasks.id = attempts.task
                where attempts.task = any($1) and attempts.state = 10""",
            flowed,
        )
        return int(live), int(done)
    finally:
        await connection.close()
