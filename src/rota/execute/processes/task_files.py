"""The two files that a command or script writes: its progress (`ROTA_PROGRESS`) and its result (`ROTA_RESULT`).

Both lie in its work folder and are the task's to write, so they may be anything: a link to another file, a pipe that
never ends, gigabytes. They are opened without following links and without waiting; only plain files with one name are
read, and never more than a bounded piece.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from rota.model import strict_json
from rota.model.progress import Progress, progress_of

PROGRESS_NAME = ".rota-progress"
RESULT_NAME = ".rota-result"

_TAIL_BYTES = 4096
_LINES_TRIED = 8
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class BadResult(ValueError):
    """The file holds no result; the message says why. `slug` is the failure's type."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug


def environment(folder: str) -> dict[str, str]:
    return {"ROTA_PROGRESS": f"{folder}/{PROGRESS_NAME}", "ROTA_RESULT": f"{folder}/{RESULT_NAME}"}


def read_progress(folder: str) -> Progress | None:
    """The last line that holds progress; None without a file or such a line."""
    try:
        descriptor = _open(folder, PROGRESS_NAME)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    lines = data.split(b"\n")
    if size > _TAIL_BYTES:
        lines = lines[1:]  # cut in the middle
    if len(lines) > 1:
        lines = lines[:-1]  # after the last newline: nothing, or an unfinished line
    for line in reversed(lines[-_LINES_TRIED:]):
        progress = progress_of(line)
        if progress is not None:
            return progress
    return None


def read_result(folder: str, limit_bytes: int) -> bytes | None:
    """The result as compact JSON; None without one. Call it only when every process of the task is dead."""
    try:
        descriptor = _open(folder, RESULT_NAME)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise BadResult("bad-result", f"the file named by ROTA_RESULT can't be read: {why}") from None
    try:
        data = _read_at_most(descriptor, limit_bytes + 1)
    except OSError as error:
        raise BadResult("bad-result", f"the file named by ROTA_RESULT can't be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(data) > limit_bytes:
        raise BadResult(
            "result-too-large",
            f"the file named by ROTA_RESULT has more than {limit_bytes:,} bytes, the largest result",
        )
    if not data.strip():
        return None
    try:
        result = strict_json.encode(msgspec.json.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, strict_json.NotJson, RecursionError) as error:
        raise BadResult("bad-result", f"the file named by ROTA_RESULT is not JSON: {error}"[:500]) from None
    if len(result) > limit_bytes:
        raise BadResult("result-too-large", f"the result has {len(result)} bytes of JSON; the limit is {limit_bytes}")
    return result


def _open(folder: str, name: str) -> int:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=root)
    finally:
        os.close(root)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file of its own")
    return descriptor


def _read_at_most(descriptor: int, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = limit_bytes
    while left > 0 and (part := os.read(descriptor, min(left, 1024 * 1024))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
