"""Runs in every interpreter of a worker or server under test: writes to its log in all the ways that libraries do."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
import traceback
import warnings


class Finalised:
    def __del__(self) -> None:
        raise ValueError("stray: raised by a finaliser")


async def forget_a_failed_task() -> None:
    async def fail() -> None:
        raise ValueError("stray: of a task that nobody awaits")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()


def crash() -> None:
    raise ValueError("stray: raised in a thread")


def write_everywhere() -> None:
    plain = sys.stderr
    while sys.stderr is plain:
        time.sleep(0.01)
    for library in ("uvicorn.error", "asyncpg", "websockets.client"):
        try:
            raise ValueError(f"stray: in {library}\nin two lines")
        except ValueError:
            logging.getLogger(library).exception("stray: %s has failed", library)
    logging.getLogger("careless").error("stray: %d arguments", "no number")
    warnings.warn("stray: this is deprecated", DeprecationWarning, stacklevel=1)
    warnings.warn("stray: this leaks", ResourceWarning, stacklevel=1)
    warnings.warn("stray: a warning", RuntimeWarning, stacklevel=1)
    print("stray: printed, line 1\nline 2", file=sys.stderr)
    try:
        raise ValueError("stray: printed as a traceback")
    except ValueError:
        traceback.print_exc()
    Finalised()
    asyncio.run(forget_a_failed_task())
    thread = threading.Thread(target=crash, name="stray-thread")
    thread.start()
    thread.join()
    sys.stderr.write("stray: over\n")


if "rota.execute.keeper.main" in sys.orig_argv:
    sys.stderr.write("stray: a keeper's first line\nstray: a keeper's last line\n")
elif {"serve", "worker"} & set(sys.orig_argv):
    threading.Thread(target=write_everywhere, daemon=True).start()
