"""Messages about effects that happen once, between a task, its agent and a server node."""

from __future__ import annotations

import msgspec

LONGEST_KEY = 500
MOST_RESULT_BYTES = 64 * 1024


class OnceError(RuntimeError):
    """It is unknown whether the effect happened, or it can't be recorded; the text says why."""


def without_result(key: str, why: object) -> OnceError:
    """The effect is recorded although its result can't be: doing it again would be worse."""
    return OnceError(f"{key!r} is done and recorded, but without its result: {why}")


class OnceAsk(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request of an attempt, sent through its agent: claim an effect, record it as done, or give it up."""

    task: int = 0
    attempt: int = 0
    action: str  # claim | done | give-up
    key: str
    nonce: str  # of this use: two threads of one attempt are two callers
    result: str = ""  # JSON as text; only with `done`


class OnceAnswer(msgspec.Struct, kw_only=True):
    """`first`: the caller has the claim, or its effect is recorded. `done`: it happened before, with this result.
    `taken`: another caller has the claim. `lost`: another caller took the claim over. `refused`: see `message`.
    """

    state: str
    result: str = "null"  # JSON as text
    retry_after_seconds: float = 0.0
    message: str = ""
