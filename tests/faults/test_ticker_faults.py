"""Whoever ticks is killed when an instant comes, server nodes' clocks are wrong: no instant lost or doubled (I15–I17, I30).

Schedules of one second, so that there is an instant at every moment that matters. Timings are scaled to a fifth.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import libfaketime

from tests.faults.scene import Scene, eventually

SECOND = timedelta(seconds=1)
NAMES = ("a", "b", "c")
TASK = {"command": ["true"], "unplaceable": "wait"}


def _wrong_clock(shift: str) -> dict[str, str]:
    """A wall clock that is wrong from the start; the monotonic one is right."""
    library = Path(libfaketime.__file__).parent / "vendor/libfaketime/src/libfaketime.so.1"
    assert library.exists()
    return {"LD_PRELOAD": os.fspath(library), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def ticking(scene: Scene) -> list[int]:
    """The number of the server node that has the ticker's term, if one has."""
    rows = scene.query("select epoch from leases where pool = 0 and expires_at > clock_timestamp()")
    return [
        number
        for number, process in enumerate(scene.cluster.servers)
        if process.running and rows and str(rows[0]["epoch"]) in process.log()
    ]


def send(scene: Scene, server: int, method: str, path: str, body: object = None) -> Any:
    answer = scene._http.request(method, f"{scene.cluster.urls[server]}/v1/schedules{path}", json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def _runs(scene: Scene) -> int:
    return int(scene.query("select count(*) from occurrences")[0]["count"])


def _kill_at_an_instant(scene: Scene) -> int:
    """SIGKILL for whoever ticks, as soon as the database's clock has passed a whole second; it starts again after."""
    (victim,) = eventually(lambda: ticking(scene), seconds=20, what="somebody ticks")
    before = _second(scene)
    while _second(scene) == before:
        pass
    scene.cluster.servers[victim].kill()
    return victim


def _second(scene: Scene) -> int:
    return int(scene.query("select floor(extract(epoch from clock_timestamp()))::bigint as at")[0]["at"])


def test_no_instant_is_lost_or_doubled_when_tickers_die_at_instants_and_clocks_are_wrong(scene: Scene) -> None:
    servers = [scene.cluster.add_server(start=False, **_wrong_clock(shift)) for shift in ("+1h", "-1h")]
    for process in servers:
        process.start()
    first = {name: send(scene, 0, "POST", "", {"name": name, "every": "1s", "task": TASK})["next_at"] for name in NAMES}
    eventually(lambda: _runs(scene) >= 6, seconds=20, what="the first runs")
    for _ in range(2):
        killed = _kill_at_an_instant(scene)
        seen = _runs(scene)
        eventually(lambda killed=killed: ticking(scene) not in ([], [killed]), seconds=20, what="the other ticks")
        eventually(lambda seen=seen: _runs(scene) >= seen + 6, seconds=20, what="runs after the kill")
        scene.cluster.servers[killed].start()
    for name in NAMES:
        send(scene, 0, "POST", f"/{name}/pause")

    for name in NAMES:
        rows = scene.query(
            """select occurrences.instant, occurrences.tasks, occurrences.reason, occurrences.at, schedules.next_at,
                    array(select id from tasks where schedule = schedules.id and scheduled_for = instant) as made
                from schedules join occurrences on occurrences.schedule = schedules.id
                where schedules.name = $1 order by instant""",
            name,
        )
        instants = [row["instant"] for row in rows]
        start = datetime.fromisoformat(first[name])
        assert instants == [start + SECOND * number for number in range(len(rows))]
        assert rows[-1]["instant"] + SECOND == rows[-1]["next_at"]
        assert all(row["tasks"] == row["made"] and len(row["made"]) == 1 for row in rows)
        assert all(row["at"] >= row["instant"] for row in rows), "nothing happened before its time"
    total = scene.query("select count(*) from tasks where schedule is not null")[0]["count"]
    assert total == _runs(scene)
