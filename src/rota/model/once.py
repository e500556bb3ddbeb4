"""Words about effects done once, between a task, its agent and a server node. Cheap to import: warm children do."""

from __future__ import annotations

import msgspec

LONGEST_KEY = 500
MOST_RESULT_BYTES = 64 * 1024


class OnceError(RuntimeError):
    """It can't be told whether it was done, or no longer be recorded; the text says why."""


def without_result(key: str, why: object) -> OnceError:
    """For who did it and whose result can't be kept: that it is done is recorded, for to do it again would be worse."""
    return OnceError(f"{key!r} is done and recorded, but without its result: {why}")


class OnceAsk(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an attempt asks through its agent. `say`: claim it, record that it is done, or give it up."""

    task: int = 0
    attempt: int = 0
    say: str  # claim | done | give-up
    key: str
    nonce: str  # of this use: two threads of one attempt are two who ask
    result: str = ""  # JSON as text; only with `done`


class OnceAnswer(msgspec.Struct, kw_only=True):
    """`first`: yours to do, or recorded. `done`: it was, with this result. `taken`: another is at it. `lost`: another
    took it over. `refused`: `message` says why.
    """

    state: str
    result: str = "null"  # JSON as text
    retry_after_seconds: float = 0.0
    message: str = ""
