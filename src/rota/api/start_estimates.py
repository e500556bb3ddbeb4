"""When tasks that no leader holds in memory start: blocked, delayed, or not yet submitted.

Each pool's leader forecasts its own tasks. Where a task waits for one of another pool, that pool's leader is asked
first, and the end that it tells becomes the earliest start. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from rota.api.leaders import asked_of_leader
from rota.api.services import Services
from rota.decide.estimates import Expected
from rota.decide.explain import Explanation, Probe
from rota.decide.forecasts.forecast import Planned, Told
from rota.dispatch.pool_questions import Question
from rota.model.task import State
from rota.model.tenant import Caller
from rota.store.waiting_chain import LiveTask

MOST_CHAIN = 300  # tasks of a graph that are looked at
MOST_ROUNDS = 4  # in which ends are told from pool to pool
P = TypeVar("P", bound=Planned)

NEVER_ENDS = -1  # the number of no task: what waits for it does not start


@dataclass(slots=True)
class Estimated:
    explanations: dict[int, Explanation] = field(default_factory=dict)
    starts: dict[int, Told] = field(default_factory=dict)
    ends: dict[int, Expected] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)  # tasks that start, and nothing is known of how long they run
    silent_pools: set[int] = field(default_factory=set)  # their leaders did not answer


async def estimate_starts(
    services: Services,
    asked: Mapping[int, Probe],
    planned: Mapping[int, Planned],
    pools: Mapping[int, int],
    wanted: Iterable[int] = (),
) -> Estimated:
    """`pools`: the pool of each task that is asked for, planned, or that one of these waits for."""
    found = Estimated()
    interesting = {*wanted, *pools}
    numbers = sorted(set(pools.values()))
    for _ in range(MOST_ROUNDS if len(numbers) > 1 else 1):
        before = dict(found.ends)
        for pool in numbers:
            here = [number for number in sorted(interesting) if pools.get(number) == pool]
            question = Question(
                [_from_here(probe, pool, pools, found) for number, probe in asked.items() if pools[number] == pool],
                [_from_here(one, pool, pools, found) for number, one in planned.items() if pools[number] == pool],
                here,
            )
            answer = await asked_of_leader(services, pool, question)
            if answer is None:
                found.silent_pools.add(pool)
                continue
            own = [number for number in asked if pools[number] == pool]
            for number, explanation in zip(own, answer.explanations, strict=True):
                if explanation is not None:
                    found.explanations[number] = explanation
            found.starts.update(answer.starts)
            found.ends.update(answer.ends)
            found.unknown.update(answer.unknown)
        if found.ends == before:
            break
    return found


def _from_here(one: P, pool: int, pools: Mapping[int, int], found: Estimated) -> P:
    """The task as its own pool's leader should take it: an end in another pool is the earliest time of its start."""
    elsewhere = [parent for parent in one.after if parent in found.ends and pools.get(parent) != pool]
    if not elsewhere:
        return one
    latest_us = max(found.ends[parent].us for parent in elsewhere)
    after = tuple(parent for parent in one.after if parent not in elsewhere)
    return replace(one, after=after, not_before_us=max(one.not_before_us, latest_us))


def planned_of(live: LiveTask, caller: Caller) -> Planned | None:
    """The task as a forecast takes it. None: it runs, so its leader knows it."""
    if live.state is State.RUNNING:
        return None
    after, not_before_us = live.parents, 0
    if live.state is State.PAUSED:
        after = (NEVER_ENDS,)
    elif live.state is State.DELAYED:
        not_before_us = live.wake_us or 0
    return Planned(
        task=live.task,
        shape=live.shape,
        after=after,
        not_before_us=not_before_us,
        longest_cap_us=1_000_000 * caller.plan.longest_cap_seconds,
    )


def why_unknown(found: Estimated, chain: Mapping[int, LiveTask], own: int) -> str | None:
    """Why nothing is told of a task that waits for the others of the chain; None: not because of these."""
    for number, live in sorted(chain.items()):
        if number != own and live.state is State.PAUSED:
            return f"task {number}, which comes before it, is paused or held"
    for number in sorted(found.unknown):
        if number != own and number in chain:
            return f"nothing is known of how long task {number}, which comes before it, runs"
    if len(chain) >= MOST_CHAIN:
        return f"it comes after more than {MOST_CHAIN} tasks, and no more are looked at"
    if found.silent_pools:
        return "the leader of a pool in which tasks before it wait can't be asked right now"
    for number in sorted(chain):
        if number != own and number not in found.ends:
            return f"nobody can say when task {number}, which comes before it, ends"
    return None
