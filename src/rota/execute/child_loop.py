"""The event loop of a warm child, for `async def` functions:

made once, kept between calls, tidied after each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def make_runner() -> Callable[[Coroutine[Any, Any, object]], object]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def run(coroutine: Coroutine[Any, Any, object]) -> object:
        try:
            return loop.run_until_complete(coroutine)
        finally:
            # A task the function started and did not await would run on inside somebody else's call.
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    return run
