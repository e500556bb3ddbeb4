"""Files that a call leaves in its warm process are gone before the next call, and so is the disk space they take."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rota import wire
from rota.execute.child.leftover_files import LeftoverFiles
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, run_of

SOURCE = """
    import os
    life = os.urandom(8).hex()
    folders = sorted({os.environ["HOME"], os.environ["TMPDIR"]})
    there = [name for folder in folders for name in os.listdir(folder)]
    for folder in folders: open(folder + "/of-the-module", "w").close()

    def leave(count):
        for folder in folders:
            os.makedirs(folder + "/deep/er")
            os.symlink("/", folder + "/link")
            for number in range(count): open(f"{folder}/deep/er/{number}", "w").close()
        return look()
    def look():  # in a sandbox there may be mounts below /tmp
        return [life, sorted({name for folder in folders for name in os.listdir(folder)} - set(there))]
    async def leave_later(count): return leave(count)
    async def look_later(): return look()
"""


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
@pytest.mark.parametrize("suffix", ["", "_later"])
async def test_files_a_call_leaves_are_gone_before_the_next_and_the_process_stays_unless_they_are_many(
    agent: StartAgent,
    server: StubServer,
    tasks_module: Callable[[str], str],
    tmp_path: Path,
    isolation: str,
    suffix: str,
) -> None:
    tmp_path.chmod(0o755)  # a sandboxed function has a user number of its own
    module = tasks_module(SOURCE)
    tasks = iter(range(1, 100))

    def run(name: str, *args: object) -> wire.Run:
        spec: dict[str, object] = {"function": f"{module}:{name}{suffix}", "args": list(args), "isolation": isolation}
        return run_of(next(tasks), Kind.FUNCTION, spec, name="of one name")

    async def ask(name: str, *args: object) -> tuple[str, list[str]]:
        call = run(name, *args)
        await server.start(call, grant=Resources(cpu_milli=2000))
        result = await server.result(call.task)
        assert result.outcome is Outcome.OK, result.failure
        life, names = json.loads(result.result or b"")
        return life, names

    async with agent():
        await ask("look")  # where it is async, the next ones share a process
        first, left = await ask("leave", 1)
        assert left == ["deep", "link", "of-the-module"]
        assert await ask("look") == (first, ["of-the-module"])
        assert (await ask("leave", 2_000))[0] == first
        assert (await ask("look"))[0] != first


def test_what_is_put_into_a_folder_again_within_one_tick_of_the_disks_clock_is_seen(tmp_path: Path) -> None:
    leftover_files = LeftoverFiles([str(tmp_path)])
    assert not leftover_files.is_left()
    for _ in range(100):
        (tmp_path / "file").touch()
        assert leftover_files.is_left()
        assert leftover_files.clear()
        assert not leftover_files.is_left()
    assert os.listdir(tmp_path) == []
