"""Lesson 12: graphs. Tasks that refer to each other by name, run in order, and are shown and changed as one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota import Client, Graph, Refused, TaskFailed
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_a_graph_runs_in_the_order_its_arrows_say(client: Client) -> None:
    with Graph("etl", client) as graph:
        extract = graph.task(["true"], name="extract")
        clean = graph.task(["true"], name="clean", after=extract)
        report = graph.task(["true"], name="report")
        extract >> report
        [clean, report] >> graph.task(["true"], name="load")
    done = graph.wait(timeout=60)
    assert (done.status, done.counts["done"]) == ("done", 4)
    times = {task.name: task for task in done.tasks}
    assert all(times["load"].started_at >= times[name].ended_at for name in ("clean", "report"))  # type: ignore[operator]
    assert [step.name for step in done.critical_path][0::2] == ["extract", "load"]
    assert {task.name for task in client.graphs.get(graph.id, ancestors_of="report").tasks} == {"extract"}


def test_an_error_inside_the_block_submits_nothing(client: Client) -> None:
    before = [one.id for one in client.graphs.list(name="never").graphs]
    with pytest.raises(ZeroDivisionError), Graph("never", client) as graph:
        graph.task(["true"])
        1 / 0  # noqa: B018
    assert [one.id for one in client.graphs.list(name="never").graphs] == before


def test_a_cycle_is_refused_with_its_path(client: Client) -> None:
    with pytest.raises(Refused, match=r"wait for each other: a → b → a|b → a → b"), Graph("circle", client) as graph:
        first = graph.task(["true"], name="a")
        second = graph.task(["true"], name="b", after=first)
        second >> first


def test_what_failed_is_run_again_with_all_that_was_skipped(client: Client, tmp_path: Path) -> None:
    door = tmp_path / "door"
    with Graph("retried", client) as graph:
        first = graph.task(["true"], name="first")
        gate = graph.task(["test", "-e", str(door)], name="gate", after=first)
        graph.task(["true"], name="behind", after=gate)
        graph.task(["true"], name="alarm", after_failed=gate)
        graph.task(["true"], name="tidy", after_end=gate)
    failed = graph.wait(timeout=60)
    assert failed.status == "failed"
    assert {task.name: task.state for task in failed.tasks} == {
        "first": "done",
        "gate": "failed",
        "behind": "skipped",
        "alarm": "done",
        "tidy": "done",
    }
    with pytest.raises(TaskFailed):
        gate.result()
    door.touch()
    assert set(client.graphs.retry(graph.id).tasks) == {"gate", "behind"}
    done = graph.wait(timeout=60)
    assert (done.status, done.size, done.counts["done"]) == ("done", 5, 5)
    with pytest.raises(Refused, match="no task of graph"):
        client.graphs.retry(graph.id)
    again = client.graphs.rerun(graph.id)
    after = client.graphs.wait(again.id, timeout=60)
    assert (after.rerun_of, after.status) == (graph.id, "done")
    assert {task.name: task.state for task in after.tasks}["alarm"] == "skipped"


def test_what_a_running_task_submits_joins_its_graph(client: Client, cluster: Cluster) -> None:
    where = [cluster.urls[0], cluster.tokens.admin]
    with Graph("growing", client) as graph:
        parent = graph.task(function="sample_tasks:submit_children", args=[3, *where], name="parent")
    done = graph.wait(timeout=60)
    assert (done.status, done.size) == ("done", 4)
    assert {task.parent for task in done.tasks} == {None, parent.id}


def test_a_task_that_is_given_a_key_submits_as_anybody_does(client: Client, cluster: Cluster) -> None:
    client.secrets.set("ROTA_TOKEN", cluster.tokens.admin)
    given: dict[str, Any] = {"env": {"ROTA_SERVER": cluster.urls[0]}, "secrets": ["ROTA_TOKEN"], "isolation": "none"}
    with Graph("given", client) as graph:
        shell = graph.task(
            [sys.executable, "-m", "rota.cli", "submit", "--name", "kid", "--", "true"], name="shell", **given
        )
        function = graph.task(function="sample_tasks:submit_one", **given)
    done = graph.wait(timeout=60)
    assert (done.status, sorted(task.name for task in done.tasks)) == ("done", ["kid", "kid", "shell", "submit_one"])
    assert {task.parent for task in done.tasks} == {None, shell.id, function.id}
    client.secrets.remove("ROTA_TOKEN")


def test_a_manifest_with_tasks_is_a_graph(client: Client, rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("tasks:\n  a:\n    command: ['true']\n  b:\n    command: ['true']\n    after: [a]\n")
    submitted = rota("submit", "-f", str(file), "--wait")
    assert submitted.returncode == 0
    number = submitted.stdout.split()[1]
    shown = rota("graph", "show", number)
    assert "nightly" in shown.stdout
    assert "✔ a" in shown.stdout
    assert client.graphs.get(int(number)).name == "nightly"


def test_an_array_gives_each_task_its_index_and_is_waited_for_as_one(
    client: Client, rota: Rota, tmp_path: Path
) -> None:
    script = f"touch {tmp_path}/$ROTA_INDEX"
    number = rota("submit", "--name", "marks", "--array", "3-6%2", "--", "sh", "-c", script).stdout.strip()
    assert rota("wait", number, "--timeout", "60").returncode == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3", "4", "5", "6"]
    [line] = [line for line in rota("list", "--name", "marks").stdout.splitlines() if "marks" in line]
    assert line.split()[0] == number
    assert "██████████ 4/4" in line
    assert "marks[3]" in rota("show", number).stdout
    assert rota("cancel", number).returncode == 4


def test_a_function_is_mapped_over_items(client: Client) -> None:
    array = client.map("sample_tasks:noop", [5, 7, 9], at_once=2)
    assert array.results(timeout=60) == [5, 7, 9]
    assert array.wait().counts["done"] == 3


def test_an_array_of_which_one_failed_is_waited_for_with_an_exit_code(rota: Rota) -> None:
    ran = rota("submit", "--array", "0-2", "--wait", "--", "sh", "-c", '[ "$ROTA_INDEX" != 1 ]')
    number = ran.stdout.strip()
    assert (ran.returncode, ran.stderr) == (1, f"rota: array {number}: 2 of 3 are done (rota show {number})\n")
    assert rota("run", "--array", "0-2", "--", "true").returncode == 2
