"""Async functions that wait, for tests of how many do so at a time."""

from __future__ import annotations

import asyncio
import os

_inside = 0
_most = 0


async def together(seconds: float) -> list[int]:
    """The process, and the most calls that were in it at once so far."""
    global _inside, _most
    _inside += 1
    _most = max(_most, _inside)
    await asyncio.sleep(seconds)
    _inside -= 1
    return [os.getpid(), _most]
