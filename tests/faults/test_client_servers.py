"""Clients that know two servers, one of which is killed or frozen in the middle of everything (F1)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota import AsyncClient, Client
from rota.client.transport.log_reader import LogChunk
from tests.faults.scene import Scene, eventually
from tests.harness.cluster import Process

UNTIL_TOLD = 'echo one; until [ -e "$0" ]; do sleep 0.05; done; echo two'


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("trouble", "longest_seconds"), [(Process.kill, 1.0), (Process.pause, 2.0)])
def test_a_server_that_dies_or_freezes_costs_its_clients_no_error(
    scene: Scene, tmp_path: Path, trouble: Callable[[Process], None], longest_seconds: float
) -> None:
    """Waits, a log, events, a command line and submissions go on at the other server, each submission once."""
    scene.start(servers=2, workers=1)
    other = 1 - scene.leader()  # the leader survives: its takeover is not what is measured
    servers = ",".join([scene.cluster.urls[other], scene.cluster.urls[1 - other]])
    token, told = scene.cluster.tokens.admin, tmp_path / "told"
    environment = {**os.environ, "ROTA_SERVER": servers, "ROTA_TOKEN": token}
    with Client(servers, token) as client:
        task = client.submit(["sh", "-c", UNTIL_TOLD, str(told)], name="long", cap="60s")
        heard = threading.Event()
        listening = threading.Event()
        output: list[bytes] = []
        types: list[str] = []

        def follow() -> None:
            for item in client.follow(task.id):
                if isinstance(item, LogChunk):
                    output.append(item.data)
                    heard.set()

        def listen() -> None:
            for event in client.events(task=task.id, since="1m"):
                types.append(event.type)
                listening.set()
                if event.type == "done":
                    return

        async def wait_async() -> str:
            async with AsyncClient(servers, token) as waiting:
                return (await waiting.handle(task.id).wait(timeout=50)).state

        submitted: list[int] = []
        delays: list[float] = []
        enough = threading.Event()

        def submit() -> None:
            while not enough.is_set():
                began = time.monotonic()
                submitted.append(client.submit(["true"], name="many").id)
                delays.append(time.monotonic() - began)

        with ThreadPoolExecutor(8) as threads:
            work = [threads.submit(follow), threads.submit(listen)]
            waits = [
                threads.submit(lambda: task.wait(timeout=50).state),
                threads.submit(asyncio.run, wait_async()),
                threads.submit(lambda: client.gather([task], timeout=50) and "done"),
            ]
            work += [threads.submit(submit) for _ in range(2)]
            shell = subprocess.Popen(
                [sys.executable, "-m", "rota.cli", "wait", str(task.id)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                assert heard.wait(20)
                assert listening.wait(20)
                eventually(lambda: len(submitted) > 20, seconds=20, what="submissions before the trouble")
                trouble(scene.cluster.servers[other])
                before = len(submitted)
                usual_seconds = max(delays)  # this machine may be busy
                eventually(lambda: len(submitted) > before + 20, seconds=20, what="submissions after the trouble")
                shown = subprocess.run(
                    [sys.executable, "-m", "rota.cli", "show", str(task.id)], env=environment, capture_output=True
                )
                assert shown.returncode == 0, shown.stderr
            finally:
                enough.set()
                told.touch()
            assert [one.result(40) for one in waits] == ["done"] * 3
            for one in work:
                one.result(40)
            out, err = shell.communicate(timeout=40)
    assert (shell.returncode, err) == (0, ""), out
    assert b"".join(output) == b"one\ntwo\n"
    assert len(types) == len(set(types)), f"an event came twice: {types}"
    assert types[-1] == "done"
    assert max(delays) < usual_seconds + longest_seconds, f"a submission took {max(delays):.2f} s"
    stored = [row["id"] for row in scene.query("select id from tasks where name = 'many'")]
    assert sorted(stored) == sorted(submitted), "each was stored once"
