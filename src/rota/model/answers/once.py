"""Effects that must not happen twice: claims and recorded results."""

from __future__ import annotations

from typing import Any

import msgspec


class OnceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`first`: yours to do (or, when `done`, recorded just now). Else it was done, with this result."""

    key: str = ""
    first: bool = False
    done: bool = False
    result: Any = None
    claim: str | None = None
    lease_seconds: float | None = None
    released: bool = False
