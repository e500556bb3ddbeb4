"""Stages: a retry resumes at the stage that failed; a bad stage is reported with its line."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import msgspec
import pytest
from tests.journeys.checkpoints.conftest import PATIENCE_SECONDS

from rota.client._sync.client import Client
from rota.client.manifest.load import ManifestError, load_manifest
from rota.client.manifest.scripts import stages_script
from rota.model.stage import StageDone


def manifest(meet: Path, *, resume: bool) -> str:
    stages = [
        {"name": "fetch", "command": ["sh", "-c", f"echo 'fetch $HOME' >> {meet}/ran; echo data > $ROTA_CHECKPOINT/d"]},
        {"name": "train", "script": f"#!/usr/bin/env python3\nopen('{meet}/ran', 'a').write('train\\n')\n"},
        {
            "name": "publish",
            "script": f"echo publish >> {meet}/ran\n[ -e {meet}/tried ] || {{ touch {meet}/tried; false; }}\n"
            "cat $ROTA_CHECKPOINT/d\necho 'not reached if that failed'\n",
        },
    ]
    return msgspec.json.encode({"stages": stages, "resume": resume, "attempts": 2, "backoff": 0.01}).decode()


@pytest.mark.parametrize(
    ("resume", "ran"),
    [
        (True, ["fetch $HOME", "train", "publish", "publish"]),
        (False, ["fetch $HOME", "train", "publish"] * 2),
    ],
)
def test_a_retry_goes_on_at_the_stage_that_failed_if_it_may(
    client: Client, tmp_path: Path, resume: bool, ran: list[str]
) -> None:
    (handle,) = client.submit_manifest(manifest(tmp_path, resume=resume)).values()
    assert handle.wait(PATIENCE_SECONDS).state == "done", handle.log()
    assert (tmp_path / "ran").read_text().splitlines() == ran
    finished = [line for line in handle.log(attempt=1).splitlines() if " done after " in line]
    assert [line.partition(" done after ")[0] for line in finished] == [
        "rota: stage 1/3 fetch",
        "rota: stage 2/3 train",
    ]
    assert "rota: stage 3/3 publish failed; it ended with 1\n" in handle.log(attempt=1)
    events = client.events(types=["stage-done"], task=handle.id, since="1h", follow=False)
    told = [(event.attempt, event.stage) for event in events]
    again = [] if resume else [(2, "fetch", 1), (2, "train", 2)]
    expected = [(1, "fetch", 1), (1, "train", 2), *again, (2, "publish", 3)]
    assert told == [(attempt, StageDone(name=name, number=number, count=3)) for attempt, name, number in expected]
    assert ("rota: stage 2/3 train was done before\n" in handle.log(attempt=2)) == resume
    assert "data\nnot reached if that failed\n" in handle.log(attempt=2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"stages": []}', "a task has 1 to 100 stages, not 0"),
        ('{"stages": [{"name": "a b", "script": "x"}]}', "'a b' is not a stage's name"),
        ('{"stages": [{"name": "a", "script": "x"}, {"name": "a", "script": "y"}]}', "two stages are called a"),
        ('{"stages": [{"name": "a"}]}', "stage a needs exactly one of command and script"),
        ('{"stages": [{"name": "a", "command": []}]}', "stage a: the program is missing"),
        ('{"stages": [{"name": "a", "script": " "}]}', "stage a: the script is empty"),
        ('{"stages": [{"script": "x"}]}', "name"),
        ('{"command": ["x"], "resume": true}', "resume is allowed only with stages"),
        ('{"command": ["x"], "stages": [{"name": "a", "script": "x"}]}', "command and stages are given"),
    ],
)
def test_what_is_wrong_with_stages_is_named(text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        load_manifest(text)


def test_the_time_of_a_stage_is_not_measured_by_the_date(tmp_path: Path) -> None:
    """A stage that began in one second of the clock and ended in the next took no second."""
    checkpoint, dates = tmp_path / "checkpoint", tmp_path / "bin"
    dates.mkdir()
    (dates / "date").write_text("#!/bin/sh\necho x >> $COUNT; wc -l < $COUNT\n")
    (dates / "date").chmod(0o700)
    script = stages_script([{"name": "quick", "command": ["true"]}], resume=False)
    assert script is not None
    environment = {
        "PATH": f"{dates}:{os.environ['PATH']}", "COUNT": str(tmp_path / "count"), "ROTA_CHECKPOINT": str(checkpoint),
        "ROTA_PROGRESS": str(tmp_path / "progress"),
    }  # fmt: skip
    saves = threading.Thread(target=_take_saves, args=(checkpoint,))
    saves.start()
    began = time.monotonic()
    ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, timeout=60)
    took = time.monotonic() - began
    saves.join()
    (said,) = re.findall(rb"stage 1/1 quick done after ([0-9.]+) s\n", ran.stdout)
    assert 0 <= float(said) <= took


def _take_saves(checkpoint: Path) -> None:
    """As the agent does: the request is gone once the checkpoint is stored."""
    while not (checkpoint / ".save").exists():
        time.sleep(0.01)
    (checkpoint / ".save").unlink()
