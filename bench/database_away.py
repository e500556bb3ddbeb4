"""`python -m bench.database_away`: takes PostgreSQL away from a whole cluster while tasks run, and counts what it cost.

Two server nodes and two workers with the timings of production. Functions and commands write a line twenty times a
second. PostgreSQL is stopped (`--how stop`) or made silent with SIGSTOP (`--how pause`) and comes back after `--away`
seconds; or its primary is killed, and its synchronous standby is promoted then (`--how failover`). Prints one JSON
line: each task must have one attempt, and each of its lines once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import asyncpg
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

from rota.store.embedded import EmbeddedPostgres

LINES = 1200  # a minute
MODULE = """
import time

def tick(path, lines):
    for n in range(lines):
        with open(path, "a") as file:
            file.write(f"{n} {time.time()}\\n")
        time.sleep(0.05)
    return lines
"""
COMMAND = f"import sys\n{MODULE}\ntick(sys.argv[1], int(sys.argv[2]))\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.database_away", description=__doc__)
    parser.add_argument("--away", type=float, default=60.0, help="seconds without PostgreSQL")
    parser.add_argument("--how", choices=("stop", "pause", "failover"), default="stop")
    parser.add_argument("--tasks", type=int, default=8)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rota-database-away-"))
    (folder / "ticking.py").write_text(MODULE)
    postgres = TestPostgres(folder)
    postgres.start()
    standby = None
    try:
        database = postgres.create()
        if chosen.how == "failover":
            standby = _standby_of(postgres.server, folder / "standby")
            asyncio.run(_execute(postgres.server.url, "alter system set synchronous_standby_names = '*'"))
            asyncio.run(_execute(postgres.server.url, "select pg_reload_conf()"))
            database = f"{database},{standby.socket}&target_session_attrs=read-write"
        with Cluster(database, folder / "cluster", time_scale=1.0, modules=folder) as cluster:
            for _ in range(2):
                cluster.add_server()
            for _ in range(2):
                cluster.add_worker()
            print(json.dumps(_measure(cluster, postgres, standby, folder, chosen)), flush=True)
    finally:
        postgres.stop()
        if standby is not None:
            standby.stop()


def _standby_of(primary: EmbeddedPostgres, folder: Path) -> EmbeddedPostgres:
    """A copy that follows the primary."""
    standby = EmbeddedPostgres(folder)
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder, standby._identity.uid, standby._identity.gid)
    subprocess.run(
        [
            standby._bin / "pg_basebackup",
            "-h",
            primary.socket,
            "-U",
            "postgres",
            "-R",
            "-c",
            "fast",
            "-D",
            standby.data,
        ],
        preexec_fn=standby._identity.enter,
        check=True,
        cwd="/",
    )
    standby.start()
    return standby


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _measure(
    cluster: Cluster, postgres: TestPostgres, standby: EmbeddedPostgres | None, folder: Path, chosen: argparse.Namespace
) -> dict[str, object]:
    files = [folder / f"lines-{number}" for number in range(chosen.tasks)]
    with cluster.client() as client:
        handles = [
            client.submit([sys.executable, "-c", COMMAND, str(file), str(LINES)], cap="4m", cpu=0.1)
            if number % 2
            else client.submit(function="ticking:tick", args=[str(file), LINES], cap="4m", cpu=0.1)
            for number, file in enumerate(files)
        ]
        while not all(file.exists() for file in files):
            time.sleep(0.1)
        began = time.monotonic()
        if standby is None:
            _take_away(postgres, chosen.how, chosen.away)
        else:
            _fail_over(postgres, standby, chosen.away)
        away = time.monotonic() - began
        outcomes = [handle.wait(300).state for handle in handles]
        attempts = [len(handle.attempts()) for handle in handles]
    lines = [[line.split() for line in file.read_text().splitlines()] for file in files]
    gaps = [max(float(b[1]) - float(a[1]) for a, b in pairwise(each)) for each in lines]
    return {
        "away_seconds": round(away, 1),
        "tasks": chosen.tasks,
        "done": sum(str(outcome).endswith("done") for outcome in outcomes),
        "attempts": attempts,
        "each_line_once": all([int(line[0]) for line in each] == list(range(LINES)) for each in lines),
        "frozen_seconds": [round(min(gaps), 1), round(max(gaps), 1)],
    }


def _fail_over(postgres: TestPostgres, standby: EmbeddedPostgres, seconds: float) -> None:
    for process in _postgres_processes(postgres):
        os.kill(process, signal.SIGKILL)
    time.sleep(seconds)
    asyncio.run(_execute(standby.url, "select pg_promote()"))


def _take_away(postgres: TestPostgres, how: str, seconds: float) -> None:
    if how == "stop":
        postgres.server.stop()
        time.sleep(seconds)
        postgres.server.start()
        return
    processes = _postgres_processes(postgres)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    for process in processes:
        os.kill(process, signal.SIGCONT)


def _postgres_processes(postgres: TestPostgres) -> list[int]:
    postmaster = int((postgres.server.data / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


if __name__ == "__main__":
    main()
