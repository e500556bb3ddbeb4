"""Why somebody changes a task: one line, which the task, its history and the audit log show."""

from __future__ import annotations

import msgspec
from fastapi import Request

from rota.admit.body import decode
from rota.api.requests import read_body
from rota.model.errors import Fault, invalid

LONGEST_REASON = 200
_SMALL_BODY = 64 * 1024


class ReasonRequest(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = ""


async def read_reason(request: Request) -> str:
    """Of a request whose body is optional."""
    body = await read_body(request, limit=_SMALL_BODY)
    return checked_reason((decode(body, ReasonRequest) if body else ReasonRequest()).reason, "/reason")


def checked_reason(reason: str, pointer: str) -> str:
    reason = reason.strip()
    if len(reason) > LONGEST_REASON or not (reason.isprintable() or not reason):
        detail = f"a reason is one line of at most {LONGEST_REASON} characters"
        raise invalid([Fault(pointer, "out-of-range", detail)])
    return reason
