"""The examples, run as their first lines say. The training one has a test of its own, beside checkpoints."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster

from rota.client._sync.client import Client

EXAMPLES = Path(__file__).parents[3] / "examples"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path) -> Run:
    environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return run


def test_a_nightly_backup_is_scheduled_and_tried_at_once(run: Run, trusted: Client, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/letter").write_text("dear friend")
    ran = run(str(EXAMPLES / "backup/schedule.py"), str(tmp_path / "kept"))
    assert (ran.returncode, ran.stderr) == (0, "")
    name, artifact = ran.stdout.split()[-2:]
    with tarfile.open(fileobj=io.BytesIO(trusted.artifacts.read(artifact))) as archive:
        letter = archive.extractfile("./letter")
        assert letter is not None
        assert letter.read() == b"dear friend"
    kept = trusted.schedules.get("nightly-backup")
    assert (kept.state, kept.zone, kept.missed, kept.overlap) == ("active", "Europe/Berlin", "once", "skip")
    instant = trusted.schedules.history("nightly-backup").occurrences[0].instant
    assert name.startswith(f"backup-{instant:%Y-%m-%dT%H%M%S}")
    trusted.schedules.remove("nightly-backup")


def test_pictures_are_made_small_one_task_each(run: Run, tmp_path: Path) -> None:
    for number in range(3):
        pixels = bytes((x + y + number) % 256 for y in range(16) for x in range(24) for _ in range(3))
        (tmp_path / f"{number}.ppm").write_bytes(b"P6\n24 16\n255\n" + pixels)
    (tmp_path / "no-picture.ppm").write_bytes(b"P3\n1 1\n255\n0 0 0\n")
    ran = run(str(EXAMPLES / "images/resize.py"), "small", "0.ppm", "1.ppm", "2.ppm", "no-picture.ppm")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "0.ppm: done\n1.ppm: done\n2.ppm: done\nno-picture.ppm: failed\n"
    small = (tmp_path / "small/2.ppm").read_bytes()
    assert small.startswith(b"P6\n6 4\n255\n")
    assert small[11:] == bytes((x + y + 2) % 256 for y in range(0, 16, 4) for x in range(0, 24, 4) for _ in range(3))
    assert not (tmp_path / "small/no-picture.ppm").exists()


def test_the_graph_of_a_day_is_extracted_cleaned_counted_loaded_and_reported(run: Run) -> None:
    day = ["--set", "DAY=2030-01-31"]
    ran = run("-m", "rota.cli", "submit", "-f", str(EXAMPLES / "etl/rota.yaml"), *day, "--wait")
    assert ran.returncode == 0, ran
    reports = run("-m", "rota.cli", "list", "--limit", "1")
    assert "report" in reports.stdout
    number = reports.stdout.splitlines()[1].split()[0]
    assert run("-m", "rota.cli", "logs", number).stdout == "the day is 2030-01-31\n"
