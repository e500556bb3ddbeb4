"""Segments of long output: their format, and reading them from the object store.

An object is compressed msgpack: chunks with their numbers, streams and times. The last few segments are cached, since a
reader mostly wants a neighbour of the last one. If an object is missing or damaged, a line in the output says so.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog

from rota.model.clock import to_us
from rota.model.errors import Problem
from rota.store.objects import ObjectMissing, ObjectStore

log = structlog.get_logger()

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENT_CHUNKS = 5_000
_KEPT_IN_MEMORY = 8
_STANDARD_ERROR = 2


class StoredChunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of output. `at_us`: when it reached a server."""

    seq: int
    stream: int
    at_us: int
    data: bytes
    offset: int = -1  # how many bytes of its stream came before; -1: unknown


def offset_of(column: int | None) -> int:
    return -1 if column is None else column


class _Content(msgspec.Struct, frozen=True, array_like=True):
    version: int
    chunks: list[StoredChunk]


_decoder = msgspec.msgpack.Decoder(_Content)


@dataclass(frozen=True, slots=True)
class Segment:
    """The range and the object of a part of an attempt's output."""

    first_seq: int
    last_seq: int
    object_key: str
    stored_bytes: int
    size_bytes: int


def encode(chunks: list[StoredChunk]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(_Content(1, chunks)), level=1)


def decode(data: bytes) -> list[StoredChunk]:
    """Raises ValueError if `encode` did not make the data."""
    try:
        content = _decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(f"not a segment of a log: {error}") from None
    if content.version != 1:
        raise ValueError(f"a segment of version {content.version}, which this server does not know")
    return content.chunks


class Segments:
    """The segments of one process, with a small cache."""

    def __init__(self, objects: ObjectStore | None) -> None:
        self.objects = objects
        self._recent: OrderedDict[str, list[StoredChunk]] = OrderedDict()

    async def put(self, object_key: str, body: bytes) -> None:
        assert self.objects is not None, "nothing is moved without an object store"
        await self.objects.put(object_key, _whole(body))

    async def fetch(self, segment: Segment) -> list[StoredChunk]:
        """The chunks of the segment. Raises a 503 while the object store is unreachable."""
        found = self._recent.get(segment.object_key)
        if found is not None:
            self._recent.move_to_end(segment.object_key)
            return found
        if self.objects is None:
            raise Problem(
                "no-object-store",
                status=503,
                title="This part of the log can't be read here",
                detail="it is in the object store, and this server node has none; its operator sets one with --objects",
            )
        try:
            parts = self.objects.read(
                segment.object_key, start=0, end=segment.stored_bytes, size_bytes=segment.stored_bytes
            )
            data = b"".join([part async for part in parts])
            chunks = await asyncio.to_thread(decode, data)
        except (ObjectMissing, ValueError) as error:
            log.error("logs.damaged", object_key=segment.object_key, error=str(error)[:200])
            return [_instead_of(segment)]
        self._recent[segment.object_key] = chunks
        while len(self._recent) > _KEPT_IN_MEMORY:
            self._recent.popitem(last=False)
        return chunks


def since_us(since: datetime | None) -> int:
    return 0 if since is None else to_us(since)


def _instead_of(segment: Segment) -> StoredChunk:
    notice = f"\n[rota: {segment.size_bytes} bytes of output are missing here: their object is gone or damaged]\n"
    return StoredChunk(segment.last_seq, _STANDARD_ERROR, 2**62, notice.encode())


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
