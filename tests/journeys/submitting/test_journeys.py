"""Tasks that may submit, beside schedules, manifests and servers that die."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conftest import MODULES
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres
from tests.journeys.submitting.conftest import eventually

from rota import Client

Rota = Callable[..., subprocess.CompletedProcess[str]]
SUBMIT = f"{sys.executable} -m rota.cli submit"


def test_the_run_of_a_schedule_lasts_as_long_as_what_it_submitted(client: Client, rota: Rota) -> None:
    added = rota(
        "schedule", "add", "fans", "--daily", "03:00", "--may-submit", "--overlap", "skip",
        "--", "sh", "-c", f"{SUBMIT} --name late --in 1h -- true",
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    assert rota("schedule", "run-now", "fans").returncode == 0
    (graph,) = eventually(lambda: client.graphs.list(schedule="fans").graphs)
    whole = eventually(lambda: (found := client.graphs.get(graph.id)).size == 2 and found)
    eventually(lambda: client.get(whole.tasks[0].id).state == "done")
    skipped = rota("schedule", "run-now", "fans")
    assert "has not ended" in skipped.stdout + skipped.stderr
    client.graphs.cancel(graph.id)
    assert rota("schedule", "run-now", "fans").returncode == 0
    assert len(eventually(lambda: (found := client.graphs.list(schedule="fans").graphs)[1:] and found)) == 2
    assert rota("schedule", "remove", "fans").returncode == 0


def test_a_manifest_a_graph_and_an_array_take_the_option(client: Client, rota: Rota, tmp_path: Path) -> None:
    manifest = tmp_path / "rota.yaml"
    manifest.write_text(
        "name: grows\ntasks:\n"
        f"  seed: {{command: [sh, -c, '{SUBMIT} --name kid -- true'], may_submit: true}}\n"
        "  after: {command: ['true'], after: [seed]}\n"
    )
    submitted = rota("submit", "-f", str(manifest), "--wait")
    assert submitted.returncode == 0, submitted.stderr
    graph = client.graphs.wait(int(submitted.stdout.split()[1]), timeout=60)
    assert sorted((one.name, one.state) for one in graph.tasks) == [
        ("after", "done"),
        ("kid", "done"),
        ("seed", "done"),
    ]
    array = rota("submit", "--array", "0-1", "--may-submit", "--", "sh", "-c", f"{SUBMIT} --name kid -- true")
    waited = rota("wait", array.stdout.strip())
    assert (waited.returncode, waited.stdout.count("done")) == (0, 4), waited.stdout


def test_a_running_task_submits_while_the_servers_die_one_after_the_other(
    postgres: TestPostgres, tmp_path: Path
) -> None:
    """The key is good at every server node, for a leader that did not make it too; the next address is used."""
    with Cluster(postgres.create(), tmp_path / "cluster", time_scale=CALM, modules=MODULES) as cluster:
        cluster.add_server()
        cluster.add_server()
        cluster.add_worker()
        first, second = tmp_path / "first", tmp_path / "second"
        submit = f"{SUBMIT} --name"
        words = (
            f"{submit} one -- true; touch {tmp_path}/begun; while [ ! -e {first} ]; do sleep 0.05; done; "
            f"{submit} two -- true; touch {tmp_path}/between; while [ ! -e {second} ]; do sleep 0.05; done; "
            f"{submit} three -- true"
        )
        with Client(server=",".join(cluster.urls), token=cluster.tokens.admin) as client:
            plain = client.submit(["sh", "-c", words], may_submit=True, cap="10m")
            eventually((tmp_path / "begun").exists)
            cluster.servers[0].kill()
            first.touch()
            eventually((tmp_path / "between").exists)
            cluster.servers[0].start()
            cluster.servers[1].kill()
            second.touch()
            assert plain.wait(timeout=90).state == "done", plain.log()
            graph = client.graphs.get(plain.id)
            assert sorted(one.name for one in graph.tasks) == ["one", "sh", "three", "two"]
            assert client.get(plain.id).attempt == 1
