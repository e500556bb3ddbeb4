"""Folders that are used again: only those that are just as they were made."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.execute.keeper.spare_folders import SpareFolders


@pytest.fixture
def spare_folders(tmp_path: Path) -> SpareFolders:
    (tmp_path / "spare").mkdir()
    return SpareFolders(str(tmp_path / "spare"))


def test_an_untouched_folder_is_used_again(spare_folders: SpareFolders, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    spare_folders.provide(str(first))
    inode = first.stat().st_ino
    assert spare_folders.take_back(str(first), script=False)
    assert not first.exists()
    spare_folders.provide(str(second))
    assert second.stat().st_ino == inode
    assert [path.name for path in second.iterdir()] == ["checkpoint"]


def test_a_script_is_gone_before_its_folder_comes_back(spare_folders: SpareFolders, tmp_path: Path) -> None:
    spare_folders.provide(str(tmp_path / "1"))
    (tmp_path / "1" / ".rota-script").write_text("echo")
    assert spare_folders.take_back(str(tmp_path / "1"), script=True)
    spare_folders.provide(str(tmp_path / "2"))
    assert [path.name for path in (tmp_path / "2").iterdir()] == ["checkpoint"]


def _remove_inner(folder: Path) -> None:
    (folder / "checkpoint").rmdir()


def _link_inner(folder: Path) -> None:
    (folder / "checkpoint").rmdir()
    (folder / "checkpoint").symlink_to("/var/empty")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda folder: (folder / "left").write_text("x"),
    "a checkpoint": lambda folder: (folder / "checkpoint" / "state").write_text("x"),
    "other rights": lambda folder: folder.chmod(0o777),
    "other rights inside": lambda folder: (folder / "checkpoint").chmod(0o500),
    "no folder inside": _remove_inner,
    "a link inside": _link_inner,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_folder_stays_where_it_is(
    spare_folders: SpareFolders, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = tmp_path / "1"
    spare_folders.provide(str(folder))
    change(folder)
    assert not spare_folders.take_back(str(folder), script=False)
    assert folder.exists()


def test_a_folder_that_is_gone_is_not_taken_back(spare_folders: SpareFolders, tmp_path: Path) -> None:
    assert not spare_folders.take_back(str(tmp_path / "1"), script=False)


def test_only_some_lie_about(spare_folders: SpareFolders, tmp_path: Path) -> None:
    for number in range(70):
        spare_folders.provide(str(tmp_path / str(number)))
    taken = [spare_folders.take_back(str(tmp_path / str(number)), script=False) for number in range(70)]
    assert (taken.count(True), taken[-1]) == (64, False)
    assert len(os.listdir(tmp_path / "spare")) == 64


def test_spare_folders_that_somebody_removed_are_not_missed(spare_folders: SpareFolders, tmp_path: Path) -> None:
    for number in (1, 2):
        spare_folders.provide(str(tmp_path / str(number)))
    assert spare_folders.take_back(str(tmp_path / "1"), script=False)
    shutil.rmtree(tmp_path / "spare")
    spare_folders.provide(str(tmp_path / "3"))
    assert [path.name for path in (tmp_path / "3").iterdir()] == ["checkpoint"]
    assert not spare_folders.take_back(str(tmp_path / "2"), script=False)
    assert (tmp_path / "2").exists()


def test_a_strangers_folder_goes_to_the_next_stranger_and_to_nobody_else(
    spare_folders: SpareFolders, tmp_path: Path
) -> None:
    first, second, third = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    spare_folders.provide(str(first), 2_000_000_001)
    inode = first.stat().st_ino
    assert spare_folders.take_back(str(first), script=False, owner=2_000_000_001)
    spare_folders.provide(str(second))
    assert second.stat().st_ino != inode
    spare_folders.provide(str(third), 2_000_000_002)
    assert third.stat().st_ino == inode
    assert [third.stat().st_uid, (third / "checkpoint").stat().st_gid] == [2_000_000_002, 2_000_000_002]


@pytest.mark.parametrize("place", [".", "checkpoint"])
def test_a_folder_on_which_a_stranger_left_attributes_does_not_come_back(
    spare_folders: SpareFolders, tmp_path: Path, place: str
) -> None:
    spare_folders.provide(str(tmp_path / "1"), 2_000_000_001)
    # An access-control list that gives one more user every right to files made in the folder later.
    entries = [(1, 7, -1), (2, 7, 2_000_000_001), (4, 0, -1), (16, 7, -1), (32, 0, -1)]
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(tmp_path / "1" / place, "system.posix_acl_default", rights)
    assert not spare_folders.take_back(str(tmp_path / "1"), script=False, owner=2_000_000_001)


def test_a_folder_that_belongs_to_another_does_not_come_back(spare_folders: SpareFolders, tmp_path: Path) -> None:
    spare_folders.provide(str(tmp_path / "1"), 2_000_000_001)
    assert not spare_folders.take_back(str(tmp_path / "1"), script=False, owner=2_000_000_002)
    assert not spare_folders.take_back(str(tmp_path / "1"), script=False)
