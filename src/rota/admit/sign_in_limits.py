"""Lets attempts to sign in through, or says how long to wait; before any password is hashed, and on all nodes together.

The counts are in PostgreSQL. What was refused is remembered here for a moment, so that a flood of attempts costs this
node a look into a dictionary each, and the database next to nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rota.model.errors import Problem
from rota.model.sign_in.attempts import ALL, OF_ADDRESS, OF_ALL, Rate, account_key, address_key, device_key
from rota.store.database import AnyConnection, Database
from rota.store.sign_in_attempts import forget_failures, give_back, take_back_failure, take_failure, take_rate

REMEMBER_SECONDS = 5.0  # a success through another node may make an account free again
MOST_REMEMBERED = 10_000

OF_LOG = Rate(1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One that was let through. `device`: a browser that this user signed in from before."""

    account: str
    address: str
    device: str | None

    @property
    def failures_of(self) -> str:
        return self.account if self.device is None else device_key(self.device)


class TooMany(Problem):
    """`newly`: this node did not refuse it for the same reason a moment ago."""

    def __init__(self, what: str, seconds: float, *, newly: bool) -> None:
        super().__init__(
            "too-many-attempts",
            status=429,
            title="Too many attempts",
            detail=f"too many attempts to sign in {_WHAT[what]}; wait, then try again",
            retry_after_seconds=seconds,
        )
        self.newly = newly
        self.what = what


_WHAT = {"account": "with this name", "device": "with this name", "address": "from your network", "all": "in all"}


class SignInLimits:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._refused: dict[str, tuple[float, float]] = {}  # asked again from, and free at, by the monotonic clock

    def check_remembered(self, name: str, address: str | None) -> None:
        """Refuses again what this node refused a moment ago; costs nothing."""
        for key in (address_key(address), account_key(name), ALL):
            self._check_refused(key)

    async def enter(self, name: str, *, address: str | None, device: str | None) -> Attempt:
        """Counts an attempt, as a failure until `succeeded`."""
        attempt = Attempt(account_key(name), address_key(address), device)
        keys = [attempt.failures_of] if device else [attempt.address, attempt.account, ALL]
        for key in keys:
            self._check_refused(key)
        async with self._database.engine() as connection:
            if device is None:
                self._let(attempt.address, await take_rate(connection, attempt.address, OF_ADDRESS))
            self._let(attempt.failures_of, await take_failure(connection, attempt.failures_of))
            if device is None:
                self._let(ALL, await take_rate(connection, ALL, OF_ALL))
        return attempt

    async def proved(self, connection: AnyConnection, attempt: Attempt) -> None:
        """The password or code was right, so nobody failed. A second factor may still be missing."""
        await take_back_failure(connection, attempt.failures_of)
        if attempt.device is None:
            await give_back(connection, [(attempt.address, OF_ADDRESS), (ALL, OF_ALL)])

    async def succeeded(self, connection: AnyConnection, attempt: Attempt) -> None:
        """In the transaction in which the session begins."""
        await forget_failures(connection, attempt.failures_of)
        self._refused.pop(attempt.failures_of, None)

    async def may_log(self, what: str) -> bool:
        """Whether to write down a failure: one row a minute for each account and each kind of refusal."""
        async with self._database.engine() as connection:
            return await take_rate(connection, f"log:{what}", OF_LOG) is None

    def _check_refused(self, key: str) -> None:
        asked_again, free_at = self._refused.get(key, (0.0, 0.0))
        if time.monotonic() < asked_again:
            raise TooMany(_kind(key), free_at - time.monotonic(), newly=False)

    def _let(self, key: str, wait_seconds: float | None) -> None:
        if wait_seconds is None:
            return
        if len(self._refused) >= MOST_REMEMBERED:
            self._refused.clear()
        now = time.monotonic()
        self._refused[key] = (now + min(wait_seconds, REMEMBER_SECONDS), now + wait_seconds)
        raise TooMany(_kind(key), wait_seconds, newly=True)


def _kind(key: str) -> str:
    return key.partition(":")[0]
