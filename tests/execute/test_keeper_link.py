"""The agent's link to its keeper: nothing runs without one, so a keeper that can't start is started again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from rota.execute.keeper.setup import KeeperOptions
from rota.execute.keeper_link import KeeperLink


async def test_a_keeper_that_dies_while_it_is_replaced_is_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = KeeperLink(work=tmp_path, options=KeeperOptions(use_cgroups=False))
    await link.start()
    first = link._process
    assert first is not None
    start, tries, running = link.start, 0, asyncio.Event()

    async def start_at_the_third_try() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("killed before it was ready")
        await start()
        running.set()

    monkeypatch.setattr(link, "start", start_at_the_third_try)
    os.kill(first.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        await running.wait()
    assert tries == 3
    assert link._process is not None
    assert link._process is not first
    assert link._process.poll() is None
    await link.close()


async def test_an_agent_that_ends_while_its_keeper_is_replaced_does_not_wait_for_ever(tmp_path: Path) -> None:
    link = KeeperLink(work=tmp_path, options=KeeperOptions(use_cgroups=False))
    await link.start()
    first = link._process
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while link._process is first:
            await asyncio.sleep(0)
        await link.close()  # the new one is being started and is not ready
    assert link._process is not None
    assert link._process.poll() is not None
