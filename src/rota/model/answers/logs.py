"""The output of a task while it is followed."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent
from rota.model.answers.tasks import ProgressDocument


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a followed log: a chunk of output, the progress of the task, or with `end` how the task ended."""

    attempt: MayBeAbsent[int] = 0
    seq: MayBeAbsent[int] = 0
    stream: MayBeAbsent[str] = "stdout"
    data_base64: MayBeAbsent[str] = ""
    progress: MayBeAbsent[ProgressDocument | None] = None
    end: MayBeAbsent[bool] = False
    state: MayBeAbsent[str] = ""
    exit_code: MayBeAbsent[int | None] = None
    reason: MayBeAbsent[str | None] = None
    kept_bytes: MayBeAbsent[int] = 0
    dropped_bytes: MayBeAbsent[int] = 0
