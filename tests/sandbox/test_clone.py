"""A process is born in its group, and where there is no such birth it is forked as ever and enters by itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rota.execute import cgroups, clone, controllers


def _group_of(process: int) -> str:
    return controllers.own_groups(Path(f"/proc/{process}/cgroup").read_text())[""]


def _wait_and_end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_the_child_is_in_the_group_from_its_first_moment(tmp_path: Path) -> None:
    mounted, _ = controllers.mounts_of(Path("/proc/self/mountinfo").read_text())
    assert mounted is not None, "this machine has no v2 tree"
    folder = Path(mounted) / f"rota-test-{os.getpid()}"
    folder.mkdir()
    try:
        process, is_inside = clone.fork_into(str(folder))
        if process == 0:
            signal.pause()
            os._exit(0)
        try:
            assert is_inside
            assert os.path.basename(_group_of(process)) == folder.name
            assert os.path.basename(_group_of(os.getpid())) != folder.name
        finally:
            _wait_and_end(process)
    finally:
        assert cgroups.remove(str(folder))


def test_without_a_group_it_is_an_ordinary_fork() -> None:
    process, is_inside = clone.fork_into(None)
    if process == 0:
        os._exit(7)
    assert not is_inside
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7


def test_a_kernel_that_knows_no_such_birth_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clone, "_SYS_CLONE3", 9_999)  # what a system-call filter answers to what it does not know
    process, is_inside = clone.fork_into(str(tmp_path))
    if process == 0:
        os._exit(7)
    assert not is_inside
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7


def test_a_folder_that_is_no_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        clone.fork_into(str(tmp_path))
