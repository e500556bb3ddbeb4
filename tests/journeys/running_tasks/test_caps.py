"""Extending the cap of a running task; one sentence names the limit that ended a task."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import asyncpg
import pytest
from tests.harness.cluster import Cluster
from tests.journeys.running_tasks.conftest import eventually

from rota.client._sync.client import Client
from rota.client.errors import NotFound, Refused, TaskTimedOut
from rota.store.caps import change_cap

Rota = Callable[..., CompletedProcess[str]]


def waiting(gate: Path) -> list[str]:
    return ["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done"]


def test_what_runs_longer_than_its_cap_says_so_and_more_time_is_heard(
    client: Client, rota: Rota, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    kept = client.submit(waiting(gate), cap="10s")
    nap = client.submit(function="talking_tasks:report", args=[0.1, "", str(gate)], cap="10s")
    ended = client.submit(waiting(gate), cap="10s")
    for handle in (kept, nap):
        eventually(lambda handle=handle: handle.state == "running")
    said = rota("extend", str(kept.id), "+1m", server=1)
    assert said.stdout == f"task {kept.id} may run 1m10s, counted from its start\n", said.stderr
    assert nap.extend(cap="2m").cap_seconds == 120
    assert re.search(r"cap +1m10s", rota("show", str(kept.id)).stdout)
    with pytest.raises(TaskTimedOut, match=f"task {ended.id} failed: timeout: ran longer than its cap of 10s"):
        ended.result(60)
    assert "ran longer than its cap of 10s" in rota("wait", str(ended.id)).stdout
    assert kept.state == nap.state == "running"
    gate.touch()
    assert kept.wait(30).state == "done"
    shown = rota("show", str(kept.id)).stdout
    assert re.search(r"cap +1m10s", shown), "what it had in the end, not what was submitted"
    assert re.search(r"edited .*cap 10s → 1m10s", shown)
    assert nap.result(30) == "reported"


def test_a_cap_the_leader_was_not_told_of_is_found_by_its_poll(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    handle = client.submit(waiting(gate), cap="20s")
    eventually(lambda: handle.state == "running")

    async def shorten() -> None:
        connection = await asyncpg.connect(cluster.database)
        tenant = await connection.fetchval("select tenant from queue where id = $1", handle.id)
        # The store lets nobody shorten a running task's cap; this is a leader's row that changed behind its back.
        await connection.execute("update queue set cap_ms = 1, version = version + 1 where id = $1", handle.id)
        await change_cap(connection, handle.id, tenant, by_ms=99, to_ms=None, longest_ms=10**9, user="ann")
        await connection.close()

    asyncio.run(shorten())
    with pytest.raises(TaskTimedOut, match="ran longer than its cap of 100ms"):
        handle.result(30)


def test_a_waiting_tasks_cap_is_changed_too(client: Client) -> None:
    handle = client.submit(["sleep", "30"], delay="1s", cap="1h")
    assert handle.extend(cap="500ms").cap_seconds == 0.5
    with pytest.raises(TaskTimedOut, match="ran longer than its cap of 500ms"):
        handle.result(30)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"by": "1000d"}, "plan unlimited allows at most 30d, counted from the start"),
        ({"by": "soon"}, "soon"),
        ({"by": "-1h"}, "-1h"),
        ({"by": 0}, "a duration above 10ms"),
        ({"by": "1h", "cap": "1h"}, None),
        ({}, None),
    ],
)
def test_what_cannot_be_is_refused_by_name(client: Client, body: dict[str, object], why: str | None) -> None:
    handle = client.submit(["true"], delay="1h")
    with pytest.raises(Refused) as refused:
        client.handle(handle.id).extend(**body)  # type: ignore[arg-type]
    assert refused.value.status == 422
    assert (why or "exactly one of by and cap") in refused.value.faults[0].detail


def test_a_running_cap_is_not_shortened_and_an_ended_task_not_extended(
    client: Client, rota: Rota, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    handle = client.submit(waiting(gate), cap="1m")
    eventually(lambda: handle.state == "running")
    with pytest.raises(Refused, match="runs with a cap of 1m; a running task's cap can only be extended"):
        handle.extend(cap="10s")
    gate.touch()
    handle.wait(30)
    with pytest.raises(Refused, match="has ended already: it is done") as late:
        handle.extend("1h")
    assert late.value.status == 409
    with pytest.raises(NotFound):
        client.handle(10**12).extend("1h")
    assert rota("extend", str(handle.id), "+soon").returncode == 2
