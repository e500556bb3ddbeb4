"""`ctx.once(key)`: an effect that must not happen twice, as a function sees it. Loaded by children that use it.

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

from rota.execute import strict_json
from rota.model.once import LONGEST_KEY, MOST_RESULT_BYTES, OnceAnswer, OnceAsk

Ask = Callable[[OnceAsk], OnceAnswer]

_LOOK_SECONDS = (0.05, 1.0)


class OnceError(RuntimeError):
    """It can't be told whether it was done, or no longer be recorded; the text says why."""


class Once:
    """One use of a key. `first`: it is yours to do. `result`: what was recorded; None until then."""

    def __init__(self, key: str, ask: Ask) -> None:
        if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
            raise ValueError(f"a key is text of 1 to {LONGEST_KEY} characters, not {key!r:.60}")
        self.key = key
        self.first = False
        self.result: object = None
        self._is_done = False
        self._ask = ask
        self._nonce = os.urandom(8).hex()

    def __enter__(self) -> Once:
        """Waits while another is doing it."""
        pause = _LOOK_SECONDS[0]
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
            pause = min(2 * pause, _LOOK_SECONDS[1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Left without `done`, it was not done: the next who asks is first."""
        if self.first and not self._is_done:
            self._say("give-up")

    def done(self, result: object = None) -> None:
        """Records that it is done, and what came of it."""
        if not self.first:
            raise OnceError(f"{self.key!r} was not yours to do: look at `first` before you do it")
        encoded = strict_json.encode(result)
        if len(encoded) > MOST_RESULT_BYTES:
            raise ValueError(
                f"the result of {self.key!r} has {len(encoded)} bytes; at most {MOST_RESULT_BYTES} are kept"
            )
        answer = self._say("done", encoded)
        if answer.state != "first":
            raise OnceError(f"{self.key!r} was taken over by another before it was recorded")
        self._is_done = True
        self.result = result

    def _say(self, word: str, result: bytes = b"") -> OnceAnswer:
        answer = self._ask(OnceAsk(say=word, key=self.key, nonce=self._nonce, result=result.decode()))
        if answer.state == "refused":
            raise OnceError(answer.message)
        return answer


def run(once: Once, function: Callable[[], object]) -> object:
    """What the function returns if it is the first, else what was recorded."""
    with once:
        if once.first:
            value = function()
            if hasattr(value, "__await__"):
                raise TypeError("ctx.once takes a plain function, not an async one; use it as a context")
            once.done(value)
    return once.result
