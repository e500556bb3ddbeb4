"""Effects that must not happen twice: a durable record per tenant and key that the effect was done, with its result.

A claim means that a caller does the effect now; the unique key gives it to exactly one of concurrent callers. The claim
of a task holds while its attempt runs, any other until its lease ends. If a claimant dies, nobody knows whether it did
the effect, and the next caller may claim the key.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.store.database import AnyConnection
from rota.store.statements import sql

_TRIES = 5
_ASK_AGAIN_SECONDS = 1.0  # how soon to ask again while another task holds the claim


@dataclass(frozen=True, slots=True)
class Claimant:
    """The caller: a random claim, and the attempt it runs in, if any."""

    claim: str
    lease_ms: int
    task: int | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The caller does the effect."""


@dataclass(frozen=True, slots=True)
class Done:
    """The effect was done with this result."""

    result: str | None
    is_ours: bool  # by the same claim


@dataclass(frozen=True, slots=True)
class Taken:
    """Another caller does the effect now."""

    retry_after_seconds: float


async def claim(connection: AnyConnection, tenant: int, key: str, claimant: Claimant) -> First | Done | Taken:
    """Claims the effect. A repeated call with the same claim gets the same answer and a new lease."""
    for _ in range(_TRIES):
        won = await connection.fetchval(
            sql("once/claim_once"), tenant, key, claimant.claim, claimant.task, claimant.attempt, claimant.lease_ms
        )
        if won is not None:
            return First()
        found = await _read(connection, tenant, key, claimant.claim)
        if found is not None:
            return found  # else the claim was given up between the two statements
    return Taken(_ASK_AGAIN_SECONDS)


async def record(
    connection: AnyConnection, tenant: int, key: str, claim: str | None, result: str
) -> First | Done | Taken:
    """Records the effect as done. Without a claim: only if no other claim holds. `First`: this call recorded it."""
    if claim is None:
        written = await connection.fetchval(sql("once/record_once"), tenant, key, result)
    else:
        written = await connection.fetchval(sql("once/record_claimed"), tenant, key, claim, result)
    if written is not None:
        return First()
    return await _read(connection, tenant, key, claim) or Taken(_ASK_AGAIN_SECONDS)


async def give_up(connection: AnyConnection, tenant: int, key: str, claim: str) -> bool:
    """Gives the claim up: the effect was not done, and the next caller may claim it."""
    gone = await connection.fetchval(sql("once/give_up"), tenant, key, claim)
    return gone is not None


async def running_tenant(
    connection: AnyConnection, task: int, attempt: int, *, identity: int | None = None
) -> int | None:
    """The tenant of the attempt while it runs, if the sender speaks for it.

    `identity`: of the sender's node; None: it has a worker's token.
    """
    tenant: int | None = await connection.fetchval(sql("once/running_tenant"), task, attempt, identity)
    return tenant


async def _read(connection: AnyConnection, tenant: int, key: str, claim: str | None) -> Done | Taken | None:
    row = await connection.fetchrow(sql("once/read_once"), tenant, key, claim)
    if row is None:
        return None
    if row["done"]:
        return Done(row["result"], row["ours"])
    left = row["left_seconds"]
    return Taken(_ASK_AGAIN_SECONDS if left is None else max(0.0, left))
