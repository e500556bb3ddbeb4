"""Lists of tasks through the API and the command line, on a real cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from rota import Graph
from rota.client._sync.client import Client
from rota.client.errors import Refused
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_filters_choose_tasks(client: Client) -> None:
    one = client.submit(["true"], name="listed-one", tags={"list": "yes"})
    other = client.submit(["sh", "-c", "exit 1"], name="listed-two", tags={"list": "yes"})
    waits = client.submit(["true"], name="listed-three", delay="1d", tags={"list": "yes"})
    node = one.wait(30).node
    other.wait(30)

    def ids(**save_request: str) -> list[int]:
        return [task.id for task in client.list(tag=("list", "yes"), **save_request)]

    assert ids() == [waits.id, other.id, one.id]
    assert ids(state="failed") == [other.id]
    assert ids(status="waiting") == [waits.id]
    assert ids(name="listed-one") == [one.id]
    assert node is not None
    assert ids(worker=node) == [other.id, one.id]
    assert ids(worker="nowhere") == []
    assert ids(since="1h") == [waits.id, other.id, one.id]
    assert ids(until="1h") == []
    assert ids(user="nobody") == []
    waits.cancel()


def test_every_way_to_a_task_keeps_its_tags(client: Client) -> None:
    def ids() -> set[int]:
        return {task.id for task in client.list(tag=("every", "way"))}

    one = client.submit(["false"], tags={"every": "way", "other": "tag"})
    made = {one.id}
    one.wait(30)
    made.add(one.retry().id)
    client.schedules.add("tagged", daily="03:00", command=["true"], tags={"every": "way"})
    made |= set(client.schedules.run_now("tagged").tasks)
    client.schedules.remove("tagged")
    with Graph("tagged", client=client) as graph:
        graph.task(["true"], name="only", tags={"every": "way"})
    graph.wait(30)
    again = client.graphs.rerun(graph.id)
    made |= {task.id for number in (graph.id, again.id) for task in client.graphs.get(number).tasks}
    assert len(made) == 5
    assert ids() == made
    assert [task.id for task in client.list(tag=("other", "tag"), name="nobody")] == []


def test_runs_of_a_schedule_are_listed(client: Client) -> None:
    client.schedules.add("listed", daily="03:00", command=["true"])
    run = client.schedules.run_now("listed")
    assert [task.id for task in client.list(schedule="listed")] == list(run.tasks)
    assert list(client.list(schedule="none")) == []
    client.schedules.remove("listed")


def test_other_tenants_are_for_administrators(cluster: Cluster, client: Client) -> None:
    with pytest.raises(Refused, match="no tenant"):
        client.list(tenant="nobody")
    own = client.me().tenant
    task = client.submit(["true"])
    assert client.list(tenant=own, limit=1).tasks[0].id == task.id


def test_the_command_line_lists_by_filters(client: Client, rota: Rota) -> None:
    task = client.submit(["true"], name="cli-listed")
    shown = rota("list", "--name", "cli-listed", "--since", "1h", "-o", "json")
    assert [one["id"] for one in json.loads(shown.stdout)["tasks"]] == [task.id]
    assert rota("list", "--since", "soon").returncode == 2
    assert "cli-listed" in rota("list", "--name", "cli-listed", "--watch").stdout  # into a pipe: once


def test_how_long_things_are_kept_is_shown_and_set(rota: Rota) -> None:
    assert "forever" in rota("retention", "show").stdout
    assert "90 days" in rota("retention", "set", "--tasks", "90").stdout
    assert json.loads(rota("retention", "set", "--tasks", "none", "-o", "json").stdout)["tasks_days"] is None
    assert rota("retention", "set", "--tasks", "0").returncode in (2, 4)
    assert rota("retention", "set").returncode == 2
