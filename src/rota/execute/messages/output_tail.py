"""The latest output of an attempt that has written more than is kept. Pure. Cheap to import: warm children use it too.

Pieces of both streams stand in the order in which they were written. The oldest bytes of a stream go first, and a small
stream is never cut for the sake of a large one.
"""

from __future__ import annotations

from collections import deque

PIECE_BYTES = 64 * 1024
_KEPT = 0  # the queue of pieces that are never cut


class Piece:
    """Bytes of one stream; `offset`: how many bytes of the stream came before."""

    __slots__ = ("data", "offset", "order", "queue", "stream")

    def __init__(self, order: int, queue: int, stream: int, offset: int, data: bytes | bytearray) -> None:
        self.order = order
        self.queue = queue
        self.stream = stream
        self.offset = offset
        self.data = bytearray(data)


def share_of(most_bytes: int, other_bytes: int) -> int:
    """How much of `most_bytes` a stream may hold while the other one has so much: at least half."""
    return most_bytes - min(other_bytes, most_bytes // 2)


class Tail:
    def __init__(self) -> None:
        self.sizes = [0, 0, 0]  # by queue: pieces that are never cut, stdout, stderr
        self._queues: tuple[deque[Piece], ...] = (deque(), deque(), deque())
        self._order = 0
        self._last: Piece | None = None

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def add(self, stream: int, offset: int, data: bytes, *, keep: bool = False) -> None:
        """`keep`: these bytes are never cut."""
        queue = _KEPT if keep else stream
        self.sizes[queue] += len(data)
        last = self._last
        if (
            last is not None
            and (last.queue, last.stream) == (queue, stream)
            and last.offset + len(last.data) == offset
            and len(last.data) + len(data) <= PIECE_BYTES
        ):
            last.data += data
            return
        self._order += 1
        self._last = Piece(self._order, queue, stream, offset, data)
        self._queues[queue].append(self._last)

    def cut(self, most_bytes: int, *, stored: tuple[int, int] = (0, 0)) -> int:
        """Drops the oldest bytes until both streams fit; `stored`: what servers have of each stream's tail."""
        first, second = self.sizes[1] + stored[0], self.sizes[2] + stored[1]
        return self._cut(1, share_of(most_bytes, second)) + self._cut(2, share_of(most_bytes, first))

    def _cut(self, stream: int, most_bytes: int) -> int:
        queue = self._queues[stream]
        dropped = 0
        while (surplus := self.sizes[stream] - most_bytes) > 0:
            piece = queue[0]
            count = min(surplus, len(piece.data))
            if count == len(piece.data):
                queue.popleft()
                if piece is self._last:
                    self._last = None
            else:
                del piece.data[:count]
                piece.offset += count
            self.sizes[stream] -= count
            dropped += count
        return dropped

    def take(self, at_most_bytes: int | None = None) -> list[Piece]:
        """The oldest pieces, in order: all, or those that begin within `at_most_bytes`."""
        taken: list[Piece] = []
        size = 0
        while at_most_bytes is None or size < at_most_bytes:
            fronts = [queue[0] for queue in self._queues if queue]
            if not fronts:
                break
            piece = min(fronts, key=lambda front: front.order)
            self._queues[piece.queue].popleft()
            self.sizes[piece.queue] -= len(piece.data)
            size += len(piece.data)
            taken.append(piece)
            if piece is self._last:
                self._last = None
        return taken
