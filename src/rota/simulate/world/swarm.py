"""Runs many seeds on several processes, or each known bug until it is noticed.

A seed's number alone decides its world, so the order of results does not matter. One seed in fifty runs twice and must
give the same fingerprint.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from rota.simulate.world.mutations import NAMES
from rota.simulate.world.run import Outcome, run_seed
from rota.simulate.world.sometimes import EXPECTED

AGAIN_EVERY = 50
MOST_SEEDS_A_BUG = 2_000
CHUNK = 8
ENOUGH_FOR_SOMETIMES = 1_000  # with fewer seeds, a rare situation may not occur

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Swarm:
    """The result of many seeds."""

    seeds: int = 0
    events: int = 0
    repeated: int = 0
    failed: list[Outcome] = field(default_factory=list)
    sometimes: dict[str, int] = field(default_factory=dict)  # situation → number of seeds
    fingerprint: int = 0

    @property
    def never(self) -> list[str]:
        return [situation for situation in EXPECTED if situation not in self.sometimes]

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.events += outcome.events
        self.repeated += outcome.seed % AGAIN_EVERY == 0
        self.fingerprint ^= hash((outcome.seed, outcome.fingerprint))
        for situation in outcome.sometimes:
            self.sometimes[situation] = self.sometimes.get(situation, 0) + 1
        if outcome.invariant:
            self.failed.append(outcome)


@dataclass(frozen=True, slots=True)
class Proof:
    """How a known bug was noticed, after how many seeds; 0 if it was not."""

    bug: str
    seeds: int
    seed: int
    invariant: str
    message: str


def cores() -> int:
    return len(os.sched_getaffinity(0))


def run_swarm(
    *, first: int, seeds: int, jobs: int, bug: str | None = None, progress: Progress | None = None, at_most: int = 20
) -> Swarm:
    """Runs the seeds; stops once `at_most` have failed."""
    swarm = Swarm()
    for outcome in _outcomes(((seed, bug) for seed in range(first, first + seeds)), jobs):
        swarm.add(outcome)
        if progress is not None:
            progress(swarm.seeds, seeds)
        if len(swarm.failed) >= at_most:
            break
    swarm.failed.sort(key=lambda outcome: outcome.seed)
    return swarm


def prove(
    names: Iterable[str] = NAMES, *, first: int, jobs: int, most_seeds: int = MOST_SEEDS_A_BUG
) -> Iterator[Proof]:
    """Runs each bug until it is noticed, on at most `most_seeds` seeds."""
    for name in names:
        work = ((seed, name) for seed in range(first, first + most_seeds))
        proof = Proof(name, 0, 0, "", "")
        for count, outcome in enumerate(_outcomes(work, jobs), 1):
            if outcome.invariant:
                proof = Proof(name, count, outcome.seed, outcome.invariant, outcome.message)
                break
        yield proof


def _outcomes(work: Iterator[tuple[int, str | None]], jobs: int) -> Iterator[Outcome]:
    """Outcomes in order of seeds, computed a few chunks ahead; the work stops when the caller stops reading."""
    if jobs <= 1:
        for item in work:
            yield _run_chunk([item])[0]
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_collect_rarely) as workers:
        waiting = [workers.submit(_run_chunk, chunk) for chunk in _chunks(work, jobs * 2)]
        try:
            while waiting:
                outcomes = waiting.pop(0).result()
                waiting += [workers.submit(_run_chunk, chunk) for chunk in _chunks(work, 1)]
                yield from outcomes
        finally:
            for future in waiting:
                future.cancel()


def _collect_rarely() -> None:
    """A world becomes garbage as a whole at the end of its seed, so frequent collections find little."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def _chunks(work: Iterator[tuple[int, str | None]], count: int) -> list[list[tuple[int, str | None]]]:
    return [chunk for _ in range(count) if (chunk := list(islice(work, CHUNK)))]


def _run_chunk(chunk: list[tuple[int, str | None]]) -> list[Outcome]:
    outcomes = []
    for seed, bug in chunk:
        outcome = run_seed(seed, bug=bug)
        if seed % AGAIN_EVERY == 0 and not outcome.invariant:
            again = run_seed(seed, bug=bug)
            if again.fingerprint != outcome.fingerprint:
                outcome = Outcome(seed, outcome.events, 0, "determinism", "the same seed gave two fingerprints")
        outcomes.append(outcome)
    return outcomes
