"""The test stand: a PostgreSQL with default durability, server nodes and workers as processes, and their cost.

Every measurement uses the public HTTP API and records slots, durability settings, WAL flushes and each part's CPU time,
so that a figure can't be improved by leaving something out.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import msgspec
from tests.harness.cluster import Cluster, Process
from tests.harness.postgres import TestPostgres

from rota.store.migrations import upgrade

SHM = "/dev/shm/rota-bench"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Stand:
    cluster: Cluster
    postgres: TestPostgres
    database: str
    slots: int
    out: Callable[[dict[str, object]], None]
    server: Process | None = None
    worker: Process | None = None
    _marks: dict[str, float] = field(default_factory=dict)

    # ---- parts ----------------------------------------------------------------------------------------------------

    def start_server(self) -> None:
        self.server = self.cluster.add_server(ROTA_CHECK_TRANSITIONS="0")

    def start_worker(self) -> None:
        self.worker = self.cluster.add_worker(capacity=f"cpu={self.slots},memory=16G,disk=100G", ROTA_BENCH_SHM=SHM)

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.cluster.urls[0],
            headers={"authorization": f"Bearer {self.cluster.tokens.admin}"},
            timeout=120,
            trust_env=False,
        )

    # ---- counting -------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        for name in ("done", "stamps"):
            Path(f"{SHM}-{name}").write_bytes(b"")

    def done(self) -> int:
        return os.stat(f"{SHM}-done").st_size

    def wait_done(self, count: int, seconds: float) -> bool:
        """Counts bytes in memory, rarely enough not to disturb the measurement."""
        end = time.monotonic() + seconds
        while self.done() < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.004)
        return True

    def stored(self) -> int:
        """Results in the database, as the leader counts them: cheap enough to read during a measurement."""
        text = httpx.get(f"{self.cluster.urls[0]}/metrics", trust_env=False).text
        settled = [line for line in text.splitlines() if line.startswith("rota_attempts_settled_total{")]
        return sum(int(float(line.split()[-1])) for line in settled)

    def wait_stored(self, count: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.stored() < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def wait_settled(self, last: list[int], seconds: float = 60) -> None:
        """Waits until clients see that these tasks have ended: a run ends when its result is stored."""
        end = time.monotonic() + seconds
        with self.client() as client:
            while time.monotonic() < end:
                answer = client.post("/v1/tasks/wait", json={"ids": last, "timeout": 20}).json()
                if answer.get("pending") == 0:
                    return
        raise TimeoutError("tasks did not end")

    def live(self) -> int:
        return int(asyncio.run(self._fetch("select count(*) from queue")))

    async def _fetch(self, statement: str) -> object:
        connection = await asyncpg.connect(self.database)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    # ---- cost -----------------------------------------------------------------------------------------------------

    def mark(self) -> dict[str, float]:
        marks = {"client": time.process_time(), "postgres": _tree_cpu(self.postgres.server.pid)}
        for name, process in (("server", self.server), ("worker", self.worker)):
            if process is not None and process.running:
                marks[name] = _tree_cpu(process.pid)
        marks["wal_syncs"] = float(str(asyncio.run(self._fetch(_WAL_SYNCS))))
        return marks

    def report(
        self, work: str, count: int, before: dict[str, float], after: dict[str, float] | None = None, **figures: object
    ) -> None:
        after = after or self.mark()
        cpu = {
            name: round((after[name] - before[name]) / max(count, 1) * 1e6, 1)
            for name in before
            if name != "wal_syncs" and name in after
        }
        settings = {name: asyncio.run(self._fetch(f"show {name}")) for name in ("fsync", "synchronous_commit")}
        self.out(
            {
                "work": work,
                "tasks": count,
                **figures,
                "cpu_us_per_task": cpu,
                "slots": self.slots,
                **settings,
                "wal_flushes": int(after["wal_syncs"] - before["wal_syncs"]),
            }
        )


# PostgreSQL 18 counts flushes in pg_stat_io, earlier ones in pg_stat_wal.
_WAL_SYNCS = "select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal'"


def _tree_cpu(pid: int | None) -> float:
    """CPU seconds of a process and its descendants, ended children included."""
    if pid is None:
        return 0.0
    total = 0.0
    for number in [pid, *_descendants(pid)]:
        try:
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15]) / TICKS
    return total


def _descendants(pid: int) -> list[int]:
    descendants = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(text) for text in path.read_text().split()]
        except OSError:
            continue
        for child in children:
            descendants += [child, *_descendants(child)]
    return descendants


@contextmanager
def stand(out: Callable[[dict[str, object]], None], *, slots: int) -> Iterator[Stand]:
    folder = Path(tempfile.mkdtemp(prefix="rota-bench-"))
    postgres = TestPostgres(folder)
    postgres.server.start()
    try:
        database = postgres.url("postgres")
        asyncio.run(upgrade(database))
        with Cluster(database, folder / "cluster", time_scale=1.0, modules=Path(__file__).parent.parent) as cluster:
            ready = Stand(cluster, postgres, database, slots, out)
            ready.reset()
            ready.start_server()
            yield ready
    finally:
        postgres.stop()


def batch_body(count: int, task: dict[str, object]) -> bytes:
    return msgspec.json.encode({"tasks": [task] * count})


def machine() -> dict[str, object]:
    return {"host": socket.gethostname(), "cores": os.cpu_count(), "python": os.sys.version.split()[0]}  # type: ignore[attr-defined]


def print_line(path: Path | None) -> Callable[[dict[str, object]], None]:
    def write(row: dict[str, object]) -> None:
        text = json.dumps(row)
        print(text, flush=True)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(text + "\n")

    return write
