"""A restored checkpoint folder holds the checkpoint and nothing else, whatever was there before."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any, cast

import pytest

from rota.execute.attempts.attempt import Attempt
from rota.execute.files import checkpoint_tar
from rota.execute.files.checkpoint import Checkpoints
from rota.execute.files.transfer import Owner, Transfers
from rota.execute.linux import work_folder
from rota.model.answers.workers import StoredObject
from rota.model.artifact import RESERVED_NAMES, Purpose
from rota.model.resources import Resources
from tests.execute.stub_server import shell


class Shelf:
    """Keeps one checkpoint, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def stored(self, owner: Owner, purpose: Purpose) -> list[StoredObject]:
        digest = hashlib.sha256(self._data).hexdigest()
        return [StoredObject(id=1, attempt=1, purpose=purpose, name="a", sha256=digest, size_bytes=len(self._data))]

    async def fetch_object(self, owner: Owner, stored: StoredObject, descriptor: int) -> None:
        os.write(descriptor, self._data)


def _packed(folder: Path) -> bytes:
    made = io.BytesIO()
    checkpoint_tar.pack(str(folder), made, limit_bytes=10**6)
    return made.getvalue()


@pytest.mark.parametrize("before", ["the same file", "another file", "no folder at all", "a file", "nothing"])
async def test_a_restored_folder_holds_what_was_kept_and_nothing_else(tmp_path: Path, before: str) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_text("kept")
    inner = Path(work_folder.checkpoint_of(str(tmp_path)))
    if before == "a file":
        inner.write_text("brought along")
    elif before != "no folder at all":
        inner.mkdir()
    if before in ("the same file", "another file"):
        (inner / ("x" if before == "the same file" else "y")).write_text("brought along")
    told: list[str] = []
    checkpoints = Checkpoints(transfers=cast(Transfers, cast(Any, Shelf(_packed(kept)))), scratch=str(tmp_path))
    await checkpoints.restore(Attempt(shell(1, ":"), b"", Resources()), str(tmp_path), None, told.append)
    assert ({one.name: one.read_text() for one in inner.iterdir()}, told) == ({"x": "kept"}, [])


def test_the_names_that_may_not_be_brought_along_are_those_that_are_used() -> None:
    assert work_folder.CHECKPOINT_NAME in RESERVED_NAMES
    assert work_folder.SCRIPT_NAME.startswith(RESERVED_NAMES[1].rstrip("*"))
