"""Machines that vanish without a word (no power, no network): nobody holds connections to them for long."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.harness.cluster import Cluster
from tests.harness.network import FarMachine
from tests.harness.postgres import postgres_on

SCALE = 0.15  # a peer is dead after 3 s
PORT = 7070


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_after_a_partition_no_end_of_any_connection_is_left_and_the_cluster_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_INSECURE_HTTP", "1")  # between two network namespaces of this machine
    with FarMachine() as far, postgres_on(far.here, tmp_path) as postgres:
        database = postgres.create()
        with Cluster(database, tmp_path / "cluster", time_scale=SCALE) as cluster:
            server = cluster.add_server(
                start=False,
                database=f"postgresql://postgres@{far.here}{urlsplit(database).path}",
                ROTA_STALL_TIMEOUT="3s",  # of clients that may live without a word
            )
            server.prefix = far.prefix
            cluster.urls = [f"http://{far.there}:{PORT}"]
            server.arguments = ["serve", "--host", far.there, "--port", str(PORT), "--name", "far"]
            server.start()
            cluster.add_worker()
            with cluster.client() as client:
                assert client.submit(["true"]).wait(30).state == "done"
            assert _backends(database) > 5
            far.cut()
            _until(lambda: _backends(database) == 0, "PostgreSQL holds sessions of a machine that is gone")
            _until(
                lambda: far.connections(port=5432) == 0, "the server node holds connections to a database that is gone"
            )
            _until(
                lambda: far.connections(port=PORT) == 0, "the server node holds connections of workers that are gone"
            )
            _until(
                lambda: far.connections(port=PORT, here=True) == 0,
                "the worker holds connections to a server that is gone",
            )
            far.heal()
            _until(lambda: _works(cluster), "the cluster does not work again")
            _until(
                lambda: _backends(database) == far.connections(port=5432),
                "PostgreSQL holds sessions that the server node does not, or the other way round",
            )


def _until(reached: Callable[[], bool], otherwise: str, seconds: float = 30.0) -> None:
    """Nobody tells when a kernel gives a connection up, so it is asked."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _backends(database: str) -> int:
    async def count() -> int:
        connection = await asyncpg.connect(database)
        try:
            question = "select count(*) from pg_stat_activity where client_addr is not null"
            return int(await connection.fetchval(question))
        finally:
            await connection.close()

    return asyncio.run(count())


def _works(cluster: Cluster) -> bool:
    with cluster.client() as client:
        return client.submit(["true"]).wait(30).state == "done"
