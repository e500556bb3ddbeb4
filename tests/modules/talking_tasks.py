"""Functions that talk while they run, for tests."""

from __future__ import annotations

import os
import time

from rota import current, task


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@task
def report(fraction: float, message: str, gate: str) -> str:
    current().progress(fraction, message)
    wait_for(gate)
    return "reported"


@task(attempts=2)
def second_time(gate: str) -> int:
    ctx = current()
    if ctx.attempt == 1:
        ctx.retry(in_=0, reason="the till is closed")
    wait_for(gate)
    return ctx.attempt


def add_up() -> object:
    found = current().results
    return [found["left"], found["right"]]
