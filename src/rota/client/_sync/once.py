"""`client.once(key)`: an effect that must not happen twice, for programs with a key of their own.

Inside a task's function `ctx.once` is better: its claim holds exactly as long as the attempt runs. Here a claim has a
lease; who needs longer than that may find that another has begun.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rota.client.calls.task_calls import Call, post
from rota.client.errors import Refused, WaitTimeout
from rota.client.options import Duration, plain_duration
from rota.model.answers.once import OnceDocument
from rota.model.once import MOST_RESULT_BYTES, without_result
from rota.model.strict_json import NotJson, encode

Perform = Callable[[Call[Any]], Any]

LONGEST_PAUSE_SECONDS = 1.0


def ask(key: str, claim: str, lease: Duration) -> Call[OnceDocument]:
    """May I do it? The claim is the caller's own, so asking twice is asking once."""
    body = {"key": key, "claim": claim, "lease": plain_duration(lease)}
    return post("/v1/once", OnceDocument, body, repeatable=True)


def record(key: str, result: object, claim: str | None = None) -> Call[OnceDocument]:
    """It is done. Without a claim a repeated call can't tell its own record from another's, but never records twice."""
    body = {"key": key, "result": result} | ({} if claim is None else {"claim": claim})
    return post("/v1/once", OnceDocument, body, repeatable=True)


def release(key: str, claim: str) -> Call[OnceDocument]:
    return post("/v1/once", OnceDocument, {"key": key, "claim": claim, "release": True}, repeatable=True)


def trouble_with(result: object) -> str:
    """Why a result can't be kept, in one sentence; "": it can, as far as can be told here."""
    try:
        size_bytes = len(encode(result))
    except NotJson as error:
        return str(error)
    too_large = f"it has {size_bytes} bytes of JSON; at most {MOST_RESULT_BYTES} are kept"
    return too_large if size_bytes > MOST_RESULT_BYTES else ""


class Once:
    """One use of a key, as a context.

    with client.once("charge-42") as once:
        if once.first:
            once.done(charge())
    once.result
    """

    def __init__(self, perform: Perform, key: str, *, lease: Duration, timeout: float | None) -> None:
        self.key = key
        self.first = False
        self.result: Any = None
        self._perform = perform
        self._lease = lease
        self._timeout = timeout
        self._claim = uuid.uuid4().hex
        self._is_done = False
        self._has_happened = False  # whether or not it could be recorded: it is not given up then

    def __enter__(self) -> Once:
        """Waits while another is doing it; `WaitTimeout` when the time is up."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        pause = 0.05
        while (found := self._claimed()) is None:
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"another is still doing {self.key!r} after {self._timeout:g} s", task_ids=())
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.first, self._is_done, self.result = found.first, found.done, found.result
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Left without `done`, it was not done: the next who asks is first."""
        if self.first and not self._is_done and not self._has_happened:
            self._perform(release(self.key, self._claim))

    def renew(self) -> None:
        """The lease begins anew. `Refused` when another has taken it."""
        self._perform(ask(self.key, self._claim, self._lease))

    def done(self, result: object = None) -> None:
        """Records that it is done. `Refused` with slug `claim-lost` when another has taken it meanwhile.

        `OnceError` if the result can't be kept: it is recorded as done all the same, without one.
        """
        if not self.first:
            raise RuntimeError(f"{self.key!r} was not yours to do: look at `first` before you do it")
        self._has_happened = True
        trouble = trouble_with(result)
        if not trouble:
            try:
                self._perform(record(self.key, result, self._claim))
            except Refused as refusal:
                if refusal.slug == "claim-lost":
                    raise
                trouble = str(refusal)
        if trouble:
            self._perform(record(self.key, None, self._claim))
        self._is_done = True
        if trouble:
            raise without_result(self.key, trouble)
        self.result = result

    def _claimed(self) -> OnceDocument | None:
        try:
            found: OnceDocument = self._perform(ask(self.key, self._claim, self._lease))
        except Refused as refusal:
            if refusal.slug != "once-claimed":
                raise
            return None
        return found
