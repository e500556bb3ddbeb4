"""How users sign in: passwords as hashes, links that count once, steps on the way to a session, and rules.

Second factors are in `second_factors.py`, counts of attempts in `sign_in_attempts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.store.database import AnyConnection
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class Factors:
    """What a user signs in with."""

    password: str | None = field(repr=False)  # a hash; None: no password
    second_factor: bool
    needs_second: bool  # one of its roles asks for a second factor


@dataclass(frozen=True, slots=True)
class Step:
    """Somebody gave the right password. `enrol`: the second factor has to be set up first."""

    principal: int
    account: str
    enrol: bool


@dataclass(frozen=True, slots=True)
class Link:
    """`principal` None: it makes the first administrator."""

    id: int
    principal: int | None


NO_FACTORS = Factors(None, False, False)
NOBODY = -1  # the number of no principal


async def find_factors(connection: AnyConnection, principal: int) -> Factors:
    row = await connection.fetchrow(sql("sign_in/find_factors"), principal)
    return NO_FACTORS if row is None else Factors(*row)


async def save_password(connection: AnyConnection, principal: int, password_hash: str) -> None:
    await connection.execute(sql("sign_in/save_password"), principal, password_hash)


async def rehash_password(connection: AnyConnection, principal: int, *, before: str, after: str) -> None:
    await connection.execute(sql("sign_in/rehash_password"), principal, before, after)


# ---- steps on the way to a session -----------------------------------------------------------------------------------


async def add_step(connection: AnyConnection, step: Step, *, secret_hash: bytes, lasts: timedelta) -> None:
    await connection.execute(sql("sign_in/add_step"), secret_hash, step.principal, step.account, step.enrol, lasts)


async def find_step(connection: AnyConnection, secret_hash: bytes) -> Step | None:
    row = await connection.fetchrow(sql("sign_in/find_step"), secret_hash)
    return None if row is None else Step(*row)


async def remove_step(connection: AnyConnection, secret_hash: bytes) -> bool:
    """False: it is over; a step leads to one session."""
    return await connection.fetchval(sql("sign_in/remove_step"), secret_hash) is not None


async def remove_steps(connection: AnyConnection, principal: int) -> None:
    await connection.execute(sql("sign_in/remove_steps"), principal)


# ---- links -----------------------------------------------------------------------------------------------------------


async def add_link(
    connection: AnyConnection, *, secret_hash: bytes, principal: int | None, by: str, lasts: timedelta
) -> datetime:
    """When the new link ends. Those before end now."""
    await connection.execute(sql("sign_in/end_links"), principal)
    ends: datetime = await connection.fetchval(sql("sign_in/add_link"), secret_hash, principal, by, lasts)
    return ends


async def end_links(connection: AnyConnection, principal: int | None) -> None:
    await connection.execute(sql("sign_in/end_links"), principal)


async def find_link(connection: AnyConnection, secret_hash: bytes) -> Link | None:
    row = await connection.fetchrow(sql("sign_in/find_link"), secret_hash)
    return None if row is None else Link(*row)


async def use_link(connection: AnyConnection, number: int) -> bool:
    """False: somebody else used it."""
    return await connection.fetchval(sql("sign_in/use_link"), number) is not None


async def has_administrator(connection: AnyConnection) -> bool:
    """Whether an administrator everywhere can sign in with a password."""
    return bool(await connection.fetchval(sql("sign_in/has_administrator")))


# ---- rules -----------------------------------------------------------------------------------------------------------


async def read_rules(connection: AnyConnection) -> list[str]:
    """The roles that ask for a second factor."""
    return list(await connection.fetchval(sql("sign_in/read_rules")) or ())


async def save_rules(connection: AnyConnection, second_factor_roles: Sequence[str]) -> None:
    await connection.execute(sql("sign_in/save_rules"), list(second_factor_roles))


async def end_sessions_without_second(connection: AnyConnection) -> int:
    """How many ended: their users need a second factor now, and have none."""
    return len(await connection.fetch(sql("sign_in/end_sessions_without_second")))


async def forget(connection: AnyConnection, *, rows: int) -> None:
    """Links that ended long ago, and steps that nobody went on from."""
    await connection.execute(sql("sign_in/forget_links"), rows)
    await connection.execute(sql("sign_in/forget_steps"), rows)
