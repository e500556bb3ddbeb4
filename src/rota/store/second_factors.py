"""Second factors: the sealed secret of an app, and recovery codes as hashes. Nothing here opens a secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.store.database import AnyConnection
from rota.store.envelope import Sealed, SecretName
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class SecondFactor:
    sealed: Sealed = field(repr=False)
    confirmed: bool  # a code of it was entered, so it counts
    last_step: int


def factor_name(principal: int) -> SecretName:
    """What the sealed secret is bound to: it opens for this user only. No tenant has the number 0."""
    return SecretName(0, f"second factor of {principal}")


async def read_second_factor(connection: AnyConnection, principal: int) -> SecondFactor | None:
    row = await connection.fetchrow(sql("sign_in/read_second_factor"), principal)
    return None if row is None else SecondFactor(Sealed(row[0], row[1], row[2]), row["confirmed"], row["last_step"])


async def save_second_factor(connection: AnyConnection, principal: int, sealed: Sealed) -> bool:
    """False: there is one that counts."""
    saved = await connection.fetchval(
        sql("sign_in/save_second_factor"), principal, sealed.key_id, sealed.wrapped_key, sealed.ciphertext
    )
    return saved is not None


async def use_step(connection: AnyConnection, principal: int, factor: SecondFactor, step: int) -> bool:
    """The factor counts from now on, and codes up to this step do not. False: it was used, or the factor changed."""
    used = await connection.fetchval(
        sql("sign_in/use_step"), principal, step, factor.sealed.key_id, factor.sealed.wrapped_key
    )
    return used is not None


async def remove_second_factor(connection: AnyConnection, principal: int) -> bool:
    """With its recovery codes. False: there was none that counted."""
    counted = await connection.fetchval(sql("sign_in/remove_second_factor"), principal)
    await connection.execute(sql("sign_in/remove_recovery_codes"), principal)
    return bool(counted)


async def set_recovery_codes(connection: AnyConnection, principal: int, hashes: Sequence[bytes]) -> None:
    """Instead of those before."""
    await connection.execute(sql("sign_in/remove_recovery_codes"), principal)
    await connection.execute(sql("sign_in/add_recovery_codes"), principal, list(hashes))


async def use_recovery_code(connection: AnyConnection, principal: int, code_hash: bytes) -> bool:
    return await connection.fetchval(sql("sign_in/use_recovery_code"), principal, code_hash) is not None


async def count_recovery_codes(connection: AnyConnection, principal: int) -> int:
    return int(await connection.fetchval(sql("sign_in/count_recovery_codes"), principal))


# ---- rotation of the master key --------------------------------------------------------------------------------------


async def sealed_otherwise(
    connection: AnyConnection, key_id: str, *, after: int, limit: int
) -> list[tuple[int, Sealed]]:
    """Principals whose secret is sealed by another master key, in order."""
    rows = await connection.fetch(sql("sign_in/sealed_otherwise"), key_id, after, limit)
    return [(row[0], Sealed(row[1], row[2], row[3])) for row in rows]


async def save_rewrapped(connection: AnyConnection, principal: int, before: Sealed, after: Sealed) -> bool:
    """False: it changed meanwhile, so there is nothing left to do."""
    saved = await connection.fetchval(
        sql("sign_in/save_rewrapped"), principal, after.key_id, after.wrapped_key, before.wrapped_key
    )
    return saved is not None


async def count_by_key(connection: AnyConnection) -> dict[str, int]:
    return {row[0]: row[1] for row in await connection.fetch(sql("sign_in/count_by_key"))}
