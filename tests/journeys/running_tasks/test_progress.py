"""Progress, from the running task to the client."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.journeys.running_tasks.conftest import eventually

from rota.client._sync.client import Client
from rota.client._sync.handle import TaskHandle
from rota.client.transport.log_reader import LogProgress
from rota.execute.messages import progress_board
from rota.execute.processes import task_files
from rota.model.answers.tasks import ProgressDocument
from rota.model.progress import MOST_CHARACTERS, Progress, progress_of


def said(handle: TaskHandle) -> tuple[float | None, str]:
    progress: ProgressDocument = eventually(lambda: handle.document().progress)
    return progress.fraction, progress.message


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (b"0.4 epoch 4/10", Progress(0.4, "epoch 4/10")),
        (b"40% epoch 4/10\r", Progress(0.4, "epoch 4/10")),
        (b"4/10 epochs", Progress(0.4, "epochs")),
        (b"1", Progress(1.0, "")),
        (b'{"fraction": 0.4, "message": "epoch"}', Progress(0.4, "epoch")),
        (b'{"message": "warming up"}', Progress(None, "warming up")),
        (b"0.5 \x1b[2Jgone\x00\xff", Progress(0.5, "\ufffd[2Jgone\ufffd\ufffd")),
        (b"0.5 " + b"x" * 1000, Progress(0.5, "x" * MOST_CHARACTERS)),
    ],
)
def test_lines_that_say_how_far_it_is(line: bytes, meant: Progress) -> None:
    assert progress_of(line) == meant


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nearly",
        b"7 of 10",
        b"-0.5",
        b"1e999",
        b"nan",
        b"140%",
        b"3/0",
        b"{",
        b'{"fraction": 7}',
        b"[" * 5000,
        b'{"a":' * 5000,
        b'{"fraction": "0.4"}',
        b"\xff\xfe",
    ],
)
def test_lines_that_say_nothing(line: bytes) -> None:
    assert progress_of(line) is None


def test_a_progress_file_is_read_from_its_end_and_never_through_a_link(tmp_path: Path) -> None:
    file = tmp_path / task_files.PROGRESS_NAME
    assert task_files.read_progress(str(tmp_path)) is None
    file.write_bytes(b"0.1 first\n" * 10_000 + b"0.4 last\nnot a number\n0.99 half wri")
    assert task_files.read_progress(str(tmp_path)) == Progress(0.4, "last")
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert task_files.read_progress(str(tmp_path)) is None
    file.unlink()
    os.link(tmp_path / "elsewhere", file)
    assert task_files.read_progress(str(tmp_path)) is None
    file.unlink()
    os.mkfifo(file)
    assert task_files.read_progress(str(tmp_path)) is None


def test_a_board_is_believed_only_when_it_is_whole_and_of_this_call() -> None:
    descriptor = progress_board.make()
    try:
        assert progress_board.read(descriptor, 1) is None
        progress_board.write(descriptor, 1, Progress(0.4, "x" * 5000))
        assert progress_board.read(descriptor, 1) == Progress(0.4, "x" * MOST_CHARACTERS)
        assert progress_board.read(descriptor, 2) is None
        os.pwrite(descriptor, b"\xff" * 100, 20)
        assert progress_board.read(descriptor, 1) is None
        os.ftruncate(descriptor, 3)
        assert progress_board.read(descriptor, 1) is None
    finally:
        os.close(descriptor)


def test_clients_see_how_far_a_function_and_a_script_are(
    client: Client, rota: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    function = client.submit(function="talking_tasks:report", args=[0.4, "epoch 4/10", str(gate)])
    text = f'echo "0.25 one of four" >> "$ROTA_PROGRESS"; while [ ! -e {gate} ]; do sleep 0.05; done'
    script = client.submit(["sh", "-c", text])
    quiet = client.submit(["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done"])
    try:
        assert said(function) == (0.4, "epoch 4/10")
        assert said(script) == (0.25, "one of four")
        assert quiet.document().progress is None
        shown = rota("show", str(function.id)).stdout
        assert "████████░░░░░░░░░░░░ 40% epoch 4/10" in shown
        listed = {line.split()[0]: line for line in rota("list", "--state", "running").stdout.splitlines()}
        assert "PROGRESS" in listed["ID"]
        assert "25%" in listed[str(script.id)]
        followed = next(item for item in client.follow(script.id, progress=True) if isinstance(item, LogProgress))
        assert followed == LogProgress(0.25, "one of four")
    finally:
        gate.touch()
    assert function.result(30) == "reported"
    assert script.wait(30).state == "done"
    assert script.document().progress is None


def test_a_function_that_asks_is_tried_again(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = client.submit(function="talking_tasks:second_time", args=[str(gate)], attempts=2)
    eventually(lambda: handle.document().attempt == 2 and handle.state == "running")
    gate.touch()
    assert handle.result(30) == 2
    first = handle.attempts()[0]
    assert first.outcome == "retry"
    assert first.failure is not None
    assert first.failure.message == "asked to be tried again in 0s: the till is closed"
