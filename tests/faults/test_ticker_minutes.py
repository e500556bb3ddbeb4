"""The long run of I15–I17: whoever ticks is killed within 50 ms of real minutes, while schedules of every minute come due.

Nothing is faked here: real minutes, real servers, the database's own clock. Ten kills take a little over ten minutes;
ROTA_SOAK_MINUTES says how many there are.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta

import pytest

from tests.faults.scene import Scene, eventually
from tests.faults.test_ticker_faults import send, ticking

pytestmark = pytest.mark.long

MINUTE = timedelta(minutes=1)
OFFSETS = (0.0, -0.05, 0.05, -0.02, 0.02, -0.005, 0.005, 0.01, -0.01, 0.035)  # seconds from the minute
TASK = {"command": ["true"], "unplaceable": "wait"}
GRAPH = [{**TASK, "ref": "a"}, {**TASK, "ref": "b", "after": ["a"]}]
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")


def _kill_at_a_minute(scene: Scene, offset: float) -> int:
    """SIGKILL for whoever ticks, so far from the next minute of the database's clock; its number."""
    (victim,) = eventually(lambda: ticking(scene), seconds=30, what="somebody ticks")
    ahead = scene.query("select 60 - extract(epoch from clock_timestamp()) % 60 as seconds")[0]["seconds"]
    deadline = time.monotonic() + float(ahead) + offset
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(max(0.0, left - 0.01) if left > 0.01 else 0)  # the last hundredth is spent awake
    if ticking(scene) != [victim]:
        victim = eventually(lambda: ticking(scene), seconds=30, what="somebody ticks")[0]
    scene.cluster.servers[victim].kill()
    return victim


@pytest.mark.timeout(3_600)
def test_no_minute_is_lost_or_doubled_when_the_ticker_dies_right_then(scene: Scene) -> None:
    for process in [scene.cluster.add_server(start=False) for _ in range(2)]:
        process.start()
    added = {f"one-{number}": {"task": TASK, "zone": zone} for number, zone in enumerate(ZONES)}
    added |= {"graph": {"tasks": GRAPH}, "elapsed": {"task": TASK}, "missed": {"task": TASK, "missed": "all"}}
    first: dict[str, datetime] = {}
    for name, work in added.items():
        rule = {"every": "PT1M"} if name == "elapsed" else {"cron": "* * * * *"}
        first[name] = datetime.fromisoformat(send(scene, 0, "POST", "", {"name": name, **rule, **work})["next_at"])
    kills = int(os.environ.get("ROTA_SOAK_MINUTES", "10"))
    for offset in (OFFSETS * kills)[:kills]:
        killed = _kill_at_a_minute(scene, offset)
        eventually(lambda killed=killed: ticking(scene) not in ([], [killed]), seconds=30, what="the other ticks")
        scene.cluster.servers[killed].start()

    last = max(first.values()) + (kills - 1) * MINUTE
    eventually(
        lambda: scene.query("select min(next_at) > $1 as passed from schedules", last)[0]["passed"],
        seconds=90, what="everything up to the last kill is done",
    )  # fmt: skip
    for name in added:
        send(scene, 0, "POST", f"/{name}/pause")
    for name, start in first.items():
        rows = scene.query(
            """select instant, until, reason, graph, tasks, schedules.next_at,
                    array(select id from tasks where schedule = schedules.id and scheduled_for = instant order by id) as made
                from schedules join occurrences on occurrences.schedule = schedules.id
                where schedules.name = $1 order by instant""",
            name,
        )
        assert [row["instant"] for row in rows] == [start + number * MINUTE for number in range(len(rows))], name
        assert len(rows) >= kills
        assert rows[-1]["instant"] + MINUTE == rows[-1]["next_at"]
        for row in rows:
            assert row["reason"] or row["tasks"] == row["made"], (name, row)
            assert row["reason"] or len(row["made"]) == (2 if name == "graph" else 1), (name, row)
            assert (row["graph"] is not None) == (name == "graph" and not row["reason"]), (name, row)
    made = scene.query("select count(*) from tasks where schedule is not null")[0]["count"]
    named = scene.query("select coalesce(sum(cardinality(tasks)), 0) as named from occurrences")[0]["named"]
    assert made == named
