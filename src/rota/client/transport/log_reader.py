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
from rota.model.output import Gaps


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes the task wrote, as it wrote them. `stream` is stdout or stderr.

    `left_out_bytes` of the stream come before them and are not shown: more was written than is kept. In the log of an
    array or a graph, `task`, `name` and `index` say which task wrote them.
    """

    attempt: int
    seq: int
    stream: str
    data: bytes
    left_out_bytes: int = 0
    offset: int = -1  # how many bytes of the stream came before; -1: unknown
    task: int = 0
    name: str = ""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The task has ended; of its last attempt's output `kept_bytes` are stored and `dropped_bytes` are left out.

    When an array or a graph is followed, there is one for each `task`, and a last one with the id of the `graph`.
    """

    state: str
    exit_code: int | None
    kept_bytes: int
    dropped_bytes: int
    task: int = 0
    graph: int = 0


@dataclass(frozen=True, slots=True)
class LogProgress:
    """The progress that the task reported; sent only if it was requested."""

    fraction: float | None
    message: str
    task: int = 0


LogItem = LogChunk | LogEnd | LogProgress


class LogReader:
    """Reads the log of one task, or of all tasks of an array or a graph: as it comes, or without `follow` one page.

    `ended`: the last LogEnd has come. `next`: the cursor of the next page.
    """

    def __init__(
        self,
        task_id: int,
        *,
        follow: bool = True,
        progress: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        **options: Unpack[LogOptions],
    ) -> None:
        check_names(options, LogOptions)
        self.follow = follow
        self._task_id = task_id
        self._progress = progress
        self._page = {"limit": limit, "cursor": cursor}
        self._options = options
        self._seq: int | None = None  # the last chunk of a single task
        self._seen: dict[int, tuple[int, int]] = {}  # the last one of each task of an array or a graph
        self._gaps: dict[tuple[int, int], Gaps] = {}
        self._is_whole = options.get("tail") is None and options.get("since") is None
        self.is_group = False  # it was the id of an array or a graph; known after the last line of a page
        self.next: str | None = None
        self.ended = False

    def next_call(self) -> Call[bytes]:
        return task_calls.log_stream(
            self._task_id,
            follow=self.follow,
            after=self._seq,
            progress=self._progress,
            page=self._page,
            options=self._options,
        )

    def take(self, line: str) -> LogItem | None:
        """None for a line that has nothing new."""
        if not line.strip():
            return None
        try:
            parsed = msgspec.json.decode(line, type=LogLine)
            if parsed.progress is not None:
                return LogProgress(parsed.progress.fraction, parsed.progress.message, parsed.task)
            if parsed.end:
                return self._end(parsed)
            if not parsed.data_base64:  # the last line of a page
                self.is_group, self.next = True, parsed.next
                return None
            return self._chunk(parsed)
        except (msgspec.MsgspecError, binascii.Error) as error:
            raise ServerFault(f"a line of the log of task {self._task_id} cannot be read: {error}") from None

    def _chunk(self, line: LogLine) -> LogChunk | None:
        data = base64.b64decode(line.data_base64, validate=True)
        if line.task:
            # A resumed stream begins again: chunks have no numbers across tasks.
            if (line.attempt, line.seq) <= self._seen.get(line.task, (0, -1)):
                return None
            self._seen[line.task] = (line.attempt, line.seq)
        gaps = self._gaps.get((line.task, line.attempt))
        if gaps is None:
            is_first = not any(task == line.task for task, _ in self._gaps)
            gaps = self._gaps[line.task, line.attempt] = Gaps(from_start=self._is_whole or not is_first)
        if not line.task:
            self._options["attempt"], self._seq = line.attempt, line.seq
            self._options["tail"] = None  # a resumed stream continues after the last chunk
        left_out = gaps.before(line.stream, offset=line.offset, size=len(data))
        return LogChunk(
            line.attempt, line.seq, line.stream, data, left_out, line.offset, line.task, line.name, line.index
        )

    def _end(self, line: LogLine) -> LogEnd:
        self.ended = not line.task
        return LogEnd(line.state, line.exit_code, line.kept_bytes, line.dropped_bytes, line.task, line.graph)
