"""Row 45 and what comes with it: the database away, nobody leading, and everything fine again afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.embedded import EmbeddedPostgres
from rota.store.migrations import upgrade
from tests.api.served import Said, Served, problem
from tests.harness.cluster import Cluster


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "postgres")
    server.start()
    yield server
    server.stop()


def test_a_database_that_is_away_means_503_at_once_and_nothing_lost_when_it_is_back(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    asyncio.run(upgrade(own_postgres.url, check_transitions=True))
    with Cluster(own_postgres.url, tmp_path / "cluster") as cluster:
        cluster.add_server()
        served = Served.on(cluster)
        kept = served.submit(delay="1h")
        own_postgres.stop()
        for method, path, body in (
            ("POST", "/v1/tasks", {"command": ["true"]}),
            ("POST", "/v1/tasks/batch", {"tasks": [{"command": ["true"]}]}),
            ("GET", f"/v1/tasks/{kept}", None),
            ("GET", "/v1/tasks", None),
            ("POST", f"/v1/tasks/{kept}/cancel", None),
            ("GET", "/readyz", None),
        ):
            began = time.monotonic()
            answer = served.send(method, path, body)
            assert problem(answer) == Said(503, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert time.monotonic() - began < 15, "shed, not queued"
        assert served.send("GET", "/healthz", token=None).status_code == 200
        own_postgres.start()
        _until_ready(served)
        assert served.send("GET", f"/v1/tasks/{kept}").json()["state"] == "delayed"
        assert served.send("POST", "/v1/tasks", {"command": ["true"]}).status_code == 201


def test_a_question_that_needs_a_leader_is_503_while_nobody_leads(tmp_path: Path, database: str) -> None:
    with Cluster(database, tmp_path) as cluster:
        process = cluster.add_server(start=False)
        process.arguments += ["--roles", "api"]
        process.start()
        served = Served.on(cluster)
        answer = served.send("GET", "/v1/worker/leader", token=served.tokens["worker"])
        assert problem(answer) == Said(503, "unavailable")
        assert served.send("POST", "/v1/tasks", {"command": ["true"]}).status_code == 201, "admitting needs no leader"
        unknown = served.send("GET", "/v1/worker/leader?pool=nowhere", token=served.tokens["worker"])
        assert problem(unknown) == Said(422, "unknown-pool", (("/pool", "unknown-pool"),))


def _until_ready(served: Served) -> None:
    """The node says when it is ready again."""
    deadline = time.monotonic() + 30
    while served.send("GET", "/readyz", token=None).status_code != 200:
        assert time.monotonic() < deadline
