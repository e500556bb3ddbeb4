"""The embedded PostgreSQL: comes back with everything it had, however it or its parent ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from rota.store.embedded import EmbeddedPostgres

PARENT = """
import sys, time
from pathlib import Path
from rota.store.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "postgres"
    EmbeddedPostgres(tmp_path / "postgres")._stop_leftover()


async def test_it_survives_kill_9_of_its_postmaster(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    await _write(server.start(), 1)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert server._process is not None
    server._process.wait()
    again = EmbeddedPostgres(folder)
    await _write(again.start(), 2)
    assert await _read(again.url) == [1, 2]
    again.stop()


async def test_it_stops_cleanly_when_its_parent_is_killed_and_the_next_one_finds_everything(folder: Path) -> None:
    parent, postmaster = _start_in_another_process(folder)
    await _write(EmbeddedPostgres(folder).url, 1)
    _kill_and_wait_for_its_child(parent, postmaster)
    assert not (folder / "data" / "postmaster.pid").exists(), "it shut down in order"
    again = EmbeddedPostgres(folder)
    assert await _read(again.start()) == [1]
    again.stop()


async def test_a_second_start_on_the_same_folder_takes_over_from_the_first(folder: Path) -> None:
    first = EmbeddedPostgres(folder)
    await _write(first.start(), 1)
    second = EmbeddedPostgres(folder)
    assert await _read(second.start()) == [1]
    assert first.poll() == 0
    second.stop()


def test_it_listens_on_a_socket_nobody_else_can_reach_and_on_no_port(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    server.start()
    assert server.socket.stat().st_mode & 0o077 == 0
    assert server.pid is not None
    listening = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=False).stdout
    assert f"pid={server.pid}," not in listening
    server.stop()
    assert server.poll() is None


async def _write(url: str, number: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create table if not exists kept (number integer)")
    await connection.execute("insert into kept values ($1)", number)
    await connection.close()


async def _read(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return [row["number"] for row in await connection.fetch("select number from kept order by 1")]
    finally:
        await connection.close()


def _start_in_another_process(folder: Path) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def _kill_and_wait_for_its_child(parent: subprocess.Popen[str], child: int) -> None:
    watch = os.pidfd_open(child)
    parent.kill()
    parent.communicate()
    poll = select.poll()
    poll.register(watch, select.POLLIN)  # a pidfd becomes readable when its process has ended
    assert poll.poll(30_000), "PostgreSQL outlived its parent"
    os.close(watch)
