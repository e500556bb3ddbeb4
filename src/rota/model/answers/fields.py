"""The rules that all answers keep.

* A client ignores fields that it does not know, so that a server may add some.
* A field that an older server does not send has a default, which a client reads in its place.
* A server sends every field, and null for a value that there is not. A field that it leaves out of some answers is
  marked `MayBeAbsent`: the server gives it `LEFT_OUT`, or builds the answer with `only`.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

ABSENT_MARK = "x-may-be-absent"  # in JSON Schema; taken out again by `api/openapi.py`

Time = Annotated[datetime, Meta(tz=True)]
MayBeAbsent = Annotated[T, Meta(extra_json_schema={ABSENT_MARK: True})]
LEFT_OUT: Any = UNSET  # any, because it is for the encoder and never read


def only(kind: type[S], /, **fields: Any) -> S:
    """An answer of these fields; the others are left out."""
    blank: S = _blank(kind)
    return msgspec.structs.replace(blank, **fields)


@cache
def _blank(kind: type[S]) -> S:
    return kind(**dict.fromkeys(kind.__struct_fields__, LEFT_OUT))
