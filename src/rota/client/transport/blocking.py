"""The names in which the blocking client differs from the async one; `awaiting.py` has the same names.

It does not import asyncio: a CLI command must start fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import httpx

from rota.client.calls.artifact_calls import Upload

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

HttpClient = httpx.Client
sleep = time.sleep


class UploadStream(httpx.SyncByteStream):
    """The content of an upload, read while it is sent."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    def __iter__(self) -> Iterator[bytes]:
        return self._upload.pieces()


def in_thread(function: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
    """Calls the function. The caller's own thread may block."""
    return function(*args, **kwargs)


def value_of(function: Callable[[], Any]) -> Any:
    return function()
