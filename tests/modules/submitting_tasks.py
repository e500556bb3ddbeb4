"""Functions that submit tasks with the key of their attempt."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from rota import AsyncClient, Client, Graph, current, task


@task
def add(left: int, right: int) -> int:
    return left + right


@task(may_submit=True)
def total(amount: int) -> int:
    """Fans out and adds up."""
    return sum(handle.result(timeout=60) for handle in [add.submit(number, number) for number in range(amount)])


def by_client() -> list[int]:
    with Client() as client:
        return [client.submit(["true"], name="kid").id]


def by_program() -> str:
    """A program that the function starts finds server and key in its environment."""
    words = [sys.executable, "-m", "rota.cli", "submit", "--name", "kid", "--", "true"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def groups() -> dict[str, object]:
    """An array and a graph of its own, waited for while this task runs."""
    with Client() as client:
        array = client.map("submitting_tasks:double", [1, 2, 3])
        with Graph("inner", client) as graph:
            first = graph.task(["true"], name="first")
            graph.task(["true"], name="second", after=first)
        return {"results": list(array.results(timeout=60)), "graph": graph.wait(timeout=60).status, "id": graph.id}


def double(number: int) -> int:
    return 2 * number


_here: set[int] = set()  # the tasks that run in this process


async def one_of_many() -> list[object]:
    """Submits with its own key after a wait in which others run in the same process."""
    _here.add(current().task_id)
    await asyncio.sleep(0.5)
    together = len(_here)
    async with AsyncClient() as client:
        handle = await client.submit(["true"], name=f"kid of {current().task_id}")
    _here.remove(current().task_id)
    return [together, current().task_id, handle.id, "ROTA_TOKEN" in os.environ]


def generations(depth: int) -> int:
    """Each generation submits the next one and ends before it."""
    if depth:
        with Client() as client:
            client.submit(function="submitting_tasks:generations", args=[depth - 1], may_submit=True)
    return depth


def bomb() -> None:
    with Client() as client:
        for _ in range(2):
            client.submit(function="submitting_tasks:bomb", may_submit=True)


def tell_key() -> str:
    key = current().key
    assert key is not None
    print(f"the key is {key.value}", flush=True)
    raise ValueError(f"it was {key.value}")


def look() -> dict[str, object]:
    """What a function finds that may not submit."""
    return {"key": current().key, "server": current().server, "token": "ROTA_TOKEN" in os.environ}
