"""Polls the checkpoint folders of running processes for requests to save them now.

A task asks by making the file `.save` in the folder. The file is removed when the checkpoint is durable; if it could
not be stored, it is renamed `.save-failed`, and the task's output says why. A line in the file may report a finished
stage, which becomes an event before the file is removed. One save of an attempt at a time. The folder is the task's: it
is opened without following links, and a request is known by its inode, so that one made during a save is not taken for
the saved one.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from rota.execute.attempts.attempt import Attempt
from rota.execute.files.checkpoint import Checkpoints
from rota.execute.files.checkpoint_tar import FAILED_NAME, SAVE_NAME
from rota.execute.linux import work_folder
from rota.model.stage import LONGEST_LINE_BYTES, StageDone, stage_of

POLL_SECONDS = 0.25


class CheckpointWatch:
    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        folders: Callable[[], list[tuple[Attempt, str]]],
        tell: Callable[[Attempt, str], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._folders = folders
        self._tell = tell
        self._under_way: dict[Attempt, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.poll()

    async def poll(self) -> None:
        folders = [(attempt, folder) for attempt, folder in self._folders() if attempt not in self._under_way]
        if not folders:
            return
        save_requests = await asyncio.to_thread(lambda: [find(folder) for _, folder in folders])
        alive = {attempt for attempt, _ in self._folders()}
        for (attempt, folder), save_request in zip(folders, save_requests, strict=True):
            if save_request is not None and attempt in alive:
                self._under_way[attempt] = asyncio.create_task(
                    self._obey(attempt, folder, save_request), name="save a checkpoint"
                )

    async def end(self, attempt: Attempt) -> None:
        """Its process has ended: nothing of this attempt is read once this returns."""
        saving = self._under_way.get(attempt)
        if saving is not None:
            saving.cancel()
            await asyncio.wait({saving})

    async def _obey(self, attempt: Attempt, folder: str, save_request: SaveRequest) -> None:
        try:
            is_stored = await self._checkpoints.save(attempt, folder, lambda sentence: self._tell(attempt, sentence))
            if save_request.stage is not None:
                await self._checkpoints.tell_stage(
                    attempt, save_request.stage, lambda sentence: self._tell(attempt, sentence)
                )
            await asyncio.to_thread(answer, folder, save_request, is_stored=is_stored)
        finally:
            del self._under_way[attempt]


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SaveRequest:
    inode: int
    changed_ns: int
    stage: StageDone | None = field(default=None, compare=False)


def find(folder: str) -> SaveRequest | None:
    """The request in an attempt's folder, if there is one. Blocks: call it in a thread."""
    inner = _open_checkpoint(folder)
    if inner is None:
        return None
    try:
        return _read(inner)
    finally:
        os.close(inner)


def answer(folder: str, save_request: SaveRequest, *, is_stored: bool) -> None:
    """Removes or renames the request that was handled; a newer one is left alone. Blocks: call it in a thread."""
    inner = _open_checkpoint(folder)
    if inner is None:
        return
    try:
        if _read(inner) != save_request:
            return
        if is_stored:
            os.unlink(SAVE_NAME, dir_fd=inner)
        else:
            os.rename(SAVE_NAME, FAILED_NAME, src_dir_fd=inner, dst_dir_fd=inner)
    except OSError as error:
        log.info("checkpoint.request_left", error=str(error))  # the task removed it, or made its folder unwritable
    finally:
        os.close(inner)


def _read(inner: int) -> SaveRequest | None:
    try:
        save_request = os.open(
            SAVE_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=inner
        )
    except OSError:
        return None
    try:
        facts = os.fstat(save_request)
        if not stat.S_ISREG(facts.st_mode):
            return None
        return SaveRequest(facts.st_ino, facts.st_ctime_ns, stage_of(os.read(save_request, LONGEST_LINE_BYTES)))
    except OSError:
        return None
    finally:
        os.close(save_request)


def _open_checkpoint(folder: str) -> int | None:
    try:
        return os.open(work_folder.checkpoint_of(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
