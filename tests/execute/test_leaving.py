"""Workers that end by themselves, after one task or without work; never with an unsettled result."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rota import wire
from rota.execute.agent import AgentOptions, run_agent
from rota.execute.keeper_link import KeeperFacts
from rota.execute.leaving import Stay
from rota.execute.processes import engine
from rota.model.attempt import Outcome
from rota.model.node import Closed
from tests.execute.stub_server import PATIENCE_SECONDS, TOKEN, StartAgent, StubServer, shell

MakeOptions = Callable[..., AgentOptions]


async def test_a_worker_that_works_once_takes_one_task_gives_the_others_back_and_ends_when_it_is_settled(
    server: StubServer, tmp_path: Path
) -> None:
    server.settle = False
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rota.cli",
        "worker",
        "--once",
        "--server",
        server.url,
        "--data",
        str(tmp_path / "data"),
        "--engine",
        "none",
        "--capacity",
        "cpu=2",
        env={**os.environ, "ROTA_TOKEN": TOKEN},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await server.start(shell(1, "exit 3"), shell(2, "true"))
        await server.until(lambda: (2, 1) in server.recalled)
        assert (await server.result(1)).exit_code == 3
        assert server.heartbeats[-1].closed_for is Closed.LEAVING  # so that the leader sends no more
        await server.start(shell(3, "true"))
        await server.until(lambda: (3, 1) in server.recalled)
        assert worker.returncode is None  # its result is not settled
        await server.send(wire.Settled(attempts=[(1, 1)]))
        assert await asyncio.wait_for(worker.wait(), PATIENCE_SECONDS) == 0
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    assert [result.task for result in server.results] == [1]


async def test_a_worker_with_nothing_to_do_ends_but_not_while_it_works(
    server: StubServer, make_options: MakeOptions
) -> None:
    options = make_options(stay=Stay(idle_seconds=1.0))
    running = asyncio.create_task(run_agent(options, asyncio.Event()))
    await server.start(shell(1, "sleep 1.5"))
    assert (await server.result(1)).outcome is Outcome.OK
    await asyncio.wait_for(running, PATIENCE_SECONDS)
    assert server.heartbeats[-1].closed_for is Closed.LEAVING


async def test_a_worker_that_is_told_to_stop_says_goodbye_and_waits_until_it_was_heard(
    server: StubServer, make_options: MakeOptions
) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(run_agent(make_options(), stop))
    await server.until(lambda: server.heartbeats)
    assert server.heartbeats[-1].closed_for is None
    stop.set()
    await asyncio.wait_for(running, PATIENCE_SECONDS)
    assert server.heartbeats[-1].closed_for is Closed.LEAVING


async def test_a_worker_that_is_told_to_stop_does_not_wait_long_for_a_leader_that_hears_nothing(
    server: StubServer, make_options: MakeOptions
) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(run_agent(make_options(), stop))
    await server.until(lambda: server.heartbeats)
    server.acknowledge = False
    stop.set()
    await asyncio.wait_for(running, PATIENCE_SECONDS)


async def test_what_was_taken_back_before_it_began_was_not_the_one_task(
    server: StubServer, make_options: MakeOptions
) -> None:
    running = asyncio.create_task(run_agent(make_options(stay=Stay(once=True)), asyncio.Event()))
    await server.send(wire.Drain(epoch=server.epoch))
    await server.start(shell(1, "true"))
    await server.until(lambda: (1, 1) in server.recalled)
    await server.send(wire.Drain(epoch=server.epoch, is_over=True))
    await server.start(shell(2, "true"))
    assert (await server.result(2)).outcome is Outcome.OK
    await asyncio.wait_for(running, PATIENCE_SECONDS)


async def test_a_worker_that_no_leader_speaks_to_has_nothing_to_do(
    server: StubServer, make_options: MakeOptions
) -> None:
    server.has_leader = False
    stay = Stay(idle_seconds=1.0)
    await asyncio.wait_for(run_agent(make_options(stay=stay), asyncio.Event()), PATIENCE_SECONDS)
    assert server.lookups


async def test_a_worker_that_servers_refuse_does_not_end_as_if_there_were_nothing_to_do(
    server: StubServer, tmp_path: Path
) -> None:
    server.refusal = "there is no such pool: nope"
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rota.cli",
        "worker",
        "--idle-exit",
        "1s",
        "--pool",
        "nope",
        "--server",
        server.url,
        "--data",
        str(tmp_path / "data"),
        "--engine",
        "none",
        "--no-sandbox",
        env={**os.environ, "ROTA_TOKEN": TOKEN},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(worker.communicate(), PATIENCE_SECONDS)
    assert worker.returncode == 1
    last = json.loads(said.splitlines()[-1])
    assert (last["event"], last["exit_code"]) == ("process.failed", 1)
    assert "it got no work, because it was refused: there is no such pool: nope" in last["reason"]


async def test_a_stopped_agent_kills_a_task_that_does_not_end_within_its_time_and_reports_it(
    server: StubServer, agent: StartAgent
) -> None:
    async with agent(stop_seconds=1.0, kill_grace_seconds=30.0):
        await server.start(shell(1, 'trap "" TERM; echo on; while :; do sleep 0.05; done'))
        await server.until(lambda: server.output(1) == b"on\n")
        began = time.monotonic()
    assert time.monotonic() - began < 5.0  # without the rest of the grace
    assert (await server.result(1)).outcome is Outcome.DISRUPTED


async def test_what_an_engine_leaves_behind_ends_with_the_agent(
    server: StubServer, agent: StartAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman without root keeps its namespaces alive by a process that outlives it."""
    left = _fake_podman(tmp_path, monkeypatch)
    async with agent(engine="podman"):
        process = left.read_text().strip()
        assert _runs(process)
    assert not _runs(process)


async def test_podman_is_not_even_called_if_its_containers_could_not_be_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = _fake_podman(tmp_path, monkeypatch)
    link = SimpleNamespace(facts=KeeperFacts())  # without control groups
    found, why = await engine.find("podman", link, tmp_path / "work")  # type: ignore[arg-type]
    assert found is None
    assert "control groups" in why
    assert not left.exists()


def _runs(process: str) -> bool:
    """A process that has ended and that nobody has waited for has no command line."""
    command = Path("/proc", process, "cmdline")
    return command.exists() and command.read_bytes() != b""


def _fake_podman(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the number of the process that it leaves behind."""
    programs, left = folder / "programs", folder / "left"
    programs.mkdir()
    (programs / "podman").write_text(f"#!/bin/sh\nsetsid sleep 1000 >/dev/null 2>&1 &\necho $! > {left}\nexit 1\n")
    (programs / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return left
