"""Attempts to sign in, counted for all server nodes at once. The rules are in `model/sign_in/attempts.py`."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.sign_in.attempts import FORGET_SECONDS, FREE_FAILURES, WAIT_SECONDS, Rate
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def take_failure(connection: AnyConnection, key: str) -> float | None:
    """Counts a failure, until `forget_failures`. Returns how many seconds to wait instead if it is too early."""
    row = await connection.fetchrow(sql("sign_in/take_failure"), key, FREE_FAILURES, list(WAIT_SECONDS), FORGET_SECONDS)
    return None if row is None or row["taken"] else max(0.0, row["wait_seconds"])


async def take_rate(connection: AnyConnection, key: str, rate: Rate) -> float | None:
    """None: there was one left. Else after how many seconds there is."""
    row = await connection.fetchrow(sql("sign_in/take_rate"), key, rate.seconds_each, rate.burst_seconds)
    return None if row is None or row["taken"] else max(0.0, row["wait_seconds"])


async def give_back(connection: AnyConnection, rates: Sequence[tuple[str, Rate]]) -> None:
    """A success takes nothing."""
    keys, seconds = [key for key, _ in rates], [rate.seconds_each for _, rate in rates]
    await connection.execute(sql("sign_in/give_back"), keys, seconds)


async def forget_failures(connection: AnyConnection, key: str) -> None:
    await connection.execute(sql("sign_in/forget_failures"), key)


async def forget_attempts(connection: AnyConnection, *, rows: int) -> None:
    """Deletes counts that bound nobody any more."""
    await connection.execute(sql("sign_in/forget_attempts"), rows, FORGET_SECONDS)
