"""The names in which the async client differs from the blocking one; `blocking.py` has the same names."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from rota.client.calls.artifact_calls import Upload

HttpClient = httpx.AsyncClient
SocketTransport = httpx.AsyncHTTPTransport
in_thread = asyncio.to_thread  # a slow disk must not block the event loop
sleep = asyncio.sleep


class UploadStream(httpx.AsyncByteStream):
    """The content of an upload, read while it is sent."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._upload.pieces()
        while (piece := await in_thread(next, pieces, None)) is not None:
            yield piece


class Signal:
    """Given once, to all who wait for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def give(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Returns when it was given, or when the time is up; the time may be infinite."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(seconds) else max(seconds, 0.0)):
                await self._event.wait()


async def after_the_others() -> None:
    """Lets the coroutines that are about to run, as those of `asyncio.gather`, say first what they wait for."""
    await asyncio.sleep(0)


async def value_of(function: Callable[[], Any]) -> Any:
    """Calls the function, and awaits its value if it is awaitable."""
    value = function()
    return await value if inspect.isawaitable(value) else value
