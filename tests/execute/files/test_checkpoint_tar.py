"""A checkpoint folder as a tar: everything plain comes back, nothing else goes in, and nothing escapes."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.execute.files.checkpoint_tar import BadCheckpoint, Packed, pack, unpack

MANY = 10**9


def test_what_is_packed_comes_back_and_packs_the_same(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "deep" / "er").mkdir(parents=True)
    (before / "empty").mkdir()
    (before / "deep" / "er" / "weights").write_bytes(os.urandom(100_000))
    (before / "run.sh").write_text("#!/bin/sh\n")
    (before / "run.sh").chmod(0o750)
    (before / "é\udcff").write_text("a name that is no text")
    (before / ".save").touch()
    (before / "link").symlink_to("/etc/passwd")
    (before / "again").hardlink_to(before / "run.sh")
    os.mkfifo(before / "pipe")
    after.mkdir()
    first = io.BytesIO()
    # The two names of run.sh are left out as well: nobody can tell whose file it is.
    assert pack(str(before), first, limit_bytes=MANY) == Packed(entries=5, left_out=4)
    first.seek(0)
    unpack(first, str(after), None, limit_bytes=MANY)
    assert sorted(os.listdir(after)) == sorted(["deep", "empty", "é\udcff"])
    assert (after / "deep/er/weights").read_bytes() == (before / "deep/er/weights").read_bytes()
    second = io.BytesIO()
    pack(str(after), second, limit_bytes=MANY)
    assert second.getvalue() == first.getvalue()


def test_too_much_too_deep_and_a_folder_that_is_a_link_are_not_packed(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1001)
    with pytest.raises(BadCheckpoint, match="larger than 1000 bytes"):
        pack(str(tmp_path), io.BytesIO(), limit_bytes=1000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(BadCheckpoint, match="its folder is no longer a folder"):
        pack(str(tmp_path / "link"), io.BytesIO(), limit_bytes=MANY)
    assert pack(str(tmp_path / "gone"), io.BytesIO(), limit_bytes=MANY) == Packed(0, 0)
    os.makedirs(tmp_path / "folder" / "/".join("d" * 70))
    with pytest.raises(BadCheckpoint, match="more than 64 deep"):
        pack(str(tmp_path / "folder"), io.BytesIO(), limit_bytes=MANY)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        one = tarfile.TarInfo(name)
        one.type, one.linkname = kind, link
        tar.addfile(one)
    return made.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        lambda: member("../escaped"),
        lambda: member("/escaped"),
        lambda: member("a//b"),
        lambda: member("escaped", tarfile.SYMTYPE, "/etc/passwd"),
        lambda: member("escaped", tarfile.LNKTYPE, "other"),
        lambda: member("escaped", tarfile.FIFOTYPE),
        lambda: member("missing/escaped"),
        lambda: b"x" * 2000,
        lambda: member("whole")[:100],
    ],
)
def test_nothing_but_what_packing_makes_is_unpacked(tmp_path: Path, content: Callable[[], bytes]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(BadCheckpoint):
        unpack(io.BytesIO(content()), str(folder), None, limit_bytes=MANY)
    assert os.listdir(folder) == []
    assert os.listdir(tmp_path) == ["folder"]
