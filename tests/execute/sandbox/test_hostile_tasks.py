"""Hostile tasks in real sandboxes, run by a real agent: whatever they try fails or is contained, and nobody is harmed.

The probes are in `probes.py`. They run side by side on one agent, with a harmless task that works all the while; a
probe that succeeds is reported by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota import wire
from rota.execute.linux import cgroups
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.sandbox.probes import EPILOGUE, PRELUDE, QUIET, VIOLENT
from tests.execute.stub_server import StartAgent, StubServer, command, processes_with, run_of

MIB = 1024 * 1024
CAPACITY = Resources(cpu_milli=16_000, memory_bytes=8 * 2**30, disk_bytes=8 * 2**30)
GRANT = Resources(cpu_milli=2_000, memory_bytes=96 * MIB, disk_bytes=32 * MIB)
NEIGHBOUR = 1
PYTHON = ["/usr/bin/python3", "-I", "-S"]
TICKS = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.05)\n"

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the probes name system calls by number")


def confined(task: int, text: str, *args: str, processes: int = 40, cap_ms: int = 60_000, **spec: object) -> wire.Run:
    what: dict[str, object] = {
        "script": text,
        "interpreter": PYTHON,
        "args": list(args),
        "isolation": "sandbox",
        "processes": processes,
    }
    return run_of(task, Kind.SCRIPT, what | spec, cap_ms=cap_ms)


@contextlib.contextmanager
def things_to_find(tmp_path: Path) -> Iterator[dict[str, object]]:
    """Listeners and files outside, as facts for the probes."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "kept").write_text("kept")
    abstract = f"rota-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        for address in (f"\0{abstract}", str(tmp_path / "socket")):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        os.chmod(tmp_path / "socket", 0o777)
        yield {
            "port": listener.getsockname()[1],
            "abstract": abstract,
            "socket": str(tmp_path / "socket"),
            "precious": str(precious),
            "data": str(tmp_path / "data"),
            "installed": [str(Path(rota.__file__).parents[2]), sys.prefix],
            "agent": os.getpid(),
            "tmp_bytes": GRANT.memory_bytes // 2,
        }


async def until_ticking(server: StubServer) -> None:
    seen = len(server.chunks)
    await server.until(lambda: any(chunk.task == NEIGHBOUR for chunk in server.chunks[seen:]))


def keeper_of(data: Path) -> int:
    mark = f"ROTA_WORKDIR={data}/work/keeper".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{name}/environ").read_bytes():
                return int(name)
    raise AssertionError("there is no keeper")


async def test_no_probe_finds_a_way_out(
    agent: StartAgent, server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = secrets.token_hex(16)
    monkeypatch.setenv("ROTA_TOKEN", canary)
    monkeypatch.setenv("DATABASE_PASSWORD", canary)
    server.log_limit_bytes = 64 * MIB
    with things_to_find(tmp_path) as facts:
        async with agent(capacity=CAPACITY):
            assert "sandbox" in server.hellos[0].capabilities
            await server.start(confined(NEIGHBOUR, TICKS), grant=GRANT)
            await until_ticking(server)
            neighbour = next(iter(processes_with("/task/.rota-script")))
            keeper = keeper_of(tmp_path / "data")
            told = json.dumps(facts | {"canary": canary, "keeper": keeper, "neighbour": neighbour})
            tasks = dict(enumerate(QUIET, start=10))
            runs = [confined(task, PRELUDE + QUIET[name] + EPILOGUE, told) for task, name in tasks.items()]
            await server.start(*runs, grant=GRANT)
            gave_way = {}
            for task, name in tasks.items():
                result = await server.result(task)
                output = server.output(task).decode()
                if (result.outcome, output) != (Outcome.OK, "end\n"):
                    gave_way[name] = (result.failure, output[-2000:])
            await until_ticking(server)
            await server.start(command(9, "echo", "still here"))
            await server.result(9)
            await server.stop(NEIGHBOUR)
            assert (await server.result(NEIGHBOUR)).outcome is Outcome.CANCELLED
            assert os.listdir(tmp_path / "data" / "work") == []
    assert gave_way == {}
    assert (tmp_path / "precious" / "kept").read_text() == "kept"
    assert server.output(9) == b"still here\n"
    exercised("sandbox")


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["cgroups", "no cgroups"])
async def test_what_takes_too_much_is_ended_by_the_limit_it_went_over_and_neighbours_work_on(
    agent: StartAgent, server: StubServer, tmp_path: Path, use_cgroups: bool
) -> None:
    """F27, F28 and the disk: each is ended whole, with its reason, and leaves nothing (I22)."""
    async with agent(capacity=CAPACITY, use_cgroups=use_cgroups):
        await server.start(confined(NEIGHBOUR, TICKS), grant=GRANT)
        await until_ticking(server)
        tasks = dict(enumerate(VIOLENT, start=10))
        runs = [confined(task, f"{PRELUDE}{VIOLENT[name][1]}", "{}") for task, name in tasks.items()]
        await server.start(*runs, grant=GRANT)
        ended = {}
        for task, name in tasks.items():
            result = await server.result(task)
            ended[name] = result.failure.type if result.failure else server.output(task).decode()[-500:]
            if result.failure and result.failure.type == "pids-limit":
                assert result.failure.message.startswith("went over its processes: 40 granted"), (
                    "as many as were asked for"
                )
        await until_ticking(server)
        groups = [folder for parent in cgroups.existing_parents(tmp_path / "data") for folder in os.listdir(parent)]
        alone = {"unit-2"} if use_cgroups else set()
        assert {name for name in groups if name.startswith("unit-")} == alone, "the neighbour's alone"
        assert os.listdir(tmp_path / "data" / "work") == [f"{NEIGHBOUR}-1"]
        assert server.results_of(NEIGHBOUR) == []
    assert ended == {name: limit for name, (limit, _) in VIOLENT.items()}
    exercised("limit-disk")
    if use_cgroups:
        exercised("limit-memory", "limit-pids")
