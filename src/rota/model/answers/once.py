"""Effects that must not happen twice: claims and recorded results."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.answers.fields import MayBeAbsent


class OnceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`first`: the caller does it, or has just recorded it. Otherwise it was done before, with this result."""

    key: str = ""
    first: MayBeAbsent[bool] = False
    done: MayBeAbsent[bool] = False
    result: MayBeAbsent[Any] = None
    claim: MayBeAbsent[str | None] = None
    lease_seconds: MayBeAbsent[float | None] = None
    released: MayBeAbsent[bool] = False
