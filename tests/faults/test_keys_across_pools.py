"""A concurrency key counted across pools, on two pools with a leader each: respected through cancels, retries, a kill.

And a key that is cooled down, which every leader respects, also one that begins after it was said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from rota import Client, TaskSpec
from rota.client._sync.handle import TaskHandle
from rota.client.calls import catalogue_calls
from tests.faults.scene import MODULES
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

PATIENCE_SECONDS = 30.0


class Pools:
    """Two pools, each led by a server of its own, each with a worker."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.names = two_leaders(cluster)
        for name in self.names:
            cluster.add_worker(options=("--pool", name))

    def gate(self) -> Path:
        return self.folder / uuid4().hex


@pytest.fixture(scope="module")
def pools(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pools]:
    folder = tmp_path_factory.mktemp("pools")
    with Cluster(postgres.create(), folder / "cluster", modules=MODULES) as cluster:
        cluster.add_server()
        cluster.add_server()
        yield Pools(cluster, folder)


def leads(cluster: Cluster, server: int) -> set[str]:
    answer = httpx.get(f"{cluster.urls[server]}/readyz", timeout=10)
    return set(answer.json()["leads"]) if answer.status_code == 200 else set()


def until(fact: Callable[[], bool], what: str) -> None:
    patience = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < patience, f"it never came true: {what}"
        time.sleep(0.02)


def two_leaders(cluster: Cluster) -> list[str]:
    """Makes pools until each server leads one: while one server stands still, a new pool can only be the other's."""
    for number in range(10):
        led = [leads(cluster, 0), leads(cluster, 1)]
        if led[0] and led[1]:
            return [min(led[0]), min(led[1])]
        idle = 0 if led[1] else 1
        name = f"pool-{number}"
        cluster.servers[1 - idle].pause()
        try:
            with cluster.client(idle) as client:
                client.perform(catalogue_calls.add_pool(name, {}))
            until(lambda idle=idle, name=name: name in leads(cluster, idle), "the pool is led")  # type: ignore[misc]
        finally:
            cluster.servers[1 - idle].resume()
        until(lambda: leads(cluster, 0) | leads(cluster, 1) >= {"default", name}, "both are led")  # noqa: B023
    raise AssertionError("one server keeps winning every pool")


@pytest.fixture
def client(pools: Pools) -> Iterator[Client]:
    with pools.cluster.client(0) as ready:
        yield ready


def behind(gate: Path) -> list[str]:
    return ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"]


def submit(client: Client, pool: str, command: list[str], key: str, **options: object) -> TaskHandle:
    return client.submit(
        command, pool=pool, concurrency_key=key, concurrency_scope="global", cap="1h", **options  # type: ignore[arg-type]
    )  # fmt: skip


def ended(handle: TaskHandle, state: str = "done") -> None:
    assert handle.wait(timeout=PATIENCE_SECONDS).state == state


def test_tasks_with_one_key_never_overlap_whichever_pool_they_are_in(pools: Pools, client: Client) -> None:
    key = uuid4().hex
    handles = client.submit_many(
        [
            TaskSpec(
                command=["sleep", "0.05"], pool=pools.names[number % 2], concurrency_key=key, concurrency_limit=2,
                concurrency_scope="global",
            )
            for number in range(12)
        ]
    )  # fmt: skip
    for handle in handles:
        ended(handle)
    spans = [client.attempts(handle.id)[0] for handle in handles]
    moments = sorted([(one.started_at, 1) for one in spans] + [(one.ended_at, -1) for one in spans])
    running = most = 0
    for _, change in moments:
        running += change
        most = max(most, running)
    assert most <= 2


def test_a_busy_key_is_explained_and_free_again_after_a_cancel(pools: Pools, client: Client) -> None:
    key = uuid4().hex
    first = submit(client, pools.names[0], behind(pools.gate()), key)
    until(lambda: first.state == "running", "the first runs")
    second = submit(client, pools.names[1], ["true"], key)
    until(lambda: second.why().reason == "key-busy", "the second waits for the key")
    sentence = "of 1 places 0 are held here and 1 elsewhere"
    until(lambda: sentence in second.why().sentence, "the other pool's place is known here too")
    assert second.state == "ready"
    first.cancel()
    ended(first, "cancelled")
    ended(second)


def test_a_task_that_backs_off_holds_no_place_and_is_tried_again(pools: Pools, client: Client) -> None:
    key, mark = uuid4().hex, pools.gate()
    failing = ["sh", "-c", f"test -e {mark} || {{ touch {mark}; exit 1; }}"]
    first = submit(client, pools.names[0], failing, key, attempts=2, backoff=0.5)
    second = submit(client, pools.names[1], ["true"], key)
    ended(second)
    ended(first)
    assert first.document().attempt == 2


@pytest.mark.parametrize("scope", ["pool", "global"])
def test_a_cooled_key_holds_its_tasks_back_in_every_pool_and_is_explained(
    pools: Pools, client: Client, scope: str
) -> None:
    key = f"https://{uuid4().hex}/v1"
    assert client.cool_key(key, "1h").cooled_until is not None
    waiting = [client.submit(["true"], pool=name, concurrency_key=key, concurrency_scope=scope) for name in pools.names]
    until(lambda: all(one.why().reason == "key-cooled" for one in waiting), "both wait for the cool-down")
    assert [one.document().attempt for one in waiting] == [0, 0]
    (listed,) = {
        (one.key, one.running, one.cooled_until is not None) for one in client.concurrency_keys() if one.key == key
    }
    assert listed == (key, 0, True)
    assert sum(one.waiting for one in client.concurrency_keys() if one.key == key) == 2
    assert client.cool_key(key, 0).cooled_until is None
    for one in waiting:
        ended(one)


def test_a_key_is_respected_after_both_pools_have_new_leaders(pools: Pools, client: Client) -> None:
    cluster, key, gate = pools.cluster, uuid4().hex, pools.gate()
    first = submit(client, pools.names[1], behind(gate), key)
    until(lambda: first.state == "running", "the first runs")
    second = submit(client, pools.names[0], ["true"], key)
    until(lambda: second.why().reason == "key-busy", "the second waits for the key")
    client.cool_key(f"cool-{key}", "1h")
    cooled = client.submit(["true"], pool=pools.names[1], concurrency_key=f"cool-{key}")
    until(lambda: cooled.why().reason == "key-cooled", "the old leader knows of the cool-down")
    cluster.servers[1].kill()
    until(lambda: leads(cluster, 0) >= set(pools.names), "one server leads both")
    assert client.submit(["true"], pool=pools.names[0]).wait(timeout=PATIENCE_SECONDS).state == "done"
    assert (first.state, second.state) == ("running", "ready")
    until(lambda: cooled.why().reason == "key-cooled", "the new leader knows of the cool-down")
    client.cool_key(f"cool-{key}", 0)
    ended(cooled)
    gate.touch()
    ended(first)
    ended(second)
    cluster.servers[1].start()
