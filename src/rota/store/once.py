"""Effects that must not happen twice: a durable record per tenant and key of "done, with this result".

A claim is somebody doing it right now; of all who ask at once exactly one gets it, because the key is unique. A claim
by a task holds as long as that attempt runs; any other lapses with its lease. What nobody can know is whether a
claimant that died had done the effect already: the next one is first again. The caller names the tenant.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.store.database import AnyConnection
from rota.store.statements import sql

_TRIES = 5
_TASK_LOOKS_SECONDS = 1.0  # how soon to ask again while another task is at it


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who asks: a token of its own, and the attempt it speaks for, if it is one."""

    claim: str
    lease_ms: int
    task: int | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class First:
    """It is yours to do."""


@dataclass(frozen=True, slots=True)
class Done:
    """It was done; this is what was recorded."""

    result: str | None
    is_ours: bool  # by this very claim


@dataclass(frozen=True, slots=True)
class Taken:
    """Another is doing it."""

    retry_after_seconds: float


async def claim(connection: AnyConnection, tenant: int, key: str, who: Claimant) -> First | Done | Taken:
    """Asking again with the same claim gives the same answer, and a lease anew."""
    for _ in range(_TRIES):
        won = await connection.fetchval(
            sql("once/claim_once"), tenant, key, who.claim, who.task, who.attempt, who.lease_ms
        )
        if won is not None:
            return First()
        found = await _look(connection, tenant, key, who.claim)
        if found is not None:
            return found  # else it was given up between the two statements
    return Taken(_TASK_LOOKS_SECONDS)


async def record(
    connection: AnyConnection, tenant: int, key: str, claim: str | None, result: str
) -> First | Done | Taken:
    """Writes that it is done. Without a claim: only if nobody has one. `First`: recorded just now."""
    if claim is None:
        written = await connection.fetchval(sql("once/record_once"), tenant, key, result)
    else:
        written = await connection.fetchval(sql("once/record_claimed"), tenant, key, claim, result)
    if written is not None:
        return First()
    return await _look(connection, tenant, key, claim) or Taken(_TASK_LOOKS_SECONDS)


async def give_up(connection: AnyConnection, tenant: int, key: str, claim: str) -> bool:
    """It was not done after all: the next who asks is first."""
    gone = await connection.fetchval(sql("once/give_up"), tenant, key, claim)
    return gone is not None


async def running_tenant(connection: AnyConnection, task: int, attempt: int) -> int | None:
    """Whose attempt it is, as long as it runs."""
    tenant: int | None = await connection.fetchval(sql("once/running_tenant"), task, attempt)
    return tenant


async def _look(connection: AnyConnection, tenant: int, key: str, claim: str | None) -> Done | Taken | None:
    row = await connection.fetchrow(sql("once/read_once"), tenant, key, claim)
    if row is None:
        return None
    if row["done"]:
        return Done(row["result"], row["ours"])
    left = row["left_seconds"]
    return Taken(_TASK_LOOKS_SECONDS if left is None else max(0.0, left))
