"""Functions that tests run as tasks."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from rota import Client, TaskSpec, current, task


@task
def add(left: int, right: int) -> int:
    return left + right


@task(attempts=3, cap="30s")
def fail(message: str) -> None:
    raise ValueError(message)


@task
async def greet(name: str) -> str:
    await asyncio.sleep(0)
    return f"hello {name}"


def noop(value: int = 0) -> int:
    return value


def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def submit_children(amount: int, server: str, token: str) -> list[int]:
    with Client(server, token) as client:
        return [handle.id for handle in client.submit_many([TaskSpec(command=["true"]) for _ in range(amount)])]


def submit_one() -> int:
    """With the key that the task was given."""
    with Client() as client:
        return client.submit(["true"], name="kid").id


def shout(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)


def leave(code: int) -> None:
    os._exit(code)


def not_json() -> object:
    return object()


def told() -> list[str]:
    """What a run of a schedule knows of its occurrence: from the context, and from the environment."""
    mine = current()
    assert mine.scheduled_for is not None
    return [mine.scheduled_for.isoformat(), os.environ["ROTA_SCHEDULED_FOR"], os.environ["ROTA_INTERVAL_START"]]
