"""Lesson 9: which task starts first. Lanes, off-peak, fair shares, reservations, preemption, concurrency keys, `rota why`.

Two server nodes and two workers with two processors each. A task of this lesson that should last runs until its gate
is opened, so that every moment is the lesson's own choice.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from rota import Client, TaskSpec
from rota.client._sync.handle import TaskHandle
from tests.fundamentals.conftest import MODULES
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

Rota = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 20.0


class Gate:
    """`gate.command` runs until `gate.open()`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / uuid4().hex
        self.command = ["sh", "-c", f"until [ -e {self._file} ]; do sleep 0.02; done"]

    def open(self) -> None:
        self._file.touch()


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two server nodes, and two workers that differ in their zone."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("brain"), modules=MODULES) as running:
        running.add_server()
        running.add_server()
        for zone in ("a", "b"):
            running.add_worker(capacity="cpu=2,memory=2G,disk=10G", options=("--label", f"zone={zone}"))
        yield running


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[tuple[Gate, Gate]]:
    """One for each worker. Whatever a lesson leaves closed is opened at its end."""
    both = Gate(tmp_path), Gate(tmp_path)
    yield both
    for gate in both:
        gate.open()


def _until(fact: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def _fill(client: Client, gates: tuple[Gate, Gate], cpu: float = 2, *, preemptible: bool = False) -> list[TaskHandle]:
    """Each worker is busy with a task behind its gate."""
    holders = [
        client.submit(
            gate.command, name=uuid4().hex, cpu=cpu, require={"zone": zone}, cap="1h", preemptible=preemptible
        )
        for gate, zone in zip(gates, ("a", "b"), strict=True)
    ]
    _until(lambda: all(holder.state == "running" for holder in holders))
    return holders


def _started(handle: TaskHandle) -> datetime:
    """When it started; it is waited for."""
    ended = handle.wait(timeout=PATIENCE_SECONDS)
    assert ended.state == "done"
    assert ended.started_at is not None
    return ended.started_at


def _held_seconds(handle: TaskHandle) -> float:
    seconds = handle.wait(timeout=PATIENCE_SECONDS).run_seconds
    assert seconds is not None
    return seconds


def test_an_urgent_task_overtakes(client: Client, rota: Rota, gates: tuple[Gate, Gate]) -> None:
    _fill(client, gates)
    waiting = [client.submit(["true"], cpu=2, require={"zone": "a"}) for _ in range(3)]
    said = rota("submit", "--lane", "urgent", "--cpu", "2", "--require", "zone=a", "-o", "json", "--", "true")
    urgent = client.handle(json.loads(said.stdout)["id"])
    gates[0].open()
    assert _started(urgent) <= min(_started(handle) for handle in waiting)


def test_off_peak_work_waits_while_the_pool_is_busy_and_starts_when_it_is_quiet(
    client: Client, rota: Rota, gates: tuple[Gate, Gate]
) -> None:
    _fill(client, gates, cpu=1.7)  # 85 % of the pool: above its peak mark
    said = rota("submit", "--lane", "off-peak", "--cpu", "100m", "-o", "json", "--", "true")
    off_peak = client.handle(json.loads(said.stdout)["id"])
    assert client.submit(["true"], cpu=0.1).wait(timeout=20).state == "done", "there is room for a normal task"
    assert off_peak.state == "ready"
    gates[0].open()
    assert off_peak.wait(timeout=20).state == "done"


def test_two_tenants_share_evenly_however_many_tasks_each_has(
    cluster: Cluster, client: Client, rota: Rota, gates: tuple[Gate, Gate]
) -> None:
    _fill(client, gates)
    with _tenant(cluster, client, rota) as busy, _tenant(cluster, client, rota) as modest:
        many = busy.submit_many([TaskSpec(command=["sleep", "0.1"], cpu=2)] * 24)
        few = modest.submit_many([TaskSpec(command=["sleep", "0.1"], cpu=2)] * 6)
        _until(lambda: few[-1].why().reason != "in-database")  # the leader has heard of them
        for gate in gates:
            gate.open()
        last = max(_started(handle) for handle in few)
        gone_first = [_held_seconds(handle) for handle in many if _started(handle) <= last]
        theirs = [_held_seconds(handle) for handle in few]
        # Time is what is shared. Beside it: what the two workers had begun, and the first turn.
        assert sum(gone_first) <= sum(theirs) + 3 * max(gone_first + theirs)


def _tenant(cluster: Cluster, client: Client, rota: Rota) -> Client:
    """A client of a new tenant, on the same plan as ours."""
    name = f"tenant-{uuid4().hex[:8]}"
    rota("tenant", "add", name, "--plan", client.me().plan.name)
    made = json.loads(rota("token", "add", "--tenant", name, "--user", "tess", "-o", "json").stdout)
    return Client(server=cluster.urls[1], token=made["token"])


def test_a_big_task_gets_its_turn_although_small_ones_keep_coming(client: Client) -> None:
    # Two at a time, and never two that end together: there is no moment at which the worker happens to be empty.
    lengths = ["0.15"] + ["0.3"] * 23
    small = client.submit_many(
        [TaskSpec(command=["sleep", each], cpu=1, require={"zone": "a"}, cap="2s") for each in lengths]
    )
    _until(lambda: small[0].state == small[1].state == "running")
    big = client.submit(["true"], cpu=2, require={"zone": "a"}, cap="2s", priority=1)
    started = _started(big)
    assert sum(1 for handle in small if _started(handle) > started) >= 8, "it did not wait for the last of them"


def test_everybody_can_ask_why_a_task_waits_and_when_it_starts(
    client: Client, rota: Rota, gates: tuple[Gate, Gate]
) -> None:
    _fill(client, gates, cpu=1)
    big = client.submit(["true"], name=uuid4().hex, cpu=2, require={"zone": "a"}, cap="10s", priority=1)
    beside = client.submit(["true"], name=uuid4().hex, cpu=1, require={"zone": "a"}, cap="1h")
    _until(lambda: client.why(beside.id).reason == "resources-reserved")
    said = rota("why", str(big.id)).stdout
    assert "node-0 is reserved for it" in said
    assert "in about" in said
    assert "when the task with the reservation should have run" in rota("why", str(beside.id)).stdout
    frame = rota("top", "--once").stdout
    assert "below the peak mark of 80%" in frame
    assert f"{big.id}  node-0" in frame.partition("RESERVED FOR")[2]
    before = rota(
        "submit", "--dry-run", "--cpu", "2", "--require", "zone=b", "--name", uuid4().hex, "--", "true"
    ).stdout
    assert "no node has 2 cores free; the most is 1 on node-1" in before
    gates[0].open()
    assert _started(big) <= _started(beside)


def test_a_preemptible_task_gives_way_to_an_urgent_one_and_comes_back(client: Client, gates: tuple[Gate, Gate]) -> None:
    holders = _fill(client, gates, preemptible=True)
    urgent = client.submit(["true"], cpu=2, lane="urgent")
    assert urgent.wait(timeout=PATIENCE_SECONDS).state == "done", "although no gate was opened"
    for gate in gates:
        gate.open()
    assert [holder.wait(timeout=PATIENCE_SECONDS).state for holder in holders] == ["done", "done"]
    outcomes = sorted([attempt.outcome for attempt in client.attempts(holder.id)] for holder in holders)
    assert outcomes == [["disrupted", "ok"], ["ok"]]


def test_a_task_runs_only_where_it_is_required_to(client: Client, rota: Rota) -> None:
    for zone, node in (("a", "node-0"), ("b", "node-1")):
        said = rota("submit", "--require", f"zone={zone}", "-o", "json", "--", "true")
        assert client.handle(json.loads(said.stdout)["id"]).wait(timeout=PATIENCE_SECONDS).node == node
    refused = rota("submit", "--require", "zone=c", "--", "true")
    assert (refused.returncode != 0, "zone" in refused.stderr) == (True, True)


def test_a_concurrency_key_is_respected_after_the_leader_is_killed(cluster: Cluster, gates: tuple[Gate, Gate]) -> None:
    leader = _leader(cluster)
    with cluster.client(1 - leader) as client:
        first = client.submit(gates[0].command, concurrency_key="ledger", cap="1h")
        _until(lambda: first.state == "running")
        second = client.submit(["true"], concurrency_key="ledger")
        cluster.servers[leader].kill()
        _until(lambda: _leads(cluster, 1 - leader))
        assert client.submit(["true"]).wait(timeout=PATIENCE_SECONDS).state == "done", "the new leader starts tasks"
        assert (first.state, second.state) == ("running", "ready")
        gates[0].open()
        after, before = second.wait(timeout=PATIENCE_SECONDS), first.wait(timeout=PATIENCE_SECONDS)
        assert (before.state, before.attempt, after.state) == ("done", 1, "done")
        assert before.ended_at is not None
        assert after.started_at is not None
        assert before.ended_at <= after.started_at
    cluster.servers[leader].start()


def _leader(cluster: Cluster) -> int:
    _until(lambda: any(_leads(cluster, number) for number in range(2)))
    return next(number for number in range(2) if _leads(cluster, number))


def _leads(cluster: Cluster, server: int) -> bool:
    answer = httpx.get(f"{cluster.urls[server]}/readyz", timeout=5)
    return answer.status_code == 200 and "default" in answer.json()["leads"]
