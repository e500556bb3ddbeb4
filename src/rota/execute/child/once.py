"""`ctx.once(key)`: an effect that must not happen twice. Loaded only by children that use it.

with ctx.once("charge-42") as once:
    if once.first:
        once.done(charge())
once.result    # what was recorded, by us or by whoever was first
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType

import msgspec

from rota.model import strict_json
from rota.model.once import LONGEST_KEY, MOST_RESULT_BYTES, OnceAnswer, OnceAsk, OnceError, without_result

Ask = Callable[[OnceAsk], OnceAnswer]

_POLL_SECONDS = (0.05, 1.0)


class Once:
    """One use of a key. `first`: the caller must do it. `result`: the recorded value; None until then."""

    def __init__(self, key: str, ask: Ask) -> None:
        if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
            raise ValueError(f"a key is text of 1 to {LONGEST_KEY} characters, not {key!r:.60}")
        self.key = key
        self.first = False
        self.result: object = None
        self._is_done = False
        self._has_happened = False  # even if it could not be recorded: the next caller must not do it again
        self._ask = ask
        self._nonce = os.urandom(8).hex()

    def __enter__(self) -> Once:
        """Waits while another attempt is doing it."""
        pause = _POLL_SECONDS[0]
        while True:
            answer = self._say("claim")
            if answer.state == "first":
                self.first = True
                return self
            if answer.state == "done":
                self._is_done = True
                self.result = msgspec.json.decode(answer.result)
                return self
            time.sleep(pause)
            pause = min(2 * pause, _POLL_SECONDS[1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Left without `done`, it was not done: the next caller is first."""
        if self.first and not self._is_done and not self._has_happened:
            self._say("give-up")

    def done(self, result: object = None) -> None:
        """Records that it is done, with its result. `OnceError`: the result can't be kept; it is recorded without."""
        if not self.first:
            raise OnceError(
                f"{self.key!r} was done, or is being done, by another caller: check `first` before you do it"
            )
        self._has_happened = True
        try:
            self._record(_encoded(result))
        except (strict_json.NotJson, _NotTaken) as trouble:
            self._record(b"null")
            raise without_result(self.key, trouble) from None
        self.result = result

    def _record(self, encoded: bytes) -> None:
        answer = self._ask(self._asking("done", encoded))
        if answer.state == "refused":
            raise OnceError(answer.message) if encoded == b"null" else _NotTaken(answer.message)
        if answer.state != "first":
            raise OnceError(
                f"{self.key!r} has another caller's claim now: the lease expired before the result was recorded"
            )
        self._is_done = True

    def _say(self, word: str) -> OnceAnswer:
        answer = self._ask(self._asking(word))
        if answer.state == "refused":
            raise OnceError(answer.message)
        return answer

    def _asking(self, action: str, result: bytes = b"") -> OnceAsk:
        return OnceAsk(action=action, key=self.key, nonce=self._nonce, result=result.decode())


class _NotTaken(Exception):
    """No server keeps this result."""


def _encoded(result: object) -> bytes:
    encoded = strict_json.encode(result)
    if len(encoded) > MOST_RESULT_BYTES:
        raise _NotTaken(f"it has {len(encoded)} bytes of JSON; at most {MOST_RESULT_BYTES} are kept")
    return encoded


def run(once: Once, function: Callable[[], object]) -> object:
    """The function's value if this is the first time, else the recorded value."""
    with once:
        if once.first:
            value = function()
            if hasattr(value, "__await__"):
                raise TypeError("ctx.once takes a plain function, not an async one; use it as a context")
            once.done(value)
    return once.result
