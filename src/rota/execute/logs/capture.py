"""Output of attempts: read from pipes, kept as an exact prefix up to the limit; the rest is counted and dropped.

A `Capture` is one attempt's output; `OutputPipes` are the two pipes of one process and move bytes into the current
capture. A task may print a gigabyte: reading goes on past the limit, into a scratch buffer, so that it never blocks and
memory never grows. Output that no server takes and no disk holds is lost, and a line in its place says how much.
`shipping.py` sends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable

import msgspec

from rota.execute.logs.spill import Extent
from rota.execute.messages.masking import StreamMasks
from rota.wire import LogChunk

INLINE_BYTES = 16 * 1024  # unsent output this small travels inside the result
LATE_INLINE_BYTES = 1024 * 1024  # and this much when there is no log connection
CHUNK_BYTES = 64 * 1024
_STANDARD_ERROR = 2
_TAIL_BYTES = 2048
_READ_BYTES = 64 * 1024
_READS_PER_WAKE = 16
_BIG_PIPE_BYTES = 1024 * 1024
_SCRATCH = bytearray(_BIG_PIPE_BYTES)


class Unsent(msgspec.Struct, eq=False):
    """A chunk that no server has stored yet: in memory, or (`data` is None) on this node's disk."""

    seq: int
    stream: int
    data: bytes | None
    size: int
    extent: Extent | None = None


class Capture(msgspec.Struct, eq=False):
    """The output of one attempt. `pending` is not yet handed out; `unstored` is handed out, but not yet durable."""

    task: int
    attempt: int
    limit_bytes: int
    masks: StreamMasks | None = None  # None: no secrets
    error_tail: bytes | None = None  # the end of standard error, for a caller that sets it to b"" at the beginning
    kept_bytes: int = 0
    dropped_bytes: int = 0
    lost_bytes: int = 0  # part of the dropped bytes that no line has reported yet
    seq: int = 0
    pending: list[tuple[int, bytearray]] = []
    pending_bytes: int = 0
    unstored: dict[int, Unsent] = {}

    @property
    def is_full(self) -> bool:
        return self.kept_bytes >= self.limit_bytes

    def add(self, stream: int, data: bytes) -> None:
        self._keep(stream, data if self.masks is None else self.masks.feed(stream, data))

    def end_masking(self) -> int:
        """The task has ended: keeps bytes that might have become a secret and did not. Returns their number."""
        before = self.kept_bytes
        if self.masks is not None:
            for stream, data in self.masks.finish():
                self._keep(stream, data)
        return self.kept_bytes - before

    def _keep(self, stream: int, data: bytes) -> None:
        if self.lost_bytes and data:
            self.say_lost()
        left = self.limit_bytes - self.kept_bytes
        if len(data) > left:
            self.dropped_bytes += len(data) - left
            data = data[:left]
        if not data:
            return
        if self.error_tail is not None and stream == _STANDARD_ERROR:
            self.error_tail = (self.error_tail + data)[-_TAIL_BYTES:]
        self._append(stream, data)

    def _append(self, stream: int, data: bytes) -> None:
        self.kept_bytes += len(data)
        self.pending_bytes += len(data)
        last = self.pending[-1] if self.pending else None
        if last is not None and last[0] == stream and len(last[1]) + len(data) <= CHUNK_BYTES:
            last[1].extend(data)
        else:
            self.pending.append((stream, bytearray(data)))

    def drop(self, count: int) -> None:
        self.dropped_bytes += count

    def lose(self, stream: int, data: bytes) -> None:
        """Neither memory nor disk had space for it. It passes the masks: it may hold a part of a secret."""
        count = len(data if self.masks is None else self.masks.feed(stream, data))
        self.lost_bytes += count
        self.dropped_bytes += count

    def say_lost(self) -> int:
        """Adds a line that says how much output was lost since the last one. Returns its length."""
        if not self.lost_bytes:
            return 0
        line = f"\n[rota: {self.lost_bytes} bytes of output were lost here: no server took them]\n".encode()
        self.lost_bytes = 0
        self._append(_STANDARD_ERROR, line)
        return len(line)

    def hand_out(self) -> list[Unsent]:
        """Everything pending, numbered on from what was handed out before."""
        chunks = []
        for stream, data in self.pending:
            chunks.append(Unsent(self.seq, stream, bytes(data), len(data)))
            self.seq += 1
        self.pending.clear()
        self.pending_bytes = 0
        return chunks

    def chunk(self, unsent: Unsent, data: bytes) -> LogChunk:
        return LogChunk(self.task, self.attempt, unsent.seq, unsent.stream, data)

    def take_inline(self) -> list[LogChunk]:
        """Without a log connection: the first unstored chunks, as many as a result may carry."""
        chunks: list[LogChunk] = []
        left = LATE_INLINE_BYTES
        for unsent in list(self.unstored.values()):
            if unsent.data is None or unsent.size > left:
                break
            chunks.append(self.chunk(unsent, unsent.data))
            left -= unsent.size
            del self.unstored[unsent.seq]
        return chunks


class Flow:
    """Tells readers to pause when too much output waits to be sent, and to go on later.

    While it is `losing`, output is read and lost instead: a task must not wait for absent servers.
    """

    def __init__(self, budget_bytes: int, on_output: Callable[[Capture], None]) -> None:
        self.budget_bytes = budget_bytes
        self.waiting_bytes = 0
        self.losing = False
        self.on_output = on_output
        self._paused: list[Callable[[], None]] = []

    def took(self, count: int) -> None:
        self.waiting_bytes += count

    def gave(self, count: int) -> None:
        self.waiting_bytes -= count
        if not self.is_pressing:
            self.losing = False
            self._resume()

    def lose(self) -> None:
        self.losing = True
        self._resume()

    def _resume(self) -> None:
        waiting, self._paused = self._paused, []
        for resume in waiting:
            resume()

    @property
    def is_pressing(self) -> bool:
        return self.waiting_bytes >= self.budget_bytes // 2

    @property
    def is_over(self) -> bool:
        return self.waiting_bytes >= self.budget_bytes

    def pause(self, resume: Callable[[], None]) -> None:
        self._paused.append(resume)


class OutputPipes:
    """The read ends of one process's stdout and stderr."""

    __slots__ = ("_capture", "_enlarged", "_flow", "_loop", "_open", "_watching")

    def __init__(self, loop: asyncio.AbstractEventLoop, flow: Flow, stdout: int, stderr: int) -> None:
        self._loop = loop
        self._flow = flow
        self._open = {1: stdout, 2: stderr}
        self._capture: Capture | None = None
        self._watching = False
        self._enlarged = False

    def watch(self, capture: Capture) -> None:
        """Streams from now on into `capture`. Short-lived processes are only drained at their end."""
        self._capture = capture
        self._watching = True
        for stream, descriptor in self._open.items():
            self._loop.add_reader(descriptor, self._on_readable, stream)

    def unwatch(self) -> None:
        if self._watching:
            self._watching = False
            for descriptor in self._open.values():
                self._loop.remove_reader(descriptor)

    def drain(self, capture: Capture) -> None:
        """Reads everything there is now: the writer has ended, or waits until we are done."""
        for stream in list(self._open):
            left = 2 * _BIG_PIPE_BYTES  # a pipe holds less, unless another process still writes to it
            while left > 0 and (count := self._read(stream, capture)):
                left -= count

    def close(self) -> None:
        self.unwatch()
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _on_readable(self, stream: int) -> None:
        capture = self._capture
        if capture is None or stream not in self._open:
            return
        for _ in range(_READS_PER_WAKE):
            if self._flow.is_over and not self._flow.losing and not capture.is_full:
                self._pause(stream)
                break
            count = self._read(stream, capture)
            if count is None:
                self._loop.remove_reader(self._open[stream])  # end of file; closed with the rest later
                break
            if count < _READ_BYTES:
                break
            if not self._enlarged:
                self._enlarge()
        self._flow.on_output(capture)

    def _read(self, stream: int, capture: Capture) -> int | None:
        """How many bytes there were: 0 for none now, None at the end."""
        descriptor = self._open[stream]
        try:
            if capture.is_full:
                count = os.readv(descriptor, [_SCRATCH])
                capture.drop(count)
                return count or None
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        if self._flow.losing and capture.kept_bytes >= INLINE_BYTES:  # so much goes with its result in any case
            capture.lose(stream, data)
        else:
            before = capture.kept_bytes
            capture.add(stream, data)
            self._flow.took(capture.kept_bytes - before)
        return len(data) or None

    def _pause(self, stream: int) -> None:
        self._loop.remove_reader(self._open[stream])

        def resume() -> None:
            if self._watching and stream in self._open:
                self._loop.add_reader(self._open[stream], self._on_readable, stream)

        self._flow.pause(resume)

    def _enlarge(self) -> None:
        self._enlarged = True
        for descriptor in self._open.values():
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _BIG_PIPE_BYTES)
