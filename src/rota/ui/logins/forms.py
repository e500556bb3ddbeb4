"""The fields of a form that a page sends, bounded in size and number."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.requests import ClientDisconnect

from rota.api.requests import BODY_SECONDS, timed_out, unsupported
from rota.model.errors import Problem

MOST_BYTES = 16 * 1024
MOST_FIELDS = 20
_MEDIA = "application/x-www-form-urlencoded"


async def form_of(request: Request) -> dict[str, str]:
    """Each field once."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _MEDIA:
        raise unsupported("Unsupported media type", f"content-type is {media[:60]!r}; a form sends {_MEDIA}")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise Problem("payload-too-large", status=413, title="Too large", detail="the form is too large")
    except TimeoutError:
        raise timed_out("Too slow", "the form did not arrive in time; send it again") from None
    except ClientDisconnect:
        raise timed_out("Cut short", "the form ended early") from None
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise _malformed("it cannot be read as one") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _malformed("a field is in it twice")
    return fields


def _malformed(why: str) -> Problem:
    return Problem("malformed-form", status=400, title="Bad form", detail=f"this is not a form of this page: {why}")
