"""Argon2id is bounded in memory and in what waits for it, and costs the same whether or not there is a user."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher
from argon2.profiles import RFC_9106_LOW_MEMORY

from rota.admit.passwords import AT_ONCE, MOST_WAITING, NOBODYS_HASH, Passwords
from rota.model.errors import Problem

OLD = "$argon2id$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$old"


class Counting:
    """In place of Argon2id: each piece of work is counted and, if wanted, waits to be let go."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Semaphore(0)
        self._lock = threading.Lock()

    def _work(self, what: str, text: str) -> None:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.began.release()
        assert self.go.wait(30)
        with self._lock:
            self.at_once -= 1
            self.done.append((what, text))

    def hash(self, password: str) -> str:
        self._work("hash", password)
        return f"hash of {password}"

    def verify(self, hash: str, password: str) -> bool:
        self._work("verify", hash)
        return hash in (f"hash of {password}", OLD)

    def check_needs_rehash(self, hash: str) -> bool:
        return hash == OLD


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def passwords(counting: Counting) -> Iterator[Passwords]:
    made = Passwords(counting)
    yield made
    counting.go.set()
    made.close()


async def test_an_unknown_user_costs_the_same_work_as_a_known_one(passwords: Passwords, counting: Counting) -> None:
    assert not (await passwords.compare("hash of right", "wrong")).right
    assert not (await passwords.compare(None, "wrong")).right
    assert [what for what, _ in counting.done] == ["verify", "verify"]


async def test_nobody_has_the_password_that_unknown_users_are_compared_with(
    passwords: Passwords, counting: Counting
) -> None:
    """Also not whoever would guess it: the answer is no before the comparison is looked at."""
    counting.verify = lambda hash, password: True  # type: ignore[method-assign]
    assert not (await passwords.compare(None, "any")).right


def test_the_hash_of_nobody_has_the_parameters_of_all_others() -> None:
    assert not PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY).check_needs_rehash(NOBODYS_HASH)
    assert (RFC_9106_LOW_MEMORY.memory_cost, RFC_9106_LOW_MEMORY.time_cost) == (64 * 1024, 3)


async def test_a_right_password_gets_a_new_hash_when_parameters_changed(
    passwords: Passwords, counting: Counting
) -> None:
    compared = await passwords.compare(OLD, "right")
    assert (compared.right, compared.better) == (True, "hash of right")
    assert (await passwords.compare("hash of right", "right")).better is None


async def test_two_are_compared_at_once_a_few_wait_and_all_others_are_refused_without_work(
    passwords: Passwords, counting: Counting
) -> None:
    """So memory is bounded by two times 64 MiB, whatever arrives."""
    counting.go.clear()
    most = AT_ONCE + MOST_WAITING
    tasks = [asyncio.create_task(passwords.compare(None, str(number))) for number in range(1_000)]
    for _ in range(AT_ONCE):
        assert await asyncio.to_thread(counting.began.acquire, timeout=30)
    refused = [task for task in tasks if task.done()]
    while len(refused) < 1_000 - most:  # all have had their turn in the loop
        await asyncio.sleep(0)
        refused = [task for task in tasks if task.done()]
    assert len(refused) == 1_000 - most
    for task in refused:
        error = task.exception()
        assert isinstance(error, Problem)
        assert (error.status, error.slug) == (503, "busy-with-passwords")
        assert error.retry_after_seconds
    counting.go.set()
    await asyncio.gather(*(task for task in tasks if task not in refused))
    assert len(counting.done) == most
    assert counting.most_at_once == AT_ONCE
    assert not (await passwords.compare(None, "after the flood")).right


async def test_whoever_goes_away_while_it_waits_does_not_make_room_for_more_work(
    passwords: Passwords, counting: Counting
) -> None:
    counting.go.clear()
    tasks = [asyncio.create_task(passwords.compare(None, "x")) for _ in range(AT_ONCE)]
    for _ in range(AT_ONCE):
        assert await asyncio.to_thread(counting.began.acquire, timeout=30)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    waiting = [asyncio.create_task(passwords.compare(None, "y")) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Problem):
        await passwords.compare(None, "one too many")
    counting.go.set()
    await asyncio.gather(*waiting)
    assert counting.most_at_once == AT_ONCE


async def test_what_nobody_can_have_is_wrong_without_work(passwords: Passwords, counting: Counting) -> None:
    assert not (await passwords.compare("hash of right", "x" * 257)).right
    assert counting.done == []


def test_what_was_compared_shows_no_hash() -> None:
    from rota.admit.passwords import Compared

    assert "secret" not in repr(Compared(True, "secret"))
