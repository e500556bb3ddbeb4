"""The output of one attempt on its way to the servers: its beginning and its end are kept, what is between is counted.

The first output of each stream is the *head*: it is sent at once and stays. What follows is the *tail* (`TAIL_SEQ`):
until the limit is reached it is sent at once too; from then on newer pieces replace older ones, here before they are
sent and on the servers afterwards, and `is_over` says that they are sent at a slow pace. Every chunk tells where its
bytes begin in its stream, so that readers see what is left out. `pipes.py` reads the bytes, `shipping.py` sends them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from rota.execute.logs.spill import Extent
from rota.execute.messages.masking import StreamMasks
from rota.execute.messages.output_tail import Piece, Tail, share_of
from rota.model.attempt import TAIL_SEQ, Replaced
from rota.wire import LogChunk

INLINE_BYTES = 16 * 1024  # unsent output this small travels inside the result
LATE_INLINE_BYTES = 1024 * 1024  # and this much when there is no log connection
CHUNK_BYTES = 64 * 1024
TAIL_BYTES = 1024 * 1024  # of both streams; with a small limit, half of it
LEAST_HEAD_BYTES = 256 * 1024  # kept free for the head of the other stream; with a small limit, a quarter of the head
_CHUNKS_A_TAIL = 16
_LEAST_TAIL_CHUNK = 1024
_STANDARD_ERROR = 2
_ERROR_TAIL_BYTES = 2048
_STREAMS = (1, 2)


class Unsent(msgspec.Struct, eq=False):
    """A chunk that no server has stored yet: in memory, or (`data` is None) on this node's disk."""

    seq: int
    stream: int
    data: bytes | None
    size: int
    offset: int
    replaced: tuple[Replaced, ...] = ()
    extent: Extent | None = None


class Capture:
    """The output of one attempt. `pending` is not yet handed out; `unstored` is handed out, but not yet durable."""

    __slots__ = (
        "__weakref__",
        "_ends",
        "_first_tail",
        "_head_bytes",
        "_heads",
        "_is_head_closed",
        "_least_head",
        "_replaced_before",
        "_sent",
        "_sent_bytes",
        "_seq",
        "_tail",
        "attempt",
        "dropped_bytes",
        "error_tail",
        "is_over",
        "limit_bytes",
        "masks",
        "memory_bytes",
        "pending",
        "pending_bytes",
        "task",
        "unstored",
    )

    def __init__(self, task: int, attempt: int, limit_bytes: int, masks: StreamMasks | None = None) -> None:
        self.task = task
        self.attempt = attempt
        self.limit_bytes = limit_bytes
        self.masks = masks  # None: no secrets
        self.error_tail: bytes | None = None  # the end of standard error, for a caller that sets it to b""
        self.memory_bytes = TAIL_BYTES  # how much of an unsent tail this node's memory may hold
        self.is_over = False  # more than the limit was written: the tail is cut, and sent at a slow pace
        self.dropped_bytes = 0
        self.pending: list[Piece] = []
        self.pending_bytes = 0
        self.unstored: dict[int, Unsent] = {}
        self._head_bytes = limit_bytes - min(limit_bytes // 2, TAIL_BYTES)
        self._least_head = min(self._head_bytes // 4, LEAST_HEAD_BYTES)
        self._is_head_closed = False
        self._heads = [0, 0, 0]  # by stream, as all lists here
        self._ends = [0, 0, 0]  # how much each stream has written
        self._tail: Tail | None = None
        self._seq = 0
        self._sent: tuple[deque[tuple[int, int]], ...] = (deque(), deque(), deque())  # tail chunks: number, size
        self._sent_bytes = [0, 0, 0]
        self._first_tail = [0, 0, 0]
        self._replaced_before = [0, 0, 0]

    # ---- what is written -----------------------------------------------------------------------------------

    def add(self, stream: int, data: bytes) -> None:
        self._keep(stream, data if self.masks is None else self.masks.feed(stream, data))

    def end_masking(self) -> None:
        """The task has ended: keeps bytes that might have become a secret and did not."""
        if self.masks is not None:
            for stream, data in self.masks.finish():
                self._keep(stream, data)

    def skip(self, stream: int, count: int) -> None:
        """The writer itself left out so many bytes here."""
        self._ends[stream] += count
        self.dropped_bytes += count

    def close_head(self) -> None:
        """Nothing more is kept but the tail: nobody takes so much output now."""
        self._is_head_closed = self.is_over = True
        self._tail = self._tail or Tail()

    def _keep(self, stream: int, data: bytes) -> None:
        if not data:
            return
        if self.error_tail is not None and stream == _STANDARD_ERROR:
            self.error_tail = (self.error_tail + data)[-_ERROR_TAIL_BYTES:]
        offset = self._ends[stream]
        self._ends[stream] += len(data)
        left = self._head_left(stream)
        self._heads[stream] += min(left, len(data))
        if self._tail is None:
            if left:
                self._append(stream, offset, data[:left])
            if len(data) <= left:
                return
            self._tail = Tail()
        elif left:  # the other stream has begun its tail: what is written now comes after it
            self._tail.add(stream, offset, data[:left], keep=True)
        if len(data) > left:
            self._tail.add(stream, offset + left, data[left:])
        self._cut(self._tail)

    def _head_left(self, stream: int) -> int:
        if self._is_head_closed or (self._tail is not None and self._tail.sizes[0] >= self.memory_bytes // 4):
            return 0
        return min(self._head_bytes - self._least_head - self._heads[stream], self._head_bytes - sum(self._heads))

    def _cut(self, tail: Tail) -> None:
        most = self._tail_most
        first, second = self._sent_bytes[1], self._sent_bytes[2]
        if not self.is_over and first + second + tail.sizes[1] + tail.sizes[2] <= most:
            return
        self.is_over = True
        self.dropped_bytes += tail.cut(min(most, self.memory_bytes), stored=(first, second))

    @property
    def _tail_most(self) -> int:
        return min(self.limit_bytes - sum(self._heads), TAIL_BYTES + LEAST_HEAD_BYTES)

    def _append(self, stream: int, offset: int, data: bytes) -> None:
        self.pending_bytes += len(data)
        last = self.pending[-1] if self.pending else None
        if (
            last is not None
            and last.stream == stream
            and last.offset + len(last.data) == offset
            and len(last.data) + len(data) <= CHUNK_BYTES
        ):
            last.data += data
        else:
            self.pending.append(Piece(0, stream, stream, offset, data))

    # ---- what is kept --------------------------------------------------------------------------------------

    @property
    def kept_bytes(self) -> int:
        tail = 0 if self._tail is None else self._tail.sizes[1] + self._tail.sizes[2]
        return sum(self._heads) + sum(self._sent_bytes) + tail

    @property
    def unsent_bytes(self) -> int:
        """Everything that was not handed out yet."""
        return self.pending_bytes + (0 if self._tail is None else self._tail.size)

    @property
    def waiting_bytes(self) -> int:
        """What of it counts against the budget of waiting output: not a tail that is cut anyway."""
        return self.pending_bytes if self.is_over else self.unsent_bytes

    @property
    def has_unstored_tail(self) -> bool:
        return next(reversed(self.unstored), -1) >= TAIL_SEQ

    # ---- what is sent --------------------------------------------------------------------------------------

    def hand_out(self, tail_bytes: int | None = None) -> list[Unsent]:
        """What is pending, numbered on from what was handed out before; of the tail all, or its oldest pieces."""
        chunks = [self._numbered(piece) for piece in self.pending]
        self.pending.clear()
        self.pending_bytes = 0
        pieces = [] if self._tail is None else self._tail.take(tail_bytes)
        if pieces:
            self._seq = max(self._seq, TAIL_SEQ)
            for piece in pieces:
                chunks += self._tail_chunks(piece)
            chunks[-1].replaced = self._replace()
        return chunks

    def _tail_chunks(self, piece: Piece) -> Iterator[Unsent]:
        """Small chunks: they are replaced one by one, and with a large one much of a small tail would go."""
        size = min(max(self._tail_most // _CHUNKS_A_TAIL, _LEAST_TAIL_CHUNK), CHUNK_BYTES)
        for at in range(0, len(piece.data), size):
            part = Piece(piece.order, piece.queue, piece.stream, piece.offset + at, piece.data[at : at + size])
            unsent = self._numbered(part)
            if piece.queue == piece.stream:
                self._first_tail[piece.stream] = self._first_tail[piece.stream] or unsent.seq
                self._sent[piece.stream].append((unsent.seq, unsent.size))
                self._sent_bytes[piece.stream] += unsent.size
            yield unsent

    def _numbered(self, piece: Piece) -> Unsent:
        self._seq += 1
        return Unsent(self._seq - 1, piece.stream, bytes(piece.data), len(piece.data), piece.offset)

    def _replace(self) -> tuple[Replaced, ...]:
        """The chunks that no longer fit beside those just handed out: all ranges so far, in case one was lost."""
        most = self._tail_most
        for stream in _STREAMS:
            while self._sent_bytes[stream] > share_of(most, self._sent_bytes[3 - stream]):
                seq, size = self._sent[stream].popleft()
                self._sent_bytes[stream] -= size
                self.dropped_bytes += size
                self._replaced_before[stream] = seq + 1
        return tuple(
            Replaced(stream, self._first_tail[stream], self._replaced_before[stream])
            for stream in _STREAMS
            if self._replaced_before[stream]
        )

    def chunk(self, unsent: Unsent, data: bytes) -> LogChunk:
        return LogChunk(self.task, self.attempt, unsent.seq, unsent.stream, data, unsent.offset, unsent.replaced)

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
