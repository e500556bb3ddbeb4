"""The output of a task, line by line, while it is followed."""

from __future__ import annotations

import msgspec

from rota.model.answers.tasks import ProgressDocument


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a followed log: a chunk of output, with `progress` how far it is, with `end` how it ended."""

    attempt: int = 0
    seq: int = 0
    stream: str = "stdout"
    data_base64: str = ""
    end: bool = False
    progress: ProgressDocument | None = None
    state: str = ""
    exit_code: int | None = None
    kept_bytes: int = 0
    dropped_bytes: int = 0
