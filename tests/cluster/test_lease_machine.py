"""Three contenders for one pool in random order, against a real PostgreSQL and a model of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.cluster.contenders import Contender, epochs_written, new_pool

T = TypeVar("T")
who = st.integers(0, 2)


class Leases(RuleBasedStateMachine):
    """Invariant: at most one contender's fence works, epochs rise strictly, committed batches never go back in them."""

    url: ClassVar[str]
    loop: ClassVar[asyncio.AbstractEventLoop]

    @initialize()
    def begin(self) -> None:
        self.contenders = [Contender(self.url, 0) for _ in range(3)]
        pool = self.run(self._new_pool())
        for contender in self.contenders:
            contender.pool = pool
        self.pool = pool
        self.holder: int | None = None  # the model: whose lease it is, if not expired
        self.expired = True
        self.last_epoch = 0
        self.written: list[int] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 20))

    async def _new_pool(self) -> int:
        return await new_pool(await self.contenders[0].connection())

    def _somebody_elses_batch_is_open(self, number: int) -> bool:
        return any(c.in_batch for place, c in enumerate(self.contenders) if place != number)

    @rule(number=who, above=st.sampled_from([0, 0, 0, 10**6]))
    def acquire(self, number: int, above: int) -> None:
        contender = self.contenders[number]
        free = self.expired or self.holder in (None, number)
        if contender.in_batch or (not self.expired and self._somebody_elses_batch_is_open(number)):
            return  # it would wait for the batch, as it should: test_leases looks at that
        epoch = self.run(contender.acquire(above=self.last_epoch + above if above else 0))
        assert (epoch is not None) == free
        if epoch is not None:
            assert epoch > self.last_epoch
            self.last_epoch, self.holder, self.expired = epoch, number, False

    @rule(number=who)
    def renew(self, number: int) -> None:
        contender = self.contenders[number]
        if contender.epoch is not None:
            current = self.holder == number and not self.expired and contender.epoch == self.last_epoch
            assert self.run(contender.renew()) == current

    @rule(number=who)
    def release(self, number: int) -> None:
        contender = self.contenders[number]
        if contender.epoch is not None:
            self.run(contender.release())
            if self.holder == number and contender.epoch == self.last_epoch:
                self.expired = True

    @precondition(lambda self: self.holder is not None)
    @rule()
    def time_passes(self) -> None:
        self.run(self._expire())
        self.expired = True

    async def _expire(self) -> None:
        connection = await self.contenders[0].connection()
        await connection.execute(
            "update leases set expires_at = clock_timestamp() - interval '1 second' where pool = $1", self.pool
        )

    @rule(number=who)
    def begin_batch(self, number: int) -> None:
        contender = self.contenders[number]
        if not contender.in_batch:
            # An expired lease that nobody took over still fences nobody out: expiry is liveness, the epoch is safety.
            current = self.holder == number and contender.epoch == self.last_epoch
            assert self.run(contender.begin_batch()) == current

    @rule(number=who)
    def commit_batch(self, number: int) -> None:
        contender = self.contenders[number]
        if contender.in_batch:
            epoch = contender.epoch
            current = self.holder == number and epoch == self.last_epoch
            committed = self.run(contender.commit_batch())
            assert committed == current, "a batch of an earlier term is gone, one of this term is not"
            if committed:
                assert epoch is not None
                self.written.append(epoch)

    @invariant()
    def at_most_one_fence_works(self) -> None:
        if not hasattr(self, "contenders"):
            return
        working = [place for place, c in enumerate(self.contenders) if c.epoch == self.last_epoch and self.last_epoch]
        assert len(working) <= 1

    def teardown(self) -> None:
        if not hasattr(self, "contenders"):
            return
        stored = self.run(self._written())
        for contender in self.contenders:
            self.run(contender.close())
        assert stored == self.written
        assert stored == sorted(stored)

    async def _written(self) -> list[int]:
        return await epochs_written(await self.contenders[0].connection(), self.pool)


@pytest.fixture
def machine(shared: str) -> Iterator[type[Leases]]:
    loop = asyncio.new_event_loop()
    Leases.url, Leases.loop = shared, loop
    yield Leases
    loop.close()


def test_any_history_of_contenders_keeps_one_leader(machine: type[Leases]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
