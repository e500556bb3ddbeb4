"""Runs one seed and returns its outcome as a value that can be sent between processes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from rota.simulate.world.mutations import mutated
from rota.simulate.world.task_record import Violation
from rota.simulate.world.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    events: int
    fingerprint: int
    invariant: str = ""  # empty: every invariant held
    message: str = ""
    sometimes: dict[str, int] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)


def run_seed(seed: int, *, bug: str | None = None, keep_story: bool = False) -> Outcome:
    """Runs a seed, with a mutation if `bug` names one."""
    with mutated(bug), silence():
        return _run(seed, keep_story=keep_story)


def _run(seed: int, *, keep_story: bool) -> Outcome:
    """A broken assertion or an unexpected error of the product counts as a violation."""
    world = World(seed, keep_story=keep_story)
    invariant = message = ""
    try:
        world.run()
    except Violation as violation:
        invariant, message = violation.invariant, violation.message
    except Exception as error:  # noqa: BLE001 (any error is reported with its seed and story)
        invariant = "crash"
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        if keep_story:
            world.story.lines += traceback.format_exc().splitlines()
    finally:
        world.end()
    world.story.tell("world", f"ends after {world.kernel.events} events: {invariant or 'well'} {message}".rstrip())
    return Outcome(
        seed, world.kernel.events, world.story.fingerprint, invariant, message, world.sometimes.hits, world.story.lines
    )


@contextmanager
def silence() -> Iterator[None]:
    """Production code logs every outage; here outages are normal."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
