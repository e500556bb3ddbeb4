"""The file by which a task asks for its checkpoint folder to be stored now, and how it is answered.

A line in it may tell of a stage that is finished. The folder is the task's: it is opened without following links, and
a wish is an inode, so that one made while another was obeyed is not taken for it. Blocks: call it in a thread.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field

import structlog

from rota.execute.files.checkpoint_tar import FAILED_NAME, SAVE_NAME
from rota.execute.linux import work_folder
from rota.model.stage import LONGEST_LINE_BYTES, StageDone, stage_of

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SaveRequest:
    inode: int
    changed_ns: int
    stage: StageDone | None = field(default=None, compare=False)


def find(folder: str) -> SaveRequest | None:
    """The wish in an attempt's folder, if there is one."""
    inner = _open(folder)
    if inner is None:
        return None
    try:
        return _look(inner)
    finally:
        os.close(inner)


def answer(folder: str, save_request: SaveRequest, *, is_stored: bool) -> None:
    """Removes the wish that was obeyed, or says by its name that it could not be; one made since is left alone."""
    inner = _open(folder)
    if inner is None:
        return
    try:
        if _look(inner) != save_request:
            return
        if is_stored:
            os.unlink(SAVE_NAME, dir_fd=inner)
        else:
            os.rename(SAVE_NAME, FAILED_NAME, src_dir_fd=inner, dst_dir_fd=inner)
    except OSError as error:
        log.info("checkpoint.wish_left", error=str(error))  # the task removed it, or made its folder unwritable
    finally:
        os.close(inner)


def _look(inner: int) -> SaveRequest | None:
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


def _open(folder: str) -> int | None:
    try:
        return os.open(work_folder.checkpoint_of(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
