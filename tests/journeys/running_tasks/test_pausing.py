"""Pausing and resuming a task: by command line and client, waiting or running, through any server node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.journeys.running_tasks.conftest import eventually

from rota.client._sync.client import Client
from rota.client.errors import NotFound, Refused

Rota = Callable[..., CompletedProcess[str]]


def test_a_running_task_stops_uses_up_no_attempt_and_goes_on_when_told(
    client: Client, rota: Rota, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    script = f"echo start >> {said}; trap 'echo saved >> {said}; exit 0' TERM; while :; do sleep 0.05; done"
    handle = client.submit(["sh", "-c", f"[ -e {tmp_path}/go ] || {{ {script}; }}"], attempts=1, cap="1h")
    eventually(lambda: said.exists() and handle.state == "running")
    answered = rota("pause", str(handle.id), server=1)
    assert answered.stdout == f"task {handle.id} is asked to save and stop\n", answered.stderr
    eventually(lambda: handle.state == "paused")
    assert said.read_text() == "start\nsaved\n"
    why = handle.why()
    assert (why.reason, why.sentence) == ("paused", f"paused by its owner; rota resume {handle.id} lets it go on")
    assert str(handle.id) in rota("list", "--state", "paused").stdout
    (attempt,) = handle.attempts()
    assert attempt.outcome == "disrupted"
    assert handle.pause().state == "paused"
    (tmp_path / "go").touch()
    assert handle.resume().state in ("ready", "running", "done"), "it goes on, and may be quick"
    assert handle.wait(30).state == "done"


def test_a_waiting_task_does_not_start_before_it_is_resumed(client: Client, rota: Rota) -> None:
    handle = client.submit(["true"], delay="1h")
    assert handle.pause().state == "paused"
    assert rota("resume", str(handle.id), server=1).stdout == f"task {handle.id} is delayed\n"
    parent = client.submit(["true"], delay="500ms")
    child = client.submit(["true"], after=[parent.id])
    assert child.pause().state == "paused"
    assert parent.wait(30).state == "done"
    assert child.state == "paused"
    child.resume()
    assert child.wait(30).state == "done"
    with pytest.raises(Refused, match=f"task {child.id} has ended already: it is done"):
        child.pause()
    with pytest.raises(NotFound):
        client.handle(10**12).resume()
    handle.cancel()
