"""Reading requests: body, ids, query parameters, cursors. Each refusal is a Problem."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect

from rota.admit.body import decode
from rota.api.described import MOST_LISTED
from rota.model.accounts.permissions import MEANING, Scope
from rota.model.errors import Fault, Problem, invalid, not_found, unavailable
from rota.model.tenant import Caller, SubmittingTask
from rota.model.units import milliseconds_of

BODY_SECONDS = 30.0
SMALL_BODY = 64 * 1024
MOST_ARRIVING = 256 * 1024 * 1024

_VERSION = re.compile(r'^(?:W/)?"?(\d{1,9})"?$', re.ASCII)
_SECONDS = re.compile(r"^\d{1,6}(\.\d{1,6})?\Z", re.ASCII)

T = TypeVar("T", bound=msgspec.Struct)
Found = TypeVar("Found")


def check_scope(caller: Caller, scope: Scope) -> Caller:
    if not caller.may(scope):
        raise Problem(
            "missing-scope",
            status=403,
            title="Forbidden",
            detail=f"this needs the scope {scope.value} ({MEANING[scope]}), which {_whose(caller)} does not have",
            extra={"needed": scope.value},
        )
    return caller


def check_pool(caller: Caller, pool: str) -> None:
    """Operators of some pools change these and their nodes only."""
    if not caller.may_change(pool):
        own = ", ".join(sorted(caller.pools or ()))
        raise Problem(
            "wrong-pool",
            status=403,
            title="Forbidden",
            detail=f"{_whose(caller)} may change the nodes of {own or 'no pool'}, not of {pool}",
        )


def _whose(caller: Caller) -> str:
    return f"your role {caller.role.value}" if caller.session_id else f"this token ({caller.role.value})"


def check_restrictions(request: Request, caller: Caller, *, by_restricted: bool) -> None:
    """A token that is for some tasks only opens the routes that keep it to these, from the networks it is for."""
    limits = caller.restrictions
    if not limits.allows_address(request.client.host if request.client else None):
        networks = ", ".join(map(str, limits.networks))
        raise Problem(
            "wrong-address",
            status=403,
            title="Forbidden",
            detail=f"this token may be used from {networks} only, not from {request.client and request.client.host}",
        )
    if limits.of_tasks and not by_restricted:
        raise beyond_restrictions(caller, f"not for {request.method} {request.url.path}"[:200])


def beyond_restrictions(caller: Caller, refused: str) -> Problem:
    """A request for something that a restricted token is not for. `refused`: what it asked for, as `not …`."""
    return Problem(
        "restricted-token",
        status=403,
        title="Forbidden",
        detail=f"this token is for {caller.restrictions.text()} only, {refused}",
    )


def beyond_key(refused: str) -> Problem:
    """A request that the key of a running task does not allow. `refused`: what it asked for, as `not …`."""
    return Problem("forbidden", status=403, title="Forbidden", detail=f"{SubmittingTask.MAY}; {refused}")


def unsupported(title: str, detail: str) -> Problem:
    return Problem("unsupported-media-type", status=415, title=title, detail=detail)


def timed_out(title: str, detail: str) -> Problem:
    return Problem("request-timeout", status=408, title=title, detail=detail)


class _Arriving:
    """Bytes in memory of bodies that are not complete yet, of this process.

    Many slow and large bodies must not use up its memory. Small ones are always taken: they are most of the work.
    """

    def __init__(self) -> None:
        self.total = 0

    def add(self, part: int, size: int) -> None:
        """Counts a part of a body that has `size` bytes with it."""
        if size > SMALL_BODY and self.total + part > MOST_ARRIVING:
            raise unavailable("too many large bodies are on their way to this server node; try again", 5.0)
        self.total += part


_arriving = _Arriving()


async def read_body(request: Request, *, limit: int, media: str = "application/json") -> bytes:
    """The whole body, decompressed, or a Problem before more than `limit` bytes are in memory."""
    _check_content_type(request, media)
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise unsupported("Unsupported encoding", f"content-encoding {encoding[:40]!r} is unknown; send gzip or none")
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                _arriving.add(len(part), size)
                parts.append(part)
    except TimeoutError:
        raise timed_out("Too slow", f"the body did not arrive within {BODY_SECONDS:g} s; send it again") from None
    except ClientDisconnect:
        raise timed_out("Cut short", "the body ended early") from None
    finally:
        _arriving.total -= sum(map(len, parts))
    body = b"".join(parts)
    return _inflate(body, limit) if encoding == "gzip" else body


def _check_content_type(request: Request, wanted: str) -> None:
    media = request.headers.get("content-type", wanted).partition(";")[0].strip().lower()
    if media != wanted:
        raise unsupported("Unsupported media type", f"content-type is {media[:60]!r}; send {wanted}")


def _inflate(body: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise Problem("malformed-json", status=400, title="Bad body", detail="the body is not gzip") from None
    if len(plain) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise Problem("malformed-json", status=400, title="Bad body", detail="the body is not one whole gzip")
    return plain


def _too_large(limit: int) -> Problem:
    return Problem(
        "payload-too-large",
        status=413,
        title="The body is too large",
        detail=f"the body may have at most {limit:,} bytes",
    )


async def read_json(request: Request, kind: type[T], *, limit: int = SMALL_BODY) -> T:
    return decode(await read_body(request, limit=limit), kind)


def existing(found: Found | None, what: str = "task") -> Found:
    """404 instead of None."""
    if found is None:
        raise not_found(what)
    return found


def given(change: msgspec.Struct) -> dict[str, Any]:
    """The fields that a request for a change has."""
    return {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}


def digits(text: str | None, most: int = 18) -> int | None:
    """The number; None unless the text is 1 to `most` digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= most else None


def task_id(text: str, what: str = "task") -> int:
    """An id from a path. A malformed id is not found, as an unused one."""
    number = digits(text, 19)
    return existing(number if number and number < 2**63 else None, what)


def parent_of(request: Request) -> int | None:
    """The running task that sent the request, whose graph the new tasks join. None unless the header is an id."""
    return digits(request.headers.get("rota-parent"))


def if_match(request: Request) -> int | None:
    """The version in the header If-Match; None without the header."""
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = _VERSION.match(text)
    if match is None:
        raise invalid(
            [
                Fault(
                    "/If-Match",
                    "out-of-range",
                    f"If-Match is the version of the task that you read, such as 3, not {text[:40]!r}",
                )
            ]
        )
    return int(match[1])


def limit_of(query: Mapping[str, str], default: int = 50) -> int:
    return whole_number(query, "limit", default=default, least=1, most=MOST_LISTED)


def whole_number(query: Mapping[str, str], name: str, *, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    number = digits(text, 19)
    if number is None or not least <= number <= most:
        why = f"{name} is a whole number from {least:,} to {most:,}, not {text[:40]!r}"
        raise invalid([Fault(f"/{name}", "out-of-range", why)])
    return number


def seconds_of(query: Mapping[str, str], name: str, *, most: float) -> float:
    text = query.get(name, "0")
    if not _SECONDS.match(text) or float(text) > most:
        why = f"{name} is a number of seconds from 0 to {most:g}, not {text[:40]!r}"
        raise invalid([Fault(f"/{name}", "out-of-range", why)])
    return float(text)


def truth_of(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = query.get(name, "true" if default else "false")
    if text not in ("true", "false"):
        raise invalid([Fault(f"/{name}", "invalid-filter", f"{name} is true or false, not {text[:40]!r}")])
    return text == "true"


def when_of(query: Mapping[str, str], name: str) -> datetime | None:
    """A duration before now by the server's clock, or a time."""
    return time_of(query.get(name), name)


def time_of(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        ago = milliseconds_of(text)
        return datetime.now(UTC) - timedelta(milliseconds=ago) if ago >= 0 else _no_time(name, text)
    except (ValueError, OverflowError):
        pass  # perhaps a time
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else _no_time(name, text)
    except (ValueError, OverflowError):
        return _no_time(name, text)


def text_of(query: Mapping[str, str], name: str) -> str | None:
    """A name to filter by."""
    text = query.get(name)
    if text is not None and "\0" in text:  # PostgreSQL text has no NUL
        raise invalid([Fault(f"/{name}", "invalid-filter", f"{name} has no NUL character; {text[:40]!r} has one")])
    return text


def number_of(query: Mapping[str, str], name: str) -> int | None:
    """An id to filter by."""
    text = query.get(name)
    number = digits(text)
    if text is not None and not number:
        raise invalid(
            [Fault(f"/{name}", "invalid-filter", f"{name} is a positive whole number, an id, not {text[:40]!r}")]
        )
    return number


def _no_time(name: str, text: str) -> NoReturn:
    right = f"{name} is a duration before now, like 10m, or a time with its offset, like 2026-03-01T08:00:00Z"
    raise invalid([Fault(f"/{name}", "invalid-filter", f"{right}; not {text[:40]!r}")])


class Cursors:
    """Page cursors: the next page begins below this id. Signed, so that a forged cursor is refused."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(f"cursor:{secret}".encode()).digest()

    def make(self, before: int | None) -> str | None:
        """None if there is no next page."""
        if before is None:
            return None
        number = before.to_bytes(8, "big")
        return base64.urlsafe_b64encode(number + self._sign(number)).decode().rstrip("=")

    def read(self, text: str | None, default: int) -> int:
        if text is None:
            return default
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 16 or not hmac.compare_digest(self._sign(raw[:8]), raw[8:]):
            raise Problem(
                "invalid-cursor",
                status=400,
                title="The cursor is not valid",
                detail=(
                    "cursor is the `next` of an earlier answer, unchanged, "
                    f"not {text[:40]!r}; leave it out for the first page"
                ),
            )
        return int.from_bytes(raw[:8], "big")

    def _sign(self, number: bytes) -> bytes:
        return hmac.new(self._key, number, hashlib.sha256).digest()[:8]
