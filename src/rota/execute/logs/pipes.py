"""The pipes through which attempts write, and the budget of the output that waits to be sent.

`OutputPipes` are the two pipes of one process and move bytes into the current `Capture`. A task may print a gigabyte:
past its limit reading goes on, so that the task never blocks, and only its latest output stays in memory. `Flow` bounds
what all captures hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import weakref
from collections.abc import Callable

from rota.execute.logs.capture import INLINE_BYTES, Capture

_READ_BYTES = 64 * 1024
_READS_PER_WAKE = 16
_BIG_PIPE_BYTES = 1024 * 1024
_TAILS_BYTES = 16 * 1024 * 1024  # of all attempts that have written more than is kept
_LEAST_TAIL_BYTES = 16 * 1024


class Flow:
    """Tells readers to pause when too much output waits to be sent, and to go on later.

    While it is `losing`, only the latest output is kept instead: a task must not wait for absent servers.
    """

    def __init__(self, budget_bytes: int, on_output: Callable[[Capture], None]) -> None:
        self.budget_bytes = budget_bytes
        self.waiting_bytes = 0
        self.losing = False
        self.on_output = on_output
        self.tails: weakref.WeakSet[Capture] = weakref.WeakSet()  # captures that are over their limit
        self._paused: list[Callable[[], None]] = []

    def add(self, capture: Capture, stream: int, data: bytes) -> None:
        """Adds output to a capture."""
        before = capture.waiting_bytes
        if self.losing and capture.kept_bytes >= INLINE_BYTES:  # so much goes with its result in any case
            capture.close_head()
        if capture.is_over:
            self.tails.add(capture)
            capture.memory_bytes = max(_LEAST_TAIL_BYTES, _TAILS_BYTES // len(self.tails))
        capture.add(stream, data)
        self.changed(capture.waiting_bytes - before)

    def end_masking(self, capture: Capture) -> None:
        before = capture.waiting_bytes
        capture.end_masking()
        self.changed(capture.waiting_bytes - before)

    def changed(self, by: int) -> None:
        if by > 0:
            self.took(by)
        elif by:
            self.gave(-by)

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
            if self._flow.is_over and not self._flow.losing and not capture.is_over:
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
        try:
            data = os.read(self._open[stream], _READ_BYTES)
        except BlockingIOError:
            return 0
        self._flow.add(capture, stream, data)
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
