"""A node or a server node that is not heard is shown so everywhere, gets nothing, and is listed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

SCALE = 0.4  # heartbeats every two seconds: silent after six
SECONDS = 60.0


@pytest.fixture
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("silent"), time_scale=SCALE) as running:
        running.add_server()
        yield running


def asked(cluster: Cluster, path: str, server: int = 0) -> Any:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    return httpx.get(f"{cluster.urls[server]}{path}", headers=headers, trust_env=False).raise_for_status().json()


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def state(cluster: Cluster) -> str:
    (node,) = asked(cluster, "/v1/nodes")["nodes"]
    return str(node["state"])


def test_a_node_that_hangs_is_silent_everywhere_gets_nothing_and_is_up_again(cluster: Cluster) -> None:
    worker = cluster.add_worker()
    assert state(cluster) == "up"
    worker.pause()
    hung_at = time.monotonic()
    until(lambda: state(cluster) != "up")
    seconds = time.monotonic() - hung_at
    assert state(cluster) == "silent"
    assert seconds < 3 * 5 * SCALE + 3  # three heartbeats, and the polls in between
    assert asked(cluster, "/v1/nodes/node-0")["state"] == "silent"
    load = asked(cluster, "/v1/pools/default/load")
    assert [node["state"] for node in load["nodes"]] in ([], ["silent"])
    metrics = httpx.get(f"{cluster.urls[0]}/metrics", trust_env=False).text
    assert 'rota_nodes{pool="default",state="silent"} 1.0' in metrics
    assert 'rota_pool_nodes{pool="default"} 0.0' in metrics
    with cluster.client() as client:
        task = client.submit(["true"])
        worker.resume()
        assert task.wait(SECONDS).state == "done"
    until(lambda: state(cluster) == "up")


def test_a_server_that_is_started_again_is_listed_once_and_one_that_went_is_listed_as_gone(cluster: Cluster) -> None:
    def listed() -> list[tuple[str, str]]:
        return [(one["name"], one["state"]) for one in asked(cluster, "/v1/servers")["servers"]]

    other = cluster.add_server()
    both = [("server-0", "up"), ("server-1", "up")]
    assert listed() == both
    for end in (other.kill, other.stop):  # at once, and in order
        end()
        other.start()
        assert listed() == both
    other.kill()
    until(lambda: listed() == [("server-0", "up"), ("server-1", "silent")])
    other.start()
    other.stop()
    until(lambda: listed() == [("server-0", "up"), ("server-1", "left")])
