"""Lesson 13: editing and holding waiting tasks, pausing a pool or a tenant (R50)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from rota import AsyncClient, Client, Refused, TaskExpired
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]
TOLD = ["submitted", "promoted", "late"]
PATIENCE_SECONDS = 20.0


def _until(fact: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


@pytest.fixture
def paused(client: Client, rota: Rota) -> Iterator[None]:
    """The pool is paused; what is submitted meanwhile waits."""
    assert rota("pool", "pause", "default").stdout == "pool default is paused\n"
    yield
    rota("pool", "resume", "default")


def test_a_paused_pool_starts_nothing_until_it_is_resumed(client: Client, rota: Rota, paused: None) -> None:
    task = client.submit(["true"])
    _until(lambda: task.why().reason == "pool-paused")
    assert "PAUSED: nothing new starts" in rota("top", "--once").stdout
    assert json.loads(rota("pool", "show", "default", "-o", "json").stdout)["paused"] is True
    assert task.state == "ready"
    assert rota("pool", "resume", "default").stdout == "pool default goes on\n"
    assert task.wait(timeout=20).state == "done"


def test_what_waits_is_edited_and_goes_first(client: Client, rota: Rota, paused: None) -> None:
    key = uuid4().hex
    first, second = (client.submit(["true"], concurrency_key=key) for _ in range(2))
    said = rota("edit", str(second.id), "--priority", "9", "--cap", "2m", "--lane", "urgent", "--tolerance", "5m")
    assert said.stdout.startswith(f"task {second.id}: priority 0 → 9, lane normal → urgent, cap "), said.stderr
    shown = rota("show", str(second.id)).stdout
    assert "by admin: priority 0 → 9" in shown
    document = second.edit(priority=10)
    assert (document.priority, document.lane, document.cap_seconds) == (10, "urgent", 120)
    with pytest.raises(Refused, match="read it again") as refusal:
        second.edit(priority=11, version=0)
    assert refusal.value.status == 412
    rota("pool", "resume", "default")
    assert client.gather([first, second], timeout=20) == [None, None]
    ended = [handle.document() for handle in (first, second)]
    assert ended[1].started_at is not None
    assert ended[0].started_at is not None
    assert ended[1].started_at < ended[0].started_at
    assert rota("edit", str(first.id), "--priority", "1").returncode == 4


def test_what_is_held_waits_for_its_owner(client: Client, rota: Rota) -> None:
    gate = client.submit(["sleep", "60"])
    _until(lambda: gate.state == "running")
    child = client.submit(["true"], after_end=[gate])
    said = rota("hold", str(gate.id), str(child.id), "--reason", "until I have looked")
    assert (said.returncode, "running" in said.stdout) == (4, True), said.stderr
    assert child.why().sentence == f"held by admin: until I have looked; rota release {child.id} lets it go on"
    gate.cancel()
    gate.wait(timeout=20)
    assert child.state == "paused", "its parents have ended, and it is held"
    assert rota("release", str(child.id)).returncode == 0
    assert child.wait(timeout=20).state == "done"
    with pytest.raises(Refused, match="has ended already"):
        child.hold()


def test_rather_not_at_all_than_too_late(client: Client, rota: Rota, paused: None) -> None:
    """`--expire`: who can't be served in time is told so, and when to come back."""
    kept = client.submit(["true"], tolerance="1s")
    dropped = client.submit(["true"], tolerance="1s", on_late="drop")
    after, however = client.submit(["true"], after=[dropped]), client.submit(["true"], after_end=[dropped])
    _until(lambda: "it is dropped if it has not started by" in dropped.why().sentence or dropped.state == "expired")
    with pytest.raises(TaskExpired, match=r"has expired: it could not start by .*; try again later") as error:
        dropped.result(timeout=20)
    assert error.value.retry_after == 1
    assert after.wait(timeout=20).reason == f"task {dropped.id} ended expired"
    said = rota("run", "--expire", "--tolerance", "1s", "--", "echo", "never")
    assert (said.returncode, said.stdout) == (75, ""), said.stderr
    assert "try again later" in said.stderr
    assert rota("wait", str(dropped.id)).returncode == 75
    assert rota("wait", str(dropped.id), str(after.id)).returncode == 1
    assert "it could not start by" in rota("why", str(dropped.id)).stdout
    _until(lambda: [one.type for one in client.events(task=kept.id, since="1h", follow=False)] == TOLD)
    assert kept.state == "ready"
    *_, event = client.events(task=dropped.id, since="1h", follow=False)
    assert (event.type, event.retry_after) == ("expired", 1)
    refused = rota("submit", "--expire", "--", "true")
    assert (refused.returncode, "give a tolerance" in refused.stderr) == (4, True)
    rota("pool", "resume", "default")
    assert {handle.wait(timeout=20).state for handle in (kept, however)} == {"done"}


async def test_the_awaited_face_holds_edits_and_releases_alike(cluster: Cluster) -> None:
    async with AsyncClient(cluster.urls[0], cluster.tokens.admin) as rota:
        task = await rota.submit(["true"], delay="1h")
        assert (await task.hold("later")).state == "paused"
        assert (await task.edit(priority=3)).priority == 3
        assert (await rota.edit(task.id, tolerance="1m")).tolerance_seconds == 60
        assert (await rota.hold(task.id)).held == [task.id]
        assert (await rota.release([task.id])).released == [task.id]
        assert (await task.release()).state == "delayed"
        await task.cancel()


def test_a_paused_tenant_waits_while_others_go_on(client: Client, rota: Rota, neighbour: Client) -> None:
    name = neighbour.me().tenant
    assert rota("tenant", "pause", name).stdout == f"tenant {name} is paused\n"
    task = neighbour.submit(["true"])
    _until(lambda: task.why().reason == "tenant-paused")
    assert client.submit(["true"]).wait(timeout=20).state == "done"
    assert task.state == "ready"
    assert f"{name} " in rota("tenant", "list").stdout
    assert rota("tenant", "resume", name).stdout == f"tenant {name} goes on\n"
    assert task.wait(timeout=20).state == "done"
    assert rota("tenant", "pause", "nobody-there").returncode == 3
    assert rota("pool", "pause", "nowhere").returncode == 3
