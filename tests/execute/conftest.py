"""An agent in this process (its keeper and children are real processes), and a stub server for it to talk
to.
"""

from __future__ import annotations

import asyncio
import contextlib
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rota.execute.agent import AgentOptions, run_agent
from tests.execute.containers.images import IMAGE, import_image, unpack_busybox
from tests.execute.stub_server import CAPACITY, TOKEN, StartAgent, StubServer


@pytest.fixture
async def server() -> AsyncIterator[StubServer]:
    async with StubServer() as server:
        yield server


@pytest.fixture
def make_options(tmp_path: Path, server: StubServer) -> Callable[..., AgentOptions]:
    def make(**changes: object) -> AgentOptions:
        values: dict[str, object] = {
            "servers": (server.url,),
            "token": TOKEN,
            "pool": "default",
            "name": "node-1",
            "data": tmp_path / "data",
            "capacity": CAPACITY,
            "kill_grace_seconds": 0.5,
            "stop_seconds": 4.0,
            "directory": tmp_path,
        }
        return AgentOptions(**{**values, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def agent(make_options: Callable[..., AgentOptions]) -> StartAgent:
    """`async with agent(): …` runs one until the end of the block, then stops it and waits for it.

    The event that it gives stops it, and is set when it has ended by itself.
    """

    @contextlib.asynccontextmanager
    async def start(**changes: object) -> AsyncIterator[asyncio.Event]:
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run_agent(make_options(**changes), stop, ready.set))
        running.add_done_callback(lambda _: stop.set())
        waiting = asyncio.create_task(ready.wait())
        done, _ = await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        waiting.cancel()
        if running in done:
            running.result()
        try:
            yield stop
        finally:
            stop.set()
            await running

    return start


@pytest.fixture
def tasks_module(tmp_path: Path) -> Callable[[str], str]:
    """Writes a module of functions where the agent's children find it; returns its name."""

    def write(source: str) -> str:
        (tmp_path / "worktasks.py").write_text(textwrap.dedent(source))
        return "worktasks"

    return write


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("busybox") / "root"
    unpack_busybox(root)
    return root


@pytest.fixture(scope="module")
def image(rootfs: Path) -> str:
    import_image(rootfs)
    return IMAGE
