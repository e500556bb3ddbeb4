"""One session for each connected node: it queues frames, and its one writer sends them in batches.

A session only carries messages; their meaning is the leader's business. Everything queued during a send goes out with
the next one, so a busy node gets few large frames, and an idle node gets its frame at once.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from rota import wire
from rota.model.node import Closed
from rota.model.resources import Resources

MOST_QUEUED_FRAMES = 10_000
RUNS_A_FRAME = 500
_numbers = itertools.count(1)


class Channel(Protocol):
    """The part of a WebSocket a session needs."""

    async def send_bytes(self, data: bytes) -> None: ...
    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class Session:
    def __init__(
        self, channel: Channel, hello: wire.Hello, *, node: int, epoch: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.node = node
        self.boot = hello.boot
        self.name = hello.name
        self.number = next(_numbers)  # distinguishes the node's connections
        self.capacity: Resources = hello.capacity
        self.labels = hello.labels
        self.capabilities = frozenset(hello.capabilities)
        self.epoch = epoch
        self.draining = False  # an operator drains the node, and the agent was told
        self.reported_closed: Closed | None = None  # why the agent itself takes no new work
        self.frozen = 0  # attempts that stand still, as its last heartbeat says
        self.recalled = 0  # the last numbered recall that the agent has carried out
        self.heard_at = clock()
        self._channel = channel
        self._runs: list[wire.Run] = []
        self._shapes: dict[int, Resources] = {}
        self._settled: list[tuple[int, int]] = []
        self._frames: list[wire.Frame] = []
        self.wake = asyncio.Event()
        self.goodbye: tuple[int, str] | None = None  # the close code and reason; None while the session is open
        self.closing = asyncio.Event()
        self.closed = asyncio.Event()

    @property
    def closed_for(self) -> Closed | None:
        """Why the node takes no new work. An operator's drain comes first: it lasts longer."""
        return Closed.DRAINING if self.draining else self.reported_closed

    # ---- queueing: never waits ------------------------------------------------------------------------------------

    def start(self, runs: list[wire.Run], shapes: dict[int, Resources]) -> None:
        self._runs += runs
        self._shapes.update(shapes)
        self.wake.set()

    def settled(self, attempts: list[tuple[int, int]]) -> None:
        self._settled += attempts
        self.wake.set()

    def send(self, frame: wire.Frame) -> None:
        self._gather_runs()
        self._frames.append(frame)
        if len(self._frames) > MOST_QUEUED_FRAMES:
            self.close(1013, "the agent reads too slowly")
        self.wake.set()

    def close(self, code: int, reason: str) -> None:
        if self.goodbye is None:
            self.goodbye = (code, reason)
        self.closing.set()
        self.wake.set()

    # ---- the one writer -------------------------------------------------------------------------------------------

    async def write(self) -> None:
        """Sends until closed. Ends when the connection breaks."""
        try:
            while self.goodbye is None:
                await self.wake.wait()
                self.wake.clear()
                for data in self.take():
                    await self._channel.send_bytes(data)
            await self._channel.close(*self.goodbye)
        except (RuntimeError, OSError):
            return  # the reader sees the same break and ends the session
        finally:
            self.closed.set()

    def take(self) -> list[bytes]:
        """All queued frames, in order: a stop or a recall never overtakes the start that it is about."""
        self._gather_runs()
        frames, self._frames = self._frames, []
        settled, self._settled = self._settled, []
        data: list[bytes] = []
        for frame in frames:
            data += _start_frames(frame) if isinstance(frame, wire.Start) else [wire.encode(frame)]
        if settled:
            data.append(wire.encode(wire.Settled(settled)))
        return data

    def _gather_runs(self) -> None:
        for begin in range(0, len(self._runs), RUNS_A_FRAME):
            runs = self._runs[begin : begin + RUNS_A_FRAME]
            self._frames.append(wire.Start(self.epoch, {run.shape: self._shapes[run.shape] for run in runs}, runs))
        if self._runs:
            self._runs, self._shapes = [], {}


def _start_frames(start: wire.Start) -> list[bytes]:
    """One frame, or several if large specs or secrets make it larger than an agent accepts."""
    data = wire.encode(start)
    if len(data) <= wire.MAX_FRAME_BYTES or len(start.runs) == 1:
        return [data]
    half = len(start.runs) // 2
    parts = (start.runs[:half], start.runs[half:])
    return [frame for runs in parts for frame in _start_frames(wire.Start(start.epoch, start.shapes, runs))]
