"""Uploads and downloads over HTTP: bodies as streams, digests in headers, ranges, and streamed answers.

Only one piece of a body is in memory. A body that stalls is refused. If a stored object is damaged, its answer ends
short of the announced length, so that no client accepts it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import structlog
from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Send

from rota.admit.artifacts import UPLOAD_AGAIN, Artifacts, Damaged, Expected
from rota.api.requests import timed_out, unsupported
from rota.model.artifact import digest_of, identity
from rota.model.errors import Fault, Problem, invalid
from rota.store.artifacts import ArtifactRow

log = structlog.get_logger()

SLOWEST_BYTES_PER_SECOND = 512  # of an upload

_RANGE = re.compile(r"^bytes=(\d{0,19})-(\d{0,19})\Z", re.ASCII)
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):", re.ASCII)


async def body_stream(request: Request, *, stall_seconds: float) -> AsyncIterator[bytes]:
    """The body, piece by piece. A body that ends early is a Problem, and so is one that brings too little in a while.

    Only the time spent waiting for the client counts, not that of whoever stores the pieces.
    """
    clock = asyncio.get_running_loop().time
    least = int(stall_seconds * SLOWEST_BYTES_PER_SECOND)
    pieces = request.stream()
    waited, arrived = 0.0, 0
    while True:
        began = clock()
        try:
            async with asyncio.timeout(stall_seconds - waited):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            why = f"{arrived} bytes of the body arrived in {stall_seconds:g} s; send at least {least}"
            raise timed_out("Too slow", why) from None
        except ClientDisconnect:
            raise timed_out("Cut short", "the body ended early") from None
        waited, arrived = waited + clock() - began, arrived + len(piece)
        if arrived >= least:
            waited, arrived = 0.0, 0
        if piece:
            yield piece


def expected_of(request: Request) -> Expected:
    """The size and digest in the headers: `Content-Length`, and `X-Rota-Sha256` or `Content-Digest`."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        why = f"content-encoding {encoding[:40]!r} is not taken here; send the bytes as they are"
        raise unsupported("Unsupported encoding", why)
    length = request.headers.get("content-length", "")
    return Expected(_digest_of(request), int(length) if length.isascii() and length.isdigit() else None)


def _digest_of(request: Request) -> bytes | None:
    plain, standard = request.headers.get("x-rota-sha256"), request.headers.get("content-digest")
    found: set[bytes] = set()
    if plain is not None:
        digest = digest_of(plain.strip())
        if digest is None:
            raise invalid([Fault("/x-rota-sha256", "invalid-digest", "a SHA-256 digest has 64 hexadecimal digits")])
        found.add(digest)
    if standard is not None and (match := _DIGEST.search(standard)) is not None:
        try:
            found.add(base64.b64decode(match[1], validate=True))
        except (binascii.Error, ValueError):
            found.add(b"")
    if len(found) > 1 or any(len(digest) != 32 for digest in found):
        raise invalid(
            [
                Fault(
                    "/content-digest",
                    "invalid-digest",
                    "write sha-256=:BASE64:, with the digest of the bytes that are sent, the same in every header",
                )
            ]
        )
    return found.pop() if found else None


@dataclass(frozen=True, slots=True)
class Content:
    """A stored object to answer with."""

    object_key: str
    sha256: bytes
    size_bytes: int
    name: str
    advice: str = UPLOAD_AGAIN  # if it is damaged; "": there is no remedy


async def artifact_response(request: Request, artifacts: Artifacts, row: ArtifactRow) -> Response:
    return await content_response(request, artifacts, Content(row.object_key, row.sha256, row.size_bytes, row.name))


async def content_response(request: Request, artifacts: Artifacts, content: Content) -> Response:
    """The whole object, or one requested range."""
    size, tag = content.size_bytes, f'"{identity(content.sha256)}"'
    chosen = _range_of(request, size, tag)
    start, end = chosen or (0, size)
    stream = await artifacts.open(
        content.object_key, sha256=content.sha256, size_bytes=size, start=start, end=end, advice=content.advice
    )
    headers = {
        "content-length": str(end - start),
        "accept-ranges": "bytes",
        "etag": tag,
        "x-rota-sha256": content.sha256.hex(),
        # A browser must neither guess the type of the bytes nor show them.
        "x-content-type-options": "nosniff",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(content.name.rpartition('/')[2] or 'artifact')}",
    }
    if chosen is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    return _Streamed(stream, 206 if chosen else 200, headers, "application/octet-stream")


def _range_of(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """One range as (start, end); None for the whole object, also if the header has several ranges or is unknown."""
    match = _RANGE.match(request.headers.get("range", ""))
    if match is None or match[0] == "bytes=-" or request.headers.get("if-range", tag) != tag:
        return None
    first, last = match[1], match[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= end:
        raise Problem(
            "range-not-satisfiable",
            status=416,
            title="No such range",
            detail=f"there are {size} bytes, numbered from 0",
            extra={"size_bytes": size},
        )
    return start, end


class _Streamed(StreamingResponse):
    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (Damaged, Problem) as error:
            # The status was sent already. Ending without the last bytes makes the server close the connection.
            log.error("artifacts.answer_broken_off", reason=str(error) or "the object is damaged")
