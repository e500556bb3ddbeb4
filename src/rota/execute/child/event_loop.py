"""The event loop of a warm child, for `async def` functions: made once, kept between calls, cleared after each."""

from __future__ import annotations

import _thread
import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_HELPERS_SECONDS = 0.05


def make_runner() -> Callable[[Coroutine[Any, Any, object]], object]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    helpers = ThreadPoolExecutor()
    loop.set_default_executor(helpers)

    def run(coroutine: Coroutine[Any, Any, object]) -> object:
        threads = _thread._count()
        try:
            return loop.run_until_complete(coroutine)
        finally:
            # A task that the function started and did not await would run on inside another call.
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            if _thread._count() > threads:
                renew_helpers(threads)

    def renew_helpers(threads: int) -> None:
        """Idle threads of `asyncio.to_thread` are ended; busy ones are counted with other leftovers."""
        nonlocal helpers
        helpers.shutdown(wait=False, cancel_futures=True)
        helpers = ThreadPoolExecutor()
        loop.set_default_executor(helpers)
        deadline = time.monotonic() + _HELPERS_SECONDS
        while _thread._count() > threads and time.monotonic() < deadline:
            time.sleep(0.0002)

    return run
