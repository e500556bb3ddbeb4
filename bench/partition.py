"""`python -m bench.partition`: cuts a server node off from its database and its workers again and again, and counts
the connections that each end still holds.

The server node has a network of its own, whose packets are all lost for a while: no end is told anything, as if its
machine had lost its power. Needs root, `ip`, `iptables` and `ss`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from tests.harness.cluster import Cluster
from tests.harness.network import FarMachine
from tests.harness.postgres import postgres_on

PORT = 7070


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.partition", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dark", type=float, default=60.0, help="seconds for which every packet is lost")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds after which dead connections are counted")
    parser.add_argument("--scale", type=float, default=1.0, help="ROTA_TIME_SCALE")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes are stopped
    os.environ["ROTA_INSECURE_HTTP"] = "1"  # between two network namespaces of this machine
    folder = Path(tempfile.mkdtemp(prefix="rota-partition-"))
    with FarMachine() as far, postgres_on(far.here, folder) as postgres:
        database = postgres.create()
        name = urlsplit(database).path
        with Cluster(database, folder / "cluster", time_scale=chosen.scale) as cluster:
            server = cluster.add_server(start=False, database=f"postgresql://postgres@{far.here}{name}")
            server.prefix = far.prefix
            url = f"http://{far.there}:{PORT}"
            server.arguments = ["serve", "--host", far.there, "--port", str(PORT), "--name", server.name, "--url", url]
            cluster.urls = [url]
            server.start()
            cluster.add_worker()

            def count() -> dict[str, int]:
                return {
                    "backends": asyncio.run(_backends(database, far.there)),
                    "server_to_database": far.connections(port=5432),
                    "server_to_clients": far.connections(port=PORT),
                    "worker_to_server": far.connections(port=PORT, here=True),
                }

            with cluster.client() as client:
                client.submit(["true"]).wait(60)
            print(json.dumps({"round": 0, **count()}), flush=True)
            for number in range(1, chosen.rounds + 1):
                far.cut()
                time.sleep(chosen.dark)
                row = {"round": number, "dark": count()}
                far.heal()
                began = time.monotonic()
                with cluster.client() as client:
                    _until(lambda client=client: client.submit(["true"]).wait(60) or True)  # type: ignore[misc]
                row["works_again_seconds"] = round(time.monotonic() - began, 1)  # type: ignore[assignment]
                row["healed"] = count()
                time.sleep(max(0.0, chosen.settle - (time.monotonic() - began)))
                row["settled"] = count()
                print(json.dumps(row), flush=True)


def _until(works: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            works()
            return
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


async def _backends(database: str, address: str) -> int:
    connection = await asyncpg.connect(database)
    try:
        return int(
            await connection.fetchval("select count(*) from pg_stat_activity where client_addr = $1::inet", address)
        )
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
