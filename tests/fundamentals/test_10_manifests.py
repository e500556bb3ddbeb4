"""Lesson 10: a task or a whole graph as a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from rota import Client, ManifestRefused
from tests.harness.cluster import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_a_file_describes_one_task_and_runs(rota: Rota) -> None:
    ran = rota("run", "-f", str(EXAMPLES / "single" / "rota.yaml"))
    assert (ran.returncode, ran.stdout.split()) == (0, ["counting", "words", "for", "you", "3"])


def test_a_file_describes_a_graph_that_runs_in_order(client: Client, rota: Rota) -> None:
    file, day = str(EXAMPLES / "etl" / "rota.yaml"), "DAY=2030-01-31"
    assert rota("validate", "-f", file, "--set", day, "--server").returncode == 0
    ran = rota("submit", "-f", file, "--set", day, "--wait", "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    ids = json.loads(ran.stdout)["tasks"]
    assert list(ids) == ["extract", "clean", "count", "load", "report"]
    assert client.get(ids["load"]).after == [ids["clean"], ids["count"]]
    assert client.get(ids["load"]).tags == {"graph": "etl"}
    assert client.handle(ids["count"]).log() == "counting the rows of 2030-01-31\n"
    assert client.handle(ids["extract"]).log() == "extracting 2030-01-31\n"


def test_a_program_submits_the_same_file(client: Client) -> None:
    tasks = client.submit_manifest(EXAMPLES / "etl" / "rota.yaml", {"DAY": "today"})
    assert tasks["report"].wait(timeout=60).state == "done"
    assert tasks["report"].log() == "the day is today\n"


def test_what_only_the_server_knows_is_named_in_the_file_too(client: Client) -> None:
    with pytest.raises(ManifestRefused, match=r"^manifest:3:27: tasks\.b\.lane: there is no lane 'fast'; there are "):
        client.submit_manifest("tasks:\n  a: {command: [x]}\n  b: {command: [x], lane: fast}\n")


def test_editors_get_the_schema_without_a_key(cluster: Cluster, rota: Rota) -> None:
    answer = httpx.get(f"{cluster.urls[0]}/v1/schemas/rota.yaml.json", trust_env=False)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/schema+json")
    assert answer.text == rota("validate", "--schema").stdout
