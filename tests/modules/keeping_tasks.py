"""Functions that keep something over their attempts, for tests."""

from __future__ import annotations

import os
import time

from rota import CheckpointError, current, task


@task(attempts=3)
def count_up(meet: str) -> list[object]:
    """Fails twice; the third attempt tells what each found."""
    ctx = current()
    found = ctx.checkpoint.load()
    seen = list(found["seen"]) if isinstance(found, dict) else []
    ctx.checkpoint.save({"seen": [*seen, ctx.attempt], "much": "x" * 300_000})
    if ctx.attempt < 3:
        raise RuntimeError("not yet")
    again = ctx.checkpoint.load()
    assert isinstance(again, dict)
    return [seen, again["seen"]]


@task
def until_asked(meet: str) -> str:
    """Saves when it is asked to stop, and says so when it goes on."""
    ctx = current()
    if ctx.checkpoint.load() == "saved at the last moment":
        return "went on"
    if ctx.stopping:
        return "asked too early"
    with open(os.path.join(meet, "up"), "w"):
        pass
    while not ctx.stopping:
        time.sleep(0.02)
    ctx.checkpoint.save("saved at the last moment")
    return "nobody hears this"


@task
def keep_too_much() -> str:
    try:
        current().checkpoint.save("x" * 2_000_000)
    except RuntimeError as error:
        return str(error)
    return "kept"


@task
def keep_what_is_not_json() -> list[object]:
    """What it is told, and what is kept then."""
    checkpoint = current().checkpoint
    checkpoint.save("before")
    said: list[object] = []
    for value in (float("nan"), {"a": [{1: 2}]}, object()):
        try:
            checkpoint.save(value)
        except CheckpointError as error:
            said.append(str(error))
    return [*said, checkpoint.load()]
