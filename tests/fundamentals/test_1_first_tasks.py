"""Lesson 1: submit a command or a script, wait for it, read its output and how it ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from rota import Client, TaskFailed

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_a_command_runs_and_its_output_is_kept(client: Client) -> None:
    handle = client.submit(["echo", "hello"], memory="128M")
    assert handle.wait(timeout=30).state == "done"
    assert handle.log() == "hello\n"


def test_run_streams_the_output_and_exits_with_the_tasks_own_code(rota: Rota) -> None:
    ran = rota("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "out\n", "err\n")


def test_submit_prints_the_id_and_show_tells_the_rest(rota: Rota) -> None:
    number = rota("submit", "--name", "greeting", "--", "echo", "hi").stdout.strip()
    assert rota("wait", number).returncode == 0
    document = json.loads(rota("show", number, "-o", "json").stdout)
    assert (document["id"], document["name"], document["status"]) == (int(number), "greeting", "done")
    assert rota("logs", number).stdout == "hi\n"


def test_a_script_runs_by_its_shebang(client: Client) -> None:
    handle = client.submit(script="#!/usr/bin/env python3\nprint(6 * 7)\n")
    handle.wait(timeout=30)
    assert handle.log() == "42\n"


def test_a_task_that_fails_says_how(client: Client) -> None:
    handle = client.submit(["sh", "-c", "exit 3"])
    with pytest.raises(TaskFailed, match="exited with code 3") as failed:
        handle.result(timeout=30)
    assert failed.value.exit_code == 3


def test_a_program_that_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(TaskFailed, match="/no/such/program"):
        client.submit(["/no/such/program"]).result(timeout=30)


def test_a_task_that_runs_longer_than_its_cap_is_stopped(client: Client) -> None:
    document = client.submit(["sleep", "60"], cap="300ms").wait(timeout=30)
    assert (document.state, document.outcome) == ("failed", "timeout")
    assert document.reason is not None
    assert "longer than its cap" in document.reason


def test_every_attempt_knows_its_task_and_its_key(client: Client) -> None:
    handle = client.submit(
        ["sh", "-c", "echo $ROTA_TASK_ID $ROTA_ATTEMPT $ROTA_IDEMPOTENCY_KEY"], idempotency_key="order-7"
    )
    handle.wait(timeout=30)
    assert handle.log() == f"{handle.id} 1 order-7\n"


def test_a_delayed_task_waits_for_its_time(client: Client) -> None:
    handle = client.submit(["true"], delay="700ms")
    assert handle.state == "delayed"
    document = handle.wait(timeout=30)
    assert document.started_at is not None
    assert (document.started_at - document.created_at).total_seconds() >= 0.7
