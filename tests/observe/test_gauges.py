"""Every gauge of /metrics is right within two seconds, or it is absent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rota.observe.metrics import ClusterFigures, Metrics, NodeFigures
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

MEMORY = 0.016  # of the node, asked by each task
CPU, WAITING, DELAYED, DEAD = 4, 3, 2, 2
SECONDS = 2.0
LATEST = 60.0  # until the tasks have started


@pytest.fixture(scope="module")
def busy(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All CPU is held; three tasks wait for some, two for their time, one for another task; two are dead letters."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("gauges"), time_scale=CALM) as cluster:
        cluster.add_server()
        cluster.add_worker(capacity=f"cpu={CPU},memory=4G,disk=100G")
        with cluster.client() as client:
            for failed in [client.submit(["false"], attempts=1) for _ in range(DEAD)]:
                failed.wait()
            held = [client.submit(["sleep", "600"], cpu=1, memory="64M", cap="1h") for _ in range(CPU + WAITING)]
            for _ in range(DELAYED):
                client.submit(["true"], delay="1h")
            client.submit(["true"], after=[held[0]])
        yield cluster


def gauges(cluster: Cluster) -> dict[str, dict[tuple[str, ...], float]]:
    text = httpx.get(f"{cluster.urls[0]}/metrics", trust_env=False).text
    parsed = text_string_to_metric_families(text)
    families = [one for one in parsed if one.type == "gauge" and not one.name.endswith("_created")]
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples} for family in families
    }


async def _rows(cluster: Cluster, question: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(cluster.database)
    try:
        return [tuple(row) for row in await connection.fetch(question)]
    finally:
        await connection.close()


def asked(cluster: Cluster, question: str) -> float:
    ((value,),) = asyncio.run(_rows(cluster, question))
    return float(value)


def truth(cluster: Cluster) -> dict[str, dict[tuple[str, ...], float] | None]:
    """Of every gauge there is; None: its samples are looked at on their own."""
    running = asked(cluster, "select count(*) from queue where state = 4")
    pool = ("default",)
    of_resources = {(*pool, name): 0.0 for name in ("cpu", "memory", "disk", "ports")}
    return {
        "rota_http_connections": None,
        "rota_tasks_live": {(): asked(cluster, "select count(*) from queue")},
        "rota_dead_letters": {(): asked(cluster, "select count(*) from dead_letters")},
        "rota_nodes": {(*pool, "up"): 1.0},
        "rota_pool_epoch": {pool: asked(cluster, "select epoch from leases where pool = 1")},
        "rota_pool_nodes": {pool: asked(cluster, "select count(*) from nodes where left_at is null")},
        "rota_pool_ready_in_memory": {pool: asked(cluster, "select count(*) from queue where state = 3")},
        "rota_pool_running": {pool: running},
        "rota_pool_frozen": {pool: 0.0},
        "rota_pool_unsettled": {pool: 0.0},
        "rota_pool_missing_nodes": {pool: 0.0},
        "rota_pool_late_tasks": {pool: 0.0},
        "rota_pool_unplaceable": {pool: 0.0},
        "rota_pool_idle_nodes": {pool: 0.0 if running else 1.0},
        "rota_pool_utilisation": of_resources | {(*pool, "cpu"): running / CPU, (*pool, "memory"): running * MEMORY},
        "rota_pool_demand_ratio": of_resources
        | {
            (*pool, "cpu"): asked(cluster, "select count(*) from queue where state = 3") / CPU,
            (*pool, "memory"): asked(cluster, "select count(*) from queue where state = 3") * MEMORY,
        },
    }


def wrong(cluster: Cluster) -> dict[str, Any]:
    """Gauges that differ from the truth, with both."""
    shown, true = gauges(cluster), truth(cluster)
    assert shown.keys() == true.keys(), "a gauge is missing here or there"
    found: dict[str, Any] = {}
    for name, samples in true.items():
        if samples is None:
            continue
        if name in ("rota_pool_utilisation", "rota_pool_demand_ratio"):
            same = all(
                shown[name][labels] == pytest.approx(samples[labels], abs=1e-3)
                for labels in samples
                if labels[1] != "disk"
            )
        else:
            same = shown[name] == samples
        if not same:
            found[name] = (shown[name], samples)
    return found


def until_right(cluster: Cluster, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (found := wrong(cluster)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not found


def test_every_gauge_is_what_the_rows_say_and_follows_them_within_two_seconds(busy: Cluster) -> None:
    until = time.monotonic() + LATEST
    while asked(busy, "select count(*) from queue where state = 4") < CPU and time.monotonic() < until:
        time.sleep(0.05)
    until_right(busy, SECONDS)
    shown = gauges(busy)
    assert shown["rota_tasks_live"][()] == CPU + WAITING + DELAYED + 1
    assert shown["rota_dead_letters"][()] == DEAD
    assert shown["rota_pool_running"]["default",] == CPU
    assert shown["rota_http_connections"][()] >= 1
    with busy.client() as client:
        (first, *_) = client.dead().tasks
        httpx.post(
            f"{busy.urls[0]}/v1/dead/discard",
            json={"ids": [first.id]},
            headers={"authorization": f"Bearer {busy.tokens.admin}"},
            trust_env=False,
        ).raise_for_status()
        page = client.list(state="delayed")
        client.cancel([task.id for task in page.tasks])
    until_right(busy, SECONDS)
    shown = gauges(busy)
    assert shown["rota_tasks_live"][()] == CPU + WAITING + 1
    assert shown["rota_dead_letters"][()] == DEAD - 1


def test_a_gauge_that_can_not_be_read_is_absent() -> None:
    text = Metrics().text(NodeFigures(3, ClusterFigures(), [])).decode()
    assert "rota_tasks_admitted_total 3.0" in text
    assert "rota_tasks_live" not in text
    assert "rota_dead_letters" not in text
    assert "rota_nodes" not in text


def test_a_server_that_leads_no_pool_shows_the_figures_of_the_cluster_only(busy: Cluster, tmp_path: Path) -> None:
    other = busy.add_server()
    text = httpx.get(f"{busy.urls[-1]}/metrics", trust_env=False).text
    other.stop()
    busy.servers.remove(other)
    busy.urls.pop()
    assert "rota_dead_letters" in text
    assert 'pool="default",state="up"' in text
    assert not [line for line in text.splitlines() if line.startswith("rota_pool_")]
