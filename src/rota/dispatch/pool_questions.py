"""Questions to a pool's leader: why tasks wait, how full the pool is, which nodes are missing. Reading only.

However many ask, the demand is computed at most once a second, and forecasts take at most a tenth of the leader's time.
They are made one after the other, in slices of a few milliseconds; those that would wait too long are skipped.
"""

from __future__ import annotations

import asyncio

import msgspec

from rota.decide.demand import Demand
from rota.decide.estimates import Expected
from rota.decide.explain import Explanation, Probe
from rota.decide.forecasts.forecast import Forecast, Planned, Play, Told
from rota.decide.overview import Overview
from rota.dispatch.frozen_attempts import explain_frozen
from rota.dispatch.pool import PoolState

FRESH_SECONDS = 1.0
SLICE_ROUNDS = 2  # a few milliseconds
PAUSE_RATIO = 9  # after a forecast, in times of what it took
MOST_WAIT_SECONDS = 3.0


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    pool: str
    leader: str  # the server node's name
    epoch: int
    now_us: int
    nodes: dict[int, str]  # names of connected nodes
    overview: Overview
    demand: Demand


class Question(msgspec.Struct, frozen=True):
    """Tasks to explain, and further ones that will come: the estimates take them into account."""

    asked: list[int | Probe]
    planned: list[Planned] = []
    wanted: list[int] = []  # tasks whose start and end are to be told as well


class Answer(msgspec.Struct, frozen=True):
    """What is known of the tasks that were asked for or wanted."""

    explanations: list[Explanation | None]
    starts: dict[int, Told] = {}
    ends: dict[int, Expected] = {}
    unknown: list[int] = []  # they start, and nothing is known of how long they run


class Insight:
    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._load: PoolLoad | None = None
        self._until = 0.0
        self._forecast: Forecast | None = None  # of the tasks in memory alone
        self._forecast_until = 0.0
        self._turn = asyncio.Lock()
        self._next_forecast = 0.0

    async def answer(self, question: Question) -> Answer:
        core = self._pool.core
        found = await self._expected(question)
        explanations = core.explain_all(question.asked, self._pool.now_us(), self._pool.names, lambda: found)
        for index, one in enumerate(question.asked):
            if isinstance(one, int) and (frozen := explain_frozen(self._pool, one)) is not None:
                explanations[index] = frozen
        wanted = question.wanted
        return Answer(
            explanations,
            {number: found.starts[number] for number in wanted if number in found.starts},
            {number: found.ends[number] for number in wanted if number in found.ends},
            [number for number in wanted if number in found.unknown],
        )

    async def _expected(self, question: Question) -> Forecast:
        coming = [*question.planned, *(one for one in question.asked if isinstance(one, Probe) and one.is_expected)]
        ready = self._pool.core.state.ready
        if not (coming or question.wanted or any(isinstance(one, Probe) or one in ready for one in question.asked)):
            return Forecast()  # no answer depends on it
        deadline = self._pool.clock() + MOST_WAIT_SECONDS
        async with self._turn:
            if not coming and (fresh := self._fresh(question.asked)) is not None:
                return fresh
            if max(self._next_forecast, self._pool.clock()) > deadline:
                return Forecast(skipped=True)
            await self._pool.sleep(max(0.0, self._next_forecast - self._pool.clock()))
            found = await self._play(coming)
            if not coming:
                self._forecast, self._forecast_until = found, self._pool.clock() + FRESH_SECONDS
            return found

    def _fresh(self, asked: list[int | Probe]) -> Forecast | None:
        """The last forecast, if it is not too old and knew the tasks that are asked for."""
        last, clock = self._forecast, self._pool.clock
        known = last is not None and clock() < self._forecast_until and last.knew(self._pool.core.state, asked)
        return last if known else None

    async def _play(self, coming: list[Planned]) -> Forecast:
        clock, spent = self._pool.clock, 0.0
        try:
            before = clock()
            play = Play(self._pool.core.state, self._pool.now_us(), coming)
            while not play.advance(SLICE_ROUNDS):
                spent += clock() - before
                await self._pool.sleep(0)
                before = clock()
            spent += clock() - before
        finally:
            self._next_forecast = clock() + PAUSE_RATIO * spent
        return play.found

    def load(self) -> PoolLoad:
        pool = self._pool
        if self._load is None or pool.clock() >= self._until:
            now_us = pool.now_us()
            self._load = PoolLoad(
                pool=pool.name,
                leader=pool.settings.name,
                epoch=pool.lease.epoch,
                now_us=now_us,
                nodes={session.node: session.name for session in pool.sessions.values()},
                overview=pool.core.overview(),
                demand=pool.core.demand(now_us),
            )
            self._until = pool.clock() + FRESH_SECONDS
        return self._load
