"""Ships output to any server node over a connection of its own, so that bulk can't delay a heartbeat.

Chunks are resent until stored. Memory is bounded by the flow's budget: past it the pipes are no longer
read. A result waits for its output to be stored, but never long: after `_PATIENCE_SECONDS` it goes with
what is left inside it. The connection is opened only when there is something to ship.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

import structlog
import websockets
from websockets.asyncio.client import ClientConnection, connect

from rota import wire
from rota.execute.logs import CHUNK_BYTES, INLINE_BYTES, Capture, Flow

log = structlog.get_logger()

Deliver = Callable[[list[wire.LogChunk]], None]

_BUDGET_BYTES = 8 * 1024 * 1024
_LINGER_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0
_STORE_SECONDS = 15.0  # an unanswered batch means a dead connection
_WINDOW = 4  # batches on their way at once
_RETRY_SECONDS = 1.0
_MOST_SAID = 10_000


class LogShipper:
    def __init__(self, *, servers: tuple[str, ...], token: str, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._servers = servers
        self._token = token
        self._patience_seconds = patience_seconds
        self._loop = asyncio.get_running_loop()
        self.flow = Flow(_BUDGET_BYTES, self._on_output)
        self._dirty: dict[Capture, None] = {}
        self._ready: deque[tuple[Capture, wire.LogChunk]] = deque()
        self._in_flight: dict[int, list[tuple[Capture, wire.LogChunk]]] = {}
        self._finishing: dict[Capture, tuple[Deliver, asyncio.TimerHandle]] = {}
        self._linger: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._number = 0
        self._said: dict[tuple[int, int], wire.Said] = {}  # the latest of each, not yet sent
        self._turn = random.randrange(len(servers))

    def finish(self, capture: Capture, deliver: Deliver) -> None:
        """The attempt has ended.

        Calls `deliver` once, now or when its output is safe, with what must go inline.
        """
        self._dirty.pop(capture, None)
        if not capture.unstored and capture.pending_bytes <= INLINE_BYTES:
            self.flow.gave(capture.pending_bytes)
            deliver(capture.hand_out())
            return
        self._seal(capture)
        timer = self._loop.call_later(self._patience_seconds, self._give_up, capture)
        self._finishing[capture] = (deliver, timer)
        self._wake.set()

    def report(self, said: list[wire.Said]) -> None:
        """How far attempts are. Only the latest of each is worth sending, and while nobody listens not even that."""
        if len(self._said) > _MOST_SAID:
            self._said.clear()
        self._said.update(((one.task, one.attempt), one) for one in said)
        self._wake.set()

    def forget_all(self) -> None:
        """A new database: nothing of the old one is to be shipped or delivered."""
        for capture, (_, timer) in list(self._finishing.items()):
            timer.cancel()
            self.abandon(capture)
        self._finishing.clear()
        self._ready.clear()
        self._in_flight.clear()
        self._said.clear()

    def abandon(self, capture: Capture) -> None:
        """Its attempt was forgotten: its output goes nowhere and no longer counts against the budget."""
        self._dirty.pop(capture, None)
        self.flow.gave(sum(len(chunk.data) for chunk in capture.unstored.values()) + capture.pending_bytes)
        capture.unstored.clear()
        capture.hand_out()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            try:
                await self._connected()
            except* (OSError, TimeoutError, websockets.WebSocketException, wire.WireError) as errors:
                log.warning("the log connection is away", error=str(errors.exceptions[0])[:200])
            for number in sorted(self._in_flight, reverse=True):
                self._ready.extendleft(reversed(self._in_flight[number]))
            self._in_flight.clear()
            self._turn += 1
            await asyncio.sleep(random.uniform(0.1, _RETRY_SECONDS))
            if self._ready or self._dirty or self._said:
                self._wake.set()

    def _on_output(self, capture: Capture) -> None:
        if not capture.pending_bytes:
            return
        self._dirty[capture] = None
        if capture.pending_bytes >= CHUNK_BYTES:
            self._wake.set()
        elif self._linger is None:
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._wake.set()

    def _seal(self, capture: Capture) -> None:
        for chunk in capture.hand_out():
            capture.unstored[chunk.seq] = chunk
            self._ready.append((capture, chunk))

    def _give_up(self, capture: Capture) -> None:
        deliver, _ = self._finishing.pop(capture)
        self.flow.gave(sum(len(chunk.data) for chunk in capture.unstored.values()) + capture.pending_bytes)
        deliver(capture.settle_inline())

    def _stored(self, number: int) -> None:
        for capture, chunk in self._in_flight.pop(number, ()):
            if capture.unstored.pop(chunk.seq, None) is None:
                continue
            self.flow.gave(len(chunk.data))
            if not capture.unstored and capture in self._finishing:
                deliver, timer = self._finishing.pop(capture)
                timer.cancel()
                deliver([])

    # ---- the connection ------------------------------------------------------------------------------------

    async def _connected(self) -> None:
        server = self._servers[self._turn % len(self._servers)]
        async with connect(
            f"ws{server.removeprefix('http')}/v1/worker/logs",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            max_size=wire.MAX_FRAME_BYTES,
            ping_interval=None,
            open_timeout=5,
            close_timeout=1,
        ) as socket:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(socket), name="send logs")
                group.create_task(self._hear(socket), name="hear what is stored")

    async def _hear(self, socket: ClientConnection) -> None:
        while True:
            try:
                async with asyncio.timeout(_STORE_SECONDS):
                    message = await socket.recv(decode=False)
            except TimeoutError:
                if self._in_flight:
                    raise
                continue
            frame = wire.decode_to_agent(message)
            if isinstance(frame, wire.LogStored):
                self._stored(frame.number)
                self._wake.set()

    async def _send(self, socket: ClientConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._said:
                said, self._said = list(self._said.values()), {}
                await socket.send(wire.encode(wire.ProgressBatch(said=said)))
            for capture in list(self._dirty):
                self._seal(capture)
            self._dirty.clear()
            while len(self._in_flight) < _WINDOW and (batch := self._next_batch()):
                self._number += 1
                self._in_flight[self._number] = batch
                chunks = [chunk for _, chunk in batch]
                await socket.send(wire.encode(wire.LogBatch(number=self._number, chunks=chunks)))

    def _next_batch(self) -> list[tuple[Capture, wire.LogChunk]]:
        batch = []
        size = 0
        while self._ready and size < wire.FRAME_TARGET_BYTES:
            capture, chunk = self._ready.popleft()
            if chunk.seq in capture.unstored:  # else its result went without waiting
                batch.append((capture, chunk))
                size += len(chunk.data)
        return batch
