"""The names in which the async client differs from the blocking one; `blocking.py` has the same names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from rota.client.calls.artifact_calls import Upload

HttpClient = httpx.AsyncClient
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


async def value_of(function: Callable[[], Any]) -> Any:
    """Calls the function, and awaits its value if it is awaitable."""
    value = function()
    return await value if inspect.isawaitable(value) else value
