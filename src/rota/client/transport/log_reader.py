"""Reads a streamed log: what each line means, and where to resume. Pure; the transports bring the lines.

A stream may break at any moment. `LogReader` remembers the last chunk, and the next request asks for the chunks after
it: none is shown twice and none is missed.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Unpack

import msgspec

from rota.client.calls import task_calls
from rota.client.calls.call import Call
from rota.client.errors import ServerFault
from rota.client.options import LogOptions, check_names
from rota.model.answers.tasks import LogLine


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes the task wrote, as it wrote them. `stream` is stdout or stderr."""

    attempt: int
    seq: int
    stream: str
    data: bytes


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The task has ended; of its last attempt's output `dropped_bytes` were beyond the limit, which is `kept_bytes`."""

    state: str
    exit_code: int | None
    kept_bytes: int
    dropped_bytes: int


@dataclass(frozen=True, slots=True)
class LogProgress:
    """The progress that the task reported; sent only if it was requested."""

    fraction: float | None
    message: str


LogItem = LogChunk | LogEnd | LogProgress


class LogReader:
    """Follows the log of one task. `ended`: the LogEnd has come."""

    follow = True

    def __init__(self, task_id: int, *, progress: bool = False, **options: Unpack[LogOptions]) -> None:
        check_names(options, LogOptions)
        self._task_id = task_id
        self._progress = progress
        self._options = options
        self._seq: int | None = None
        self.ended = False

    def next_call(self) -> Call[bytes]:
        return task_calls.log_stream(self._task_id, after=self._seq, progress=self._progress, options=self._options)

    def take(self, line: str) -> LogItem | None:
        """None for a line that only keeps the connection alive."""
        if not line.strip():
            return None
        try:
            parsed = msgspec.json.decode(line, type=LogLine)
            if parsed.progress is not None:
                return LogProgress(parsed.progress.fraction, parsed.progress.message)
            return self._end(parsed) if parsed.end else self._chunk(parsed)
        except (msgspec.MsgspecError, binascii.Error) as error:
            raise ServerFault(f"a line of the log of task {self._task_id} cannot be read: {error}") from None

    def _chunk(self, line: LogLine) -> LogChunk:
        data = base64.b64decode(line.data_base64, validate=True)
        self._options["attempt"], self._seq = line.attempt, line.seq
        self._options["tail"] = None  # a resumed stream continues after the last chunk
        return LogChunk(attempt=line.attempt, seq=line.seq, stream=line.stream, data=data)

    def _end(self, line: LogLine) -> LogEnd:
        self.ended = True
        return LogEnd(
            state=line.state, exit_code=line.exit_code, kept_bytes=line.kept_bytes, dropped_bytes=line.dropped_bytes
        )
