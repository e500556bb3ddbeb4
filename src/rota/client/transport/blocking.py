"""The names in which the blocking client differs from the async one; `awaiting.py` has the same names.

It does not import asyncio: a CLI command must start fast.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import httpx

from rota.client.calls.artifact_calls import Upload

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

HttpClient = httpx.Client
SocketTransport = httpx.HTTPTransport
sleep = time.sleep


class UploadStream(httpx.SyncByteStream):
    """The content of an upload, read while it is sent."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    def __iter__(self) -> Iterator[bytes]:
        return self._upload.pieces()


class Signal:
    """Given once, to all who wait for it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def give(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Returns when it was given, or when the time is up; the time may be infinite."""
        self._event.wait(None if math.isinf(seconds) else max(seconds, 0.0))


def after_the_others() -> None:
    """Threads run at once: there is nothing to let them do."""


def in_thread(function: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
    """Calls the function. The caller's own thread may block."""
    return function(*args, **kwargs)


def value_of(function: Callable[[], Any]) -> Any:
    return function()
