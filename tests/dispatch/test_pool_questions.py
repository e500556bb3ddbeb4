"""Questions to a leader: a forecast never keeps its loop busy for long, nor takes more than a part of its time."""

from __future__ import annotations

from rota.decide.waiting import ASK_AGAIN
from rota.dispatch.pool_questions import FRESH_SECONDS, MOST_WAIT_SECONDS, PAUSE_RATIO, Insight, Question
from tests.decide.scene import Scene
from tests.dispatch.leading import Leading


class Clock:
    """A clock on which every reading takes a while, as work does; sleeping moves it on."""

    def __init__(self, leading: Leading, reading_seconds: float) -> None:
        self.now, self.reading_seconds = 1000.0, reading_seconds
        self.slept: list[float] = []
        leading.pool.clock = self.read
        leading.pool.sleep = self.sleep

    def read(self) -> float:
        self.now += self.reading_seconds
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def crowd(leading: Leading) -> list[int]:
    """Tasks of known length that wait for one node, one after the other."""
    scene = Scene()
    scene.worker(cpus=1)
    tasks = [scene.task(cpus=1, cap=60) for _ in range(40)]
    leading.pool.core = scene.core
    scene.core.plan(0, 1)
    return [task.id for task in tasks[1:]]


async def test_a_forecast_gives_the_loop_back_many_times(leading: Leading) -> None:
    tasks, clock = crowd(leading), Clock(leading, 0.0001)
    answer = await Insight(leading.pool).answer(Question([tasks[-1]]))
    assert answer.explanations[0] is not None
    assert answer.explanations[0].estimated_start_us is not None
    assert clock.slept.count(0) >= 10


async def test_a_forecast_soon_after_a_long_one_is_skipped_and_the_answer_says_so(leading: Leading) -> None:
    tasks, clock = crowd(leading), Clock(leading, 0.05)
    insight = Insight(leading.pool)
    assert (await insight.answer(Question(tasks[:1], wanted=tasks[:1]))).starts
    took = clock.now - 1000.0
    assert took * PAUSE_RATIO > MOST_WAIT_SECONDS + FRESH_SECONDS
    clock.now += FRESH_SECONDS  # the last one is not fresh any more
    (explanation,) = (await insight.answer(Question(tasks[:1]))).explanations
    assert explanation is not None
    assert explanation.start_unknown == ASK_AGAIN
    clock.now += PAUSE_RATIO * took
    (explanation,) = (await insight.answer(Question(tasks[:1]))).explanations
    assert explanation is not None
    assert explanation.estimated_start_us is not None


async def test_a_forecast_soon_after_a_short_one_waits_its_time(leading: Leading) -> None:
    tasks, clock = crowd(leading), Clock(leading, 0.0001)
    insight = Insight(leading.pool)
    await insight.answer(Question([], wanted=tasks[:1]))
    clock.now += FRESH_SECONDS
    clock.slept.clear()
    insight._next_forecast = clock.now + 0.5
    await insight.answer(Question([], wanted=tasks[:1]))
    assert 0.4 < clock.slept[0] <= 0.5
