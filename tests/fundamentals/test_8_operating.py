"""Lesson 8: running a cluster. What nodes offer, draining one, pools, tiers and categories: all without a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from rota import Client, Refused
from rota.client.calls import cluster_calls
from tests.fundamentals.conftest import MODULES
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

Rota = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A plain node, and one with a fast disk, a GPU and a licence."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("operating"), modules=MODULES) as running:
        running.add_server()
        running.add_worker(options=("--label", "zone=a", "--ports", "31000-31009"))
        running.add_worker(
            capacity="cpu=2,memory=2G,disk=10G,iops=5k,bandwidth=1G,gpu=1,license=1",
            options=("--label", "zone=b", "--ports", "31010-31019"),
        )
        yield running


def _until(fact: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


def test_a_task_runs_where_there_is_what_it_asks_for(client: Client) -> None:
    rich = client.submit(["true"], iops="2k", bandwidth="100M", gpus=0.5, custom={"license": 1})
    assert rich.wait(timeout=20).node == "node-1"
    assert client.submit(["true"], require={"zone": "a"}).wait(timeout=20).node == "node-0"
    with pytest.raises(Refused, match="it asks for 9000 disk operations per second, the most that one has is 5000"):
        client.submit(["true"], iops="9k")
    waiting = client.submit(["true"], iops="9k", unplaceable="wait")
    assert waiting.state == "ready"
    waiting.cancel()


def test_a_task_is_told_its_ports_and_can_listen_on_them(client: Client) -> None:
    listen = (
        "import os, socket; socket.create_server(('127.0.0.1', int(os.environ['ROTA_PORT_2']))); print('listening')"
    )
    task = client.submit([sys.executable, "-c", listen], ports=2)
    assert task.wait(timeout=20).state == "done"
    assert task.log() == "listening\n"


def test_a_drained_node_takes_nothing_new_finishes_what_runs_and_comes_back(
    cluster: Cluster, client: Client, rota: Rota
) -> None:
    runs = client.submit(["sleep", "3"], require={"zone": "a"})
    _until(lambda: runs.state == "running")
    assert "takes nothing new" in rota("node", "drain", "node-0").stdout
    held_back = client.submit(["true"], require={"zone": "a"})
    elsewhere = client.submit(["true"])
    assert elsewhere.wait(timeout=20).node == "node-1"
    ended = runs.wait(timeout=20)
    assert (ended.state, ended.node, ended.attempt) == ("done", "node-0", 1)
    assert held_back.state == "ready"

    # A drain is the operator's word: neither the agent's restart nor the server's takes it back.
    cluster.workers[0].stop()
    cluster.servers[0].stop()
    cluster.servers[0].start()
    cluster.workers[0].start()
    _until(lambda: client.perform(cluster_calls.node("node-0")).running is not None)
    assert client.perform(cluster_calls.node("node-0")).state == "draining"
    assert held_back.state == "ready"

    assert rota("node", "undrain", "node-0").stdout == "node node-0 takes work again\n"
    assert held_back.wait(timeout=20).node == "node-0"


def test_a_pool_is_added_and_used_without_a_restart(cluster: Cluster, client: Client, rota: Rota) -> None:
    assert rota("pool", "add", "render", "--peak", "70").returncode == 0
    worker = cluster.add_worker(options=("--pool", "render", "--ports", "31020-31029"))
    assert worker.running
    assert client.submit(["true"], pool="render").wait(timeout=20).node == "node-2"
    assert json.loads(rota("pool", "show", "render", "-o", "json").stdout)["peak_percent"] == 70


def test_tiers_and_categories_are_defined_and_named(client: Client, rota: Rota) -> None:
    assert rota("tier", "set", "tiny", "--cpu", "100m", "--memory", "16M").returncode == 0
    assert client.me().plan.tiers is None, "the plan unlimited may use all tiers, also a new one"
    assert rota("plan", "set", "business", "--tiers", "basic,regular,premium,tiny").returncode == 0
    assert rota("category", "set", "nightly", "--lane", "off-peak", "--tolerance", "2h", "--cap", "10m").returncode == 0

    def submitted() -> bool:
        return (
            rota("submit", "--tier", "tiny", "--category", "nightly", "--name", "named", "--", "true").returncode == 0
        )

    _until(submitted)
    (task,) = client.list(name="named")
    ended = client.handle(task.id).wait(timeout=20)
    assert (ended.tier, ended.category, ended.lane, ended.cap_seconds) == ("tiny", "nightly", "off-peak", 600)
    assert ended.resources is not None
    assert ended.resources.cpu == 0.1
    refused = rota("tier", "remove", "tiny")
    assert (refused.returncode, "business" in refused.stderr) == (4, True)
