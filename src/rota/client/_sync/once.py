# Generated from ../_async by scripts/unasync; edit that.
"""`client.once(key)`: an effect that must not happen twice, under a key that the program chooses.

Inside a task's function `ctx.once` is better: its claim lasts exactly as long as the attempt. Here a claim has a lease;
when it expires before the work is done, another caller may begin.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rota.client._sync.sender import Sender
from rota.client.calls import once_calls
from rota.client.errors import Refused, WaitTimeout
from rota.client.options import Duration
from rota.client.transport.blocking import sleep, value_of
from rota.model.answers.once import OnceDocument
from rota.model.once import without_result

LONGEST_PAUSE_SECONDS = 1.0


class Once:
    """One use of a key, as a context.

    with client.once("charge-42") as once:
        if once.first:
            receipt = charge()
            once.done(receipt)
    once.result
    """

    def __init__(self, client: Sender, key: str, *, lease: Duration, timeout: float | None) -> None:
        self.key = key
        self.first = False
        self.result: Any = None
        self._client = client
        self._lease = lease
        self._timeout = timeout
        self._claim = uuid.uuid4().hex
        self._is_done = False
        self._has_happened = False  # even if it could not be recorded: the claim is not released then

    def __enter__(self) -> Once:
        """Waits while another caller holds the claim; `WaitTimeout` when the time is up."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        pause = 0.05
        while (answer := self._claimed()) is None:
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"another caller is still doing {self.key!r} after {self._timeout:g} s", task_ids=())
            sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.first, self._is_done, self.result = answer.first, answer.done, answer.result
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the claim if `done` was not called: the next caller is first."""
        if self.first and not self._is_done and not self._has_happened:
            self._client.perform(once_calls.release(self.key, self._claim))

    def renew(self) -> None:
        """The lease begins anew. `Refused` when another caller has taken the claim."""
        self._client.perform(once_calls.claim(self.key, self._claim, self._lease))

    def done(self, result: object = None) -> None:
        """Records that it is done. `Refused` with slug `claim-lost` when another caller has taken the claim.

        `OnceError` if the result can't be stored: it is recorded as done all the same, without a result.
        """
        if not self.first:
            raise RuntimeError(
                f"{self.key!r} was done, or is being done, by another caller: check `first` before you do it"
            )
        self._has_happened = True
        fault = once_calls.fault_of(result)
        if not fault:
            try:
                self._client.perform(once_calls.record(self.key, result, self._claim))
            except Refused as refusal:
                if refusal.slug == "claim-lost":
                    raise
                fault = str(refusal)
        if fault:
            self._client.perform(once_calls.record(self.key, None, self._claim))
        self._is_done = True
        if fault:
            raise without_result(self.key, fault)
        self.result = result

    def run(self, function: Callable[[], Any]) -> Any:
        """The function's value, or the result that was recorded the first time."""
        with self:
            if self.first:
                self.done(value_of(function))
        return self.result

    def _claimed(self) -> OnceDocument | None:
        """None while another caller holds the claim."""
        try:
            return self._client.perform(once_calls.claim(self.key, self._claim, self._lease))
        except Refused as refusal:
            if refusal.slug != "once-claimed":
                raise
            return None
