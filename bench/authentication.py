"""`python -m bench.authentication [--old FOLDER]`: what an authenticated request pays to be authenticated.

Measures this tree and, in turns, an older one (a checkout of another commit): `authorise` alone, for a token that was
looked up a short time ago and for one that was not, and a whole request over a kept connection that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fastapi import Request
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

from rota.admit.authenticate import Authenticator
from rota.api import services
from rota.api.routes import tasks
from rota.model import tenant
from rota.store.database import Database

HERE = Path(__file__).resolve().parent.parent
_CHILD = "--measure"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.authentication", description=__doc__)
    parser.add_argument("--old", type=Path, help="folder of an older tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument(_CHILD, action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        _measure(chosen.count)
        return
    trees = {"new": HERE} | ({"old": chosen.old.resolve()} if chosen.old else {})
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for _ in range(chosen.rounds):
        for name, folder in trees.items():
            rows[name].append(row := _child(folder, chosen.count))
            print(json.dumps({"tree": name, **row}), flush=True)
    for name, of_tree in rows.items():
        middle = {key: sorted(row[key] for row in of_tree)[len(of_tree) // 2] for key in of_tree[0]}
        print(json.dumps({"tree": name, "median_of_rounds": middle}), flush=True)


def _child(folder: Path, count: int) -> dict[str, float]:
    """This file, with the modules of the tree."""
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    command = [sys.executable, __file__, _CHILD, "--count", str(count)]
    answered = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True)
    return cast("dict[str, float]", json.loads(answered.stdout))


def _measure(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        postgres = TestPostgres(Path(folder))
        postgres.start()
        try:
            with Cluster(postgres.create(), Path(folder) / "cluster", time_scale=1.0) as cluster:
                alone = asyncio.run(_authorise(cluster.database, cluster.tokens.admin, count))
                cluster.add_server()
                print(json.dumps(alone | _requests(cluster.urls[0], cluster.tokens.admin, count // 4)))
        finally:
            postgres.stop()


async def _authorise(url: str, token: str, count: int) -> dict[str, float]:
    database = Database(url)
    await database.open()
    authenticator = Authenticator(database, cast(Any, None))
    state = SimpleNamespace(
        services=SimpleNamespace(authenticator=authenticator, settings=SimpleNamespace(), audit_notes=None)
    )
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/tasks/1",
        "headers": [(b"host", b"rota"), (b"authorization", f"Bearer {token}".encode())],
        "client": ("127.0.0.1", 1),
        "query_string": b"",
        "app": SimpleNamespace(state=state),
        "endpoint": tasks.get_task,
    }
    more = [] if len(inspect.signature(services.authorise).parameters) == 1 else [_scope()]
    authorise = cast(Any, services.authorise)

    async def take() -> float:
        request = Request(scope)
        begun = time.perf_counter()
        await authorise(request, *more)
        return (time.perf_counter() - begun) * 1e6

    for _ in range(200):
        await take()
    gc.disable()
    remembered = [await take() for _ in range(count)]
    looked_up = []
    for _ in range(count // 20):
        authenticator.forget()
        looked_up.append(await take())
    gc.enable()
    await database.close()
    return _figures("authorise", remembered) | _figures("look_up", looked_up)


def _scope() -> object:
    """What older trees were given by each route."""
    return cast(Any, tenant).Scope("tasks:read")


def _requests(url: str, token: str, count: int) -> dict[str, float]:
    """Of an id that can't be one, so that the answer needs no database."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    headers = {"authorization": f"Bearer {token}"}

    def take() -> float:
        begun = time.perf_counter()
        connection.request("GET", "/v1/tasks/x", headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 404, answer.status
        return (time.perf_counter() - begun) * 1e6

    for _ in range(300):
        take()
    return _figures("request", [take() for _ in range(count)])


def _figures(name: str, microseconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(microseconds)
    return {
        f"{name}_p50_us": round(ordered[len(ordered) // 2], 1),
        f"{name}_p99_us": round(ordered[len(ordered) * 99 // 100], 1),
    }


if __name__ == "__main__":
    main()
