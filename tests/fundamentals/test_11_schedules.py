"""Lesson 11: schedules. Every instant of a schedule's rule becomes one run, or one skip with its reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from rota import Client
from rota.model.answers.schedules import OccurrenceDocument

Rota = Callable[..., CompletedProcess[str]]


def runs_of(client: Client, name: str, amount: int) -> list[OccurrenceDocument]:
    """The first runs of a schedule, oldest first, as soon as there are so many."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        page = client.schedules.history(name)
        if len(page.occurrences) >= amount:
            return list(reversed(page.occurrences))[:amount]
        time.sleep(0.1)
    raise AssertionError(f"{name} has not run {amount} times")


def test_a_command_runs_every_second_and_knows_its_interval(client: Client, rota: Rota) -> None:
    script = 'echo "$ROTA_SCHEDULED_FOR $ROTA_INTERVAL_START $ROTA_INTERVAL_END"'
    added = rota("schedule", "add", "lesson", "--every", "1s", "--max-runs", "2", "--", "sh", "-c", script)
    assert (added.returncode, added.stderr) == (0, "")
    first, second = runs_of(client, "lesson", 2)
    assert first.tasks is not None
    assert second.tasks is not None
    lines = []
    for run in (first, second):
        handle = client.handle((run.tasks or [])[0])
        document = handle.wait(timeout=30)
        assert (document.state, document.schedule, document.scheduled_for) == ("done", "lesson", run.instant)
        lines.append(handle.log().split())
    assert lines[1][1] == lines[0][2]  # it begins where the one before ended
    shown = json.loads(rota("schedule", "show", "lesson", "-o", "json").stdout)
    assert (shown["state"], shown["runs"]) == ("ended", 2)
    assert rota("schedule", "remove", "lesson").returncode == 0


def test_a_function_finds_its_instant_in_its_context(client: Client) -> None:
    client.schedules.add("nightly", function="sample_tasks:told", daily="02:30", zone="Europe/Berlin")
    run = client.schedules.run_now("nightly")
    assert run.tasks is not None
    context, environment, start = client.handle(run.tasks[0]).result(timeout=30)
    assert context == environment.replace("Z", "+00:00") == run.instant.isoformat()
    assert start < environment
    client.schedules.remove("nightly")


def test_a_graph_is_one_run(client: Client, rota: Rota) -> None:
    client.schedules.add(
        "etl",
        cron="0 3 * * *",
        tasks=[{"command": ["true"], "ref": "extract"}, {"command": ["true"], "ref": "load", "after": ["extract"]}],
    )
    run = client.schedules.run_now("etl")
    extract, load = run.tasks or []
    assert run.graph is not None
    assert client.graphs.wait(run.graph, timeout=30).status == "done"
    assert client.get(load).after == [extract]
    assert "of schedule etl" in rota("graph", "show", str(run.graph)).stdout
    client.schedules.remove("etl")


def test_a_file_says_what_and_when(client: Client, rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text(
        "name: told\nschedule: {every: PT1S, max_runs: 1}\ntasks:\n  a: {command: [printenv, ROTA_SCHEDULED_FOR]}\n"
    )
    added = rota("submit", "-f", str(file))
    assert (added.returncode, added.stderr) == (0, "")
    (run,) = runs_of(client, "told", 1)
    assert run.graph is not None
    assert client.graphs.wait(run.graph, timeout=30).status == "done"
    assert client.handle((run.tasks or [])[0]).log().strip() == run.instant.isoformat().replace("+00:00", "Z")
    client.schedules.remove("told")


def test_a_script_that_is_here_is_sent_once_and_kept_for_its_runs(client: Client, rota: Rota, tmp_path: Path) -> None:
    script = tmp_path / "hello.sh"
    script.write_text("#!/bin/sh\necho hello from $ROTA_SCHEDULED_FOR\n")
    assert rota("schedule", "add", "sent", "--daily", "02:30", "--upload", str(script)).returncode == 0
    script.unlink()
    run = client.schedules.run_now("sent")
    handle = client.handle((run.tasks or [])[0])
    assert handle.wait(timeout=30).state == "done"
    assert handle.log().startswith("hello from 20")
    (kept,) = client.schedules.get("sent").artifacts
    refused = rota("artifact", "remove", kept)
    assert (refused.returncode, "schedule sent names it" in refused.stderr) == (4, True)
    client.schedules.remove("sent")
    assert rota("artifact", "remove", kept).returncode == 0
