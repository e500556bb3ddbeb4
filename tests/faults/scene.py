"""A scene: a cluster whose tasks write the execution log, a client that logs what it was told, a judgement.

Fault tests arrange processes with `scene.cluster`, act with kills, pauses and proxies, and end with `scene.judge()`:
wait until everything has ended, stop every process, and let the offline checker look at what is left. Reading the
database goes past the product on purpose, because the product may be the part that is broken at that moment.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import httpx

from tests.harness.cluster import Cluster, Process
from tests.harness.history import (
    ClientLog,
    Execution,
    Violation,
    judge,
    leftovers_after,
    read_executions,
    read_records,
)
from tests.harness.proxy import Proxy
from tests.modules.execution_log import is_frozen

MODULES = Path(__file__).parents[1] / "modules"
CAPACITY = "cpu=8,memory=8G,disk=100G"
LOOK_SECONDS = 0.03  # a look may ask a server, the database, or all of /proc: tests must not be what loads the machine
DRAIN_SECONDS = 60.0  # I24: this long after the last fault, nothing may be left to do

Spec = dict[str, Any]
Value = TypeVar("Value")


def eventually(look: Callable[[], Value], *, seconds: float, what: str) -> Value:
    """The first true value `look` gives; fails with `what` when the time is up."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(LOOK_SECONDS)
    return value


class Scene:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clients = ClientLog()
        self.log = cluster.folder / "executions"
        self._proxies = ExitStack()
        self._keys = itertools.count(1)
        self._http = httpx.Client(timeout=30, trust_env=False, headers=self._headers())
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.cluster.tokens.admin}"}

    def close(self) -> None:
        self._http.close()
        if self._connection is not None:
            self._connection.terminate()
        self._loop.close()
        self._proxies.close()

    # ---- arranging --------------------------------------------------------------------------------------------

    def start(self, *, servers: int = 2, workers: int = 1, capacity: str = CAPACITY) -> None:
        """So many of each, started side by side."""
        cluster = self.cluster
        processes = [cluster.add_server(start=False) for _ in range(servers)]
        processes += [cluster.add_worker(start=False, capacity=capacity) for _ in range(workers)]
        with ThreadPoolExecutor(len(processes)) as threads:
            list(threads.map(Process.start, processes))

    def add_server_behind(self, *, workers: bool = False, database: bool = False, **environment: str) -> Proxy:
        """A server node with a proxy on one of its links: the one workers use, or the one to the database."""
        assert workers != database
        if database:
            host = Path(self.cluster.database.partition("?host=")[2])
            proxy = self._proxies.enter_context(Proxy(host / ".s.PGSQL.5432"))
            name = self.cluster.database.partition("?")[0].rpartition("/")[2]
            self.cluster.add_server(database=f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}?sslmode=disable")
        else:
            process = self.cluster.add_server(start=False, **environment)
            proxy = self._proxies.enter_context(Proxy(int(self.cluster.urls[-1].rpartition(":")[2])))
            process.arguments += ["--url", proxy.url]
            process.start()
        return proxy

    # ---- submitting -------------------------------------------------------------------------------------------

    def function(
        self, *, seconds: float = 0.0, failures: int = 0, later_seconds: float | None = None, **options: Any
    ) -> Spec:
        """A function task. Its cap is short, so that its grace is the short one: 6 s at this scale."""
        work = {"function": "fault_tasks:work", "args": [str(self.log), seconds, failures, later_seconds]}
        return {**work, "cap": "60s", "backoff": 0.05, **options}

    def command(
        self, *, seconds: float = 0.0, failures: int = 0, later_seconds: float | None = None, **options: Any
    ) -> Spec:
        program = [sys.executable, "-SE", str(MODULES / "logged_command.py")]
        later = seconds if later_seconds is None else later_seconds
        work = {"command": [*program, str(self.log), str(seconds), str(failures), str(later)]}
        return {**work, "cap": "60s", "backoff": 0.05, **options}

    def submit(self, *specs: Spec, server: int = 0) -> list[int]:
        """All in one batch, each under a key of its own. Fails unless the server takes them."""
        tasks = [{"idempotency_key": f"scene-{next(self._keys)}", **spec} for spec in specs]
        for task in tasks:
            self.clients.attempt(task["idempotency_key"])
        answer = self._http.post(f"{self.cluster.urls[server]}/v1/tasks/batch", json={"tasks": tasks})
        assert answer.status_code == 201, answer.text
        ids: list[int] = answer.json()["ids"]
        for task, number in zip(tasks, ids, strict=True):
            self.clients.acknowledge(task["idempotency_key"], number)
        return ids

    def get(self, path: str, *, server: int = 0, seconds: float = 30.0) -> httpx.Response:
        return self._http.get(f"{self.cluster.urls[server]}{path}", timeout=seconds)

    # ---- looking ----------------------------------------------------------------------------------------------

    def query(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Straight from the database, over a connection that is opened again when it was lost."""

        async def ask() -> list[asyncpg.Record]:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(self.cluster.database)
            return list(await self._connection.fetch(statement, *arguments))

        return self._loop.run_until_complete(ask())

    def attempts(self, task: int) -> list[tuple[int, int, int]]:
        """(number, final state or 0, outcome) of every ended attempt."""
        rows = self.query("select number, state, outcome from attempts where task = $1 order by number", task)
        return [(row["number"], row["state"], row["outcome"]) for row in rows]

    def executions(self) -> list[Execution]:
        found, damaged = read_executions(self.log)
        assert not damaged, damaged
        return found

    def leader(self, *, seconds: float = 15.0, besides: int | None = None) -> int:
        """Which server node leads the default pool, and is ready to; `besides` names one it must not be."""

        def look() -> list[int]:
            return [
                number
                for number, process in enumerate(self.cluster.servers)
                if process.running and number != besides and self._leads(number)
            ]

        return eventually(look, seconds=seconds, what="a server node that leads")[0]

    def _leads(self, server: int) -> bool:
        try:
            answer = self.get("/readyz", server=server, seconds=2)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and "default" in answer.json()["leads"]

    def until_started(self, tasks: Iterable[int], *, attempt: int = 1, seconds: float = 20.0) -> None:
        wanted = {(task, attempt) for task in tasks}
        eventually(
            lambda: wanted <= {(one.task, one.attempt) for one in self.executions()},
            seconds=seconds,
            what=f"attempt {attempt} of {len(wanted)} tasks has started",
        )

    def until_ended(self, tasks: Iterable[int], *, seconds: float = DRAIN_SECONDS) -> None:
        wanted = list(tasks)
        eventually(
            lambda: self.query("select from queue where id = any($1) limit 1", wanted) == [],
            seconds=seconds,
            what=f"{len(wanted)} tasks have ended",
        )

    def until_all_ended(self, *, seconds: float = DRAIN_SECONDS) -> None:
        def left() -> bool:
            try:
                return self.query("select from queue limit 1") == []
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                return False  # it is still recovering

        eventually(left, seconds=seconds, what="everything has ended")

    # ---- the end ----------------------------------------------------------------------------------------------

    def judge(self, *, logged: bool = True, seconds: float = DRAIN_SECONDS) -> None:
        """Everything ends, every process stops, and the checker finds nothing."""
        self.until_all_ended(seconds=seconds)
        self.cluster.__exit__()
        found = self.violations(logged=logged)
        if found:
            raise AssertionError(f"{len(found)} violations:\n" + "\n".join(map(str, found[:50])))

    def violations(self, *, logged: bool = True) -> list[Violation]:
        executions, damaged = read_executions(self.log)
        records = asyncio.run(read_records(self.cluster.database))
        return [
            *damaged,
            *judge(records, self.clients, executions, logged=logged),
            *leftovers_after(self.data_folders),
        ]

    @property
    def data_folders(self) -> list[Path]:
        return [self.cluster.folder / process.name for process in self.cluster.workers]


# ---- processes of a worker ---------------------------------------------------------------------------------


def keeper_of(worker: Process, folder: Path) -> int | None:
    """The pid of a worker's keeper."""
    return next(iter(_marked(f"{folder / worker.name}/work/keeper\0")), None)


def children_of(worker: Process, folder: Path) -> list[int]:
    """The main processes of what a worker runs: warm children and commands, not the keeper."""
    keeper = keeper_of(worker, folder)
    return [pid for pid in _marked(f"{folder / worker.name}/work/") if pid != keeper]


def stands_still(worker: Process, folder: Path) -> bool:
    """Whether it runs something, and all of it is frozen."""
    children = children_of(worker, folder)
    return bool(children) and all(map(is_frozen, children))


def _marked(mark: str) -> list[int]:
    wanted = b"ROTA_WORKDIR=" + os.fsencode(mark)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if environment.startswith(wanted) or b"\0" + wanted in environment:
                found.append(int(name))
    return found


def kill(pid: int) -> bool:
    """SIGKILL; False when it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
