"""Ships output and progress to any server node over a connection of its own, so that bulk can't delay a heartbeat.

Chunks are resent until stored. Memory is bounded by the flow's budget: from half of it on, output goes to this node's
disk (`spill.py`), and from there to a server that takes it. When the disk's share is used up too, pipes are not read
while servers still take something; when they don't, only the latest output is kept. The tail of an attempt that is over
its limit is sent a piece at a time, so that followers go on seeing it and servers are not flooded. A result waits for
its output to be stored, but never long: after `_PATIENCE_SECONDS` it carries the beginning of the unstored output, and
the rest follows when it can. The connection is opened only when there is something to ship.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog
import websockets
from websockets.asyncio.client import ClientConnection, connect

from rota import keepalive, tls, wire
from rota.execute.backoff import Backoff
from rota.execute.identity import Credential, NoTokenYet
from rota.execute.logs.capture import CHUNK_BYTES, INLINE_BYTES, Capture, Unsent
from rota.execute.logs.pipes import Flow
from rota.execute.logs.spill import Spill
from rota.servers import Servers

log = structlog.get_logger()

Deliver = Callable[[list[wire.LogChunk]], None]

_BUDGET_BYTES = 8 * 1024 * 1024
_LINGER_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0
_STORE_SECONDS = 15.0  # an unanswered batch means a dead connection
_WINDOW = 4  # unacknowledged batches at once
_RETRY_SECONDS = 1.0
_MOST_PROGRESS = 10_000
_SPILL_BATCH_BYTES = 1024 * 1024
_PACE_SECONDS = 1.0  # between two pieces of the tail of an attempt that is over its limit
_TAILS_AT_FULL_PACE = 16  # with more such attempts, each sends less often
_SPILL_RETRY_SECONDS = 0.2  # between tries while the disk has no space

Waiting = tuple[Capture, Unsent]


class LogShipper:
    def __init__(
        self,
        *,
        servers: tuple[str, ...],
        credential: Credential,
        spill: Spill,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._servers = Servers(servers)
        self._backoff = Backoff(shortest_seconds=0.1, first_seconds=_RETRY_SECONDS, longest_seconds=_RETRY_SECONDS)
        self._credential = credential
        self._spill = spill
        self._patience_seconds = patience_seconds
        self._loop = asyncio.get_running_loop()
        self.flow = Flow(_BUDGET_BYTES, self._on_output)
        self._dirty: dict[Capture, None] = {}
        self._ready: deque[Waiting] = deque()
        self._unacknowledged: dict[int, list[Waiting]] = {}
        self._finishing: dict[Capture, tuple[Deliver, asyncio.TimerHandle]] = {}
        self._linger: asyncio.TimerHandle | None = None
        self._paced: dict[Capture, None] = {}  # over their limit, with a tail to send
        self._pace: asyncio.TimerHandle | None = None
        self._is_tail_due = False
        self._wake = asyncio.Event()
        self._over_half = asyncio.Event()
        self.sent_all = asyncio.Event()
        self.sent_all.set()
        self._stored_at = self._loop.time()  # when a server last stored a batch
        self._number = 0
        self._progress: dict[tuple[int, int], wire.ReportedProgress] = {}  # the latest of each attempt, not yet sent

    def finish(self, capture: Capture, deliver: Deliver) -> None:
        """The attempt has ended. `deliver` is called once, when its output is stored, with the inline chunks."""
        self._forget(capture)
        if not capture.unstored and capture.unsent_bytes <= INLINE_BYTES:
            self.flow.gave(capture.waiting_bytes)
            deliver([capture.chunk(unsent, unsent.data or b"") for unsent in capture.hand_out()])
            return
        self._seal(capture, tail_bytes=None)
        timer = self._loop.call_later(self._patience_seconds, self._give_up, capture)
        self._finishing[capture] = (deliver, timer)
        self._wake.set()

    def report(self, progress: list[wire.ReportedProgress]) -> None:
        """Progress of attempts. Only the latest of each is sent; without a connection it may be dropped."""
        if len(self._progress) > _MOST_PROGRESS:
            self._progress.clear()
        self._progress.update(((latest.task, latest.attempt), latest) for latest in progress)
        self._wake.set()

    def forget_all(self) -> None:
        """A new database: nothing of the old one is shipped or delivered."""
        for capture, (_, timer) in list(self._finishing.items()):
            timer.cancel()
            self.abandon(capture)
        self._finishing.clear()
        for waiting in (self._ready, *self._unacknowledged.values()):
            for capture, _ in waiting:
                self.abandon(capture)
        self._ready.clear()
        self._unacknowledged.clear()
        self._progress.clear()
        self.sent_all.set()

    def abandon(self, capture: Capture) -> None:
        """Its attempt was forgotten: its output goes nowhere and no longer counts against the budget."""
        self._forget(capture)
        for unsent in capture.unstored.values():
            self._let_go(unsent)
        capture.unstored.clear()
        self.flow.gave(capture.waiting_bytes)
        capture.hand_out()
        self._check_if_sent()

    def _forget(self, capture: Capture) -> None:
        self._dirty.pop(capture, None)
        self._paced.pop(capture, None)
        self.flow.tails.discard(capture)

    def _let_go(self, unsent: Unsent) -> None:
        if unsent.extent is not None:
            self._spill.free(unsent.extent)
        else:
            self.flow.gave(unsent.size)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            try:
                await self._connected()
            except* websockets.InvalidStatus as refused:
                self._credential.refused()
                log.warning("the log connection was refused", why=str(refused.exceptions[0])[:200])
            except* (OSError, TimeoutError, NoTokenYet, websockets.WebSocketException, wire.WireError) as errors:
                why = tls.explain(errors.exceptions[0], self._servers.current) or str(errors.exceptions[0])
                log.warning("there is no log connection", error=why[:200])
            for number in sorted(self._unacknowledged, reverse=True):
                self._ready.extendleft(reversed(self._unacknowledged[number]))
            self._unacknowledged.clear()
            self._servers.advance()
            await self._backoff.pause()
            if self._ready or self._dirty or self._paced or self._progress:
                self._wake.set()

    # ---- to the disk and back --------------------------------------------------------------------------------

    async def run_spill(self) -> None:
        """Moves the newest output to the disk whenever too much waits in memory."""
        while True:
            await self._over_half.wait()
            self._over_half.clear()
            full_at: float | None = None
            while self.flow.is_pressing:
                if await self._spill_some():
                    full_at = None
                    continue
                now = self._loop.time()
                full_at = now if full_at is None else full_at
                if self.flow.is_over and now - max(full_at, self._stored_at) > self._patience_seconds:
                    self.flow.lose()
                await asyncio.sleep(_SPILL_RETRY_SECONDS)

    async def _spill_some(self) -> bool:
        """False: the disk has no space, or there is nothing to move."""
        self._seal_dirty()
        chosen: list[Waiting] = []
        size = 0
        for capture, unsent in reversed(self._ready):
            if size >= _SPILL_BATCH_BYTES:
                break
            if unsent.data is not None and unsent.seq in capture.unstored:
                chosen.append((capture, unsent))
                size += unsent.size
        extents = self._spill.reserve([unsent.size for _, unsent in chosen]) if chosen else None
        if extents is None:
            return False
        written = True
        try:
            pieces = [unsent.data or b"" for _, unsent in chosen]
            await asyncio.to_thread(self._spill.write, extents, pieces)
        except OSError as error:
            log.warning("output can't be put on this node's disk", error=str(error)[:200])
            written = False
        for (capture, unsent), extent in zip(chosen, extents, strict=True):
            if not written or capture.unstored.get(unsent.seq) is not unsent:  # else it was stored meanwhile
                self._spill.free(extent)
            else:
                unsent.extent, unsent.data = extent, None
                self.flow.gave(unsent.size)
        return written

    async def _data_of(self, batch: list[Waiting]) -> list[wire.LogChunk]:
        chunks = []
        for capture, unsent in batch:
            data = unsent.data
            if data is None and unsent.extent is not None:
                data = await asyncio.to_thread(self._spill.read, unsent.extent)
            if unsent.seq not in capture.unstored:
                continue  # forgotten meanwhile, or sent with its result
            if data is None:
                data = f"\n[rota: {unsent.size} bytes of output were lost here, on the worker's disk]\n".encode()
            chunks.append(capture.chunk(unsent, data))
        return chunks

    # ---- what waits --------------------------------------------------------------------------------------------

    def _on_output(self, capture: Capture) -> None:
        if self.flow.is_pressing:
            self._over_half.set()
        if capture.is_over:
            self._paced[capture] = None
            self._keep_pace()
        if not capture.waiting_bytes:
            return
        self._dirty[capture] = None
        if capture.waiting_bytes >= CHUNK_BYTES:
            self._wake.set()
        elif self._linger is None:
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._wake.set()

    def _keep_pace(self) -> None:
        if self._pace is None:
            seconds = _PACE_SECONDS * max(1.0, len(self._paced) / _TAILS_AT_FULL_PACE)
            self._pace = self._loop.call_later(seconds, self._tail_due)

    def _tail_due(self) -> None:
        self._pace = None
        self._is_tail_due = True
        self._wake.set()

    def _seal_dirty(self) -> None:
        for capture in list(self._dirty):
            self._seal(capture, tail_bytes=0 if capture.is_over else None)
        self._dirty.clear()

    def _seal_tails(self) -> None:
        """The oldest piece of each tail; never more until that one is stored."""
        self._is_tail_due = False
        for capture in list(self._paced):
            if not capture.has_unstored_tail:
                self._seal(capture, tail_bytes=CHUNK_BYTES)
            if not capture.unsent_bytes:
                del self._paced[capture]
        if self._paced:
            self._keep_pace()

    def _seal(self, capture: Capture, *, tail_bytes: int | None) -> None:
        before = capture.waiting_bytes
        size = 0
        for unsent in capture.hand_out(tail_bytes):
            capture.unstored[unsent.seq] = unsent
            self._ready.append((capture, unsent))
            size += unsent.size
            self.sent_all.clear()
        self.flow.changed(size + capture.waiting_bytes - before)
        if self.flow.is_pressing:
            self._over_half.set()

    def _give_up(self, capture: Capture) -> None:
        deliver, _ = self._finishing.pop(capture)
        inline = capture.take_inline()
        self.flow.gave(sum(len(chunk.data) for chunk in inline))
        self._check_if_sent()
        deliver(inline)

    def _check_if_sent(self) -> None:
        waiting = (entry for batch in (self._ready, *self._unacknowledged.values()) for entry in batch)
        if not any(unsent.seq in capture.unstored for capture, unsent in waiting):
            self.sent_all.set()

    def _stored(self, number: int, full: list[tuple[int, int]]) -> None:
        self._stored_at = self._loop.time()
        for capture, unsent in self._unacknowledged.pop(number, ()):
            if (capture.task, capture.attempt) in full:
                before = capture.waiting_bytes
                capture.close_head()
                self.flow.changed(capture.waiting_bytes - before)
            if capture.unstored.pop(unsent.seq, None) is None:
                continue
            self._let_go(unsent)
            if not capture.unstored and capture in self._finishing:
                deliver, timer = self._finishing.pop(capture)
                timer.cancel()
                deliver([])
        if not self._unacknowledged and not self._ready:
            self.sent_all.set()

    # ---- the connection ------------------------------------------------------------------------------------

    async def _connected(self) -> None:
        async with connect(
            f"ws{self._servers.current.removeprefix('http')}/v1/worker/logs",
            ssl=tls.trusted_at(self._servers.current),
            additional_headers={"Authorization": await self._credential.authorization()},
            compression=None,
            max_size=wire.MAX_FRAME_BYTES,
            ping_interval=None,
            open_timeout=5,
            close_timeout=1,
        ) as socket:
            keepalive.DEFAULT.apply(socket.transport.get_extra_info("socket"))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(socket), name="send logs")
                group.create_task(self._receive(socket), name="read what is stored")

    async def _receive(self, socket: ClientConnection) -> None:
        while True:
            try:
                async with asyncio.timeout(_STORE_SECONDS):
                    message = await socket.recv(decode=False)
            except TimeoutError:
                if self._unacknowledged:
                    raise
                continue
            frame = wire.decode_to_agent(message)
            if isinstance(frame, wire.LogStored):
                self._stored(frame.number, frame.full)
                self._wake.set()

    async def _send(self, socket: ClientConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._progress:
                progress, self._progress = list(self._progress.values()), {}
                await socket.send(wire.encode(wire.ProgressBatch(reports=progress)))
            self._seal_dirty()
            if self._is_tail_due:
                self._seal_tails()
            while len(self._unacknowledged) < _WINDOW and (batch := self._next_batch()):
                self._number += 1
                self._unacknowledged[self._number] = batch
                number, chunks = self._number, await self._data_of(batch)
                await socket.send(wire.encode(wire.LogBatch(number=number, chunks=chunks)))

    def _next_batch(self) -> list[Waiting]:
        batch = []
        size = 0
        while self._ready and size < wire.FRAME_TARGET_BYTES:
            capture, unsent = self._ready.popleft()
            if unsent.seq in capture.unstored:  # else it was sent with its result
                batch.append((capture, unsent))
                size += unsent.size
        if not batch and not self._unacknowledged:
            self.sent_all.set()
        return batch
