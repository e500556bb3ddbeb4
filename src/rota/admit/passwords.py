"""Hashes and compares passwords with Argon2id, in threads: at most two at a time, and few that wait.

Each takes 64 MiB and all cores for a moment, by design. A node that took as many as come would be brought down by
whoever sends wrong passwords; here the rest is refused at once. Nothing here knows users: who has no password is
compared with a hash too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from rota.model.errors import Problem
from rota.model.sign_in.password_rules import can_be_hashed, normalised

AT_ONCE = 2
MOST_WAITING = 16
BUSY_SECONDS = 2.0

# Of a password that nobody knows: whoever has none is compared with it, so that it takes as long as for others.
NOBODYS_HASH = "$argon2id$v=19$m=65536,t=3,p=4$UTceSirDxpGYPS0hC+LEMw$GLfMvNSisCh10YT3Akps/zPHLxwyMSiQFPIUrzAu5C8"

T = TypeVar("T")


class Hasher(Protocol):
    def hash(self, password: str) -> str: ...

    def verify(self, hash: str, password: str) -> bool: ...

    def check_needs_rehash(self, hash: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Compared:
    right: bool
    better: str | None = field(
        default=None, repr=False
    )  # a hash with the parameters of today, if the kept one has others


class Passwords:
    def __init__(self, hasher: Hasher | None = None) -> None:
        self._hasher: Hasher = hasher or PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")
        self._places = threading.BoundedSemaphore(AT_ONCE + MOST_WAITING)

    async def compare(self, kept: str | None, password: str) -> Compared:
        """`kept` None: there is no such user, or it has no password; that takes as long, and is never right."""
        text = normalised(password)
        if not can_be_hashed(text):
            return Compared(False)
        return await self._run(lambda: self._compare(kept, text))

    async def hash(self, password: str) -> str:
        text = normalised(password)
        return await self._run(lambda: self._hasher.hash(text))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compare(self, kept: str | None, text: str) -> Compared:
        try:
            right = self._hasher.verify(kept or NOBODYS_HASH, text)
        except (VerificationError, InvalidHashError):
            right = False
        if kept is None or not right:
            return Compared(False)
        return Compared(True, self._hasher.hash(text) if self._hasher.check_needs_rehash(kept) else None)

    async def _run(self, work: Callable[[], T]) -> T:
        """The place is free again when the work has ended, also if nobody waits for it any more."""
        if not self._places.acquire(blocking=False):
            raise Problem(
                "busy-with-passwords",
                status=503,
                title="Not available right now",
                detail="this server node compares as many passwords as it can; try again",
                retry_after_seconds=BUSY_SECONDS,
            )
        try:
            future = self._threads.submit(work)
        except RuntimeError:  # the node stops
            self._places.release()
            raise
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, _: Future[T]) -> None:
        self._places.release()
