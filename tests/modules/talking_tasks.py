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


def charge(ledger: str) -> str:
    with open(ledger, "a") as file:
        file.write(f"charged by attempt {current().attempt}\n")
    return f"receipt of attempt {current().attempt}"


def charge_then_fail(key: str, ledger: str) -> object:
    """Fails after the effect the first time."""
    receipt = current().once(key, lambda: charge(ledger))
    if current().attempt == 1:
        raise RuntimeError("after the charge")
    return receipt


def die_holding(key: str, ledger: str) -> object:
    """Dies between the claim and the effect the first time."""
    with current().once(key) as once:
        if current().attempt == 1:
            os._exit(9)
        if once.first:
            once.done(charge(ledger))
    return once.result


def give_up(key: str, ledger: str) -> object:
    """Finds out that it can't, the first time."""
    with current().once(key) as once:
        if once.first:
            if current().attempt == 1:
                raise RuntimeError("no money")
            once.done(charge(ledger))
    return once.result


def misuse(key: str) -> list[str]:
    said = []
    for wrong in (
        lambda: current().once(""),
        lambda: current().once("x" * 501),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError) as error:
            said.append(f"{type(error).__name__}: {error}")
    with current().once(key) as once:
        once.done(1)
    with current().once(key) as again:
        try:
            again.done(2)
        except (ValueError, RuntimeError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


RESULTS = {"nan": float("nan"), "object": object(), "large": "x" * 70_000, "NUL": "a\0b"}


def charge_for_what_cannot_be_kept(key: str, ledger: str, result: str) -> object:
    """Fails when it hears that the result is not kept; the next attempt finds what was recorded."""

    def effect() -> object:
        charge(ledger)
        return RESULTS[result]

    return [current().attempt, current().once(key, effect)]
