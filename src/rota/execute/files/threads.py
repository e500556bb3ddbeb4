"""File work in a thread, for callers that may be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


async def in_thread(call: Callable[Arguments, Value], *arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
    """A cancelled caller waits all the same: what the thread makes must not appear after its folder was removed."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
