"""`client.once(key)`, awaited: an effect that must not happen twice. Its twin is `once.py`; they share requests."""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from rota.client._sync.once import LONGEST_PAUSE_SECONDS, ask, record, release, trouble_with
from rota.client.calls.task_calls import Call
from rota.client.errors import Refused, WaitTimeout
from rota.client.options import Duration
from rota.model.answers.once import OnceDocument
from rota.model.once import without_result

Perform = Callable[[Call[Any]], Awaitable[Any]]


class AsyncOnce:
    """One use of a key, as a context.

    async with client.once("charge-42") as once:
        if once.first:
            await once.done(await charge())
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

    async def __aenter__(self) -> AsyncOnce:
        """Waits while another is doing it; `WaitTimeout` when the time is up."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        pause = 0.05
        while (found := await self._claimed()) is None:
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"another is still doing {self.key!r} after {self._timeout:g} s", task_ids=())
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.first, self._is_done, self.result = found.first, found.done, found.result
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Left without `done`, it was not done: the next who asks is first."""
        if self.first and not self._is_done and not self._has_happened:
            await self._perform(release(self.key, self._claim))

    async def renew(self) -> None:
        """The lease begins anew. `Refused` when another has taken it."""
        await self._perform(ask(self.key, self._claim, self._lease))

    async def done(self, result: object = None) -> None:
        """Records that it is done. `Refused` with slug `claim-lost` when another has taken it meanwhile.

        `OnceError` if the result can't be kept: it is recorded as done all the same, without one.
        """
        if not self.first:
            raise RuntimeError(f"{self.key!r} was not yours to do: look at `first` before you do it")
        self._has_happened = True
        trouble = trouble_with(result)
        if not trouble:
            try:
                await self._perform(record(self.key, result, self._claim))
            except Refused as refusal:
                if refusal.slug == "claim-lost":
                    raise
                trouble = str(refusal)
        if trouble:
            await self._perform(record(self.key, None, self._claim))
        self._is_done = True
        if trouble:
            raise without_result(self.key, trouble)
        self.result = result

    async def run(self, function: Callable[[], Any]) -> Any:
        """Its value, or what was recorded the first time. What it returns is awaited, if it can be."""
        async with self:
            if self.first:
                value = function()
                await self.done(await value if inspect.isawaitable(value) else value)
        return self.result

    async def _claimed(self) -> OnceDocument | None:
        try:
            found: OnceDocument = await self._perform(ask(self.key, self._claim, self._lease))
        except Refused as refusal:
            if refusal.slug != "once-claimed":
                raise
            return None
        return found
