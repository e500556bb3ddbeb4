"""Tokens as their owners manage them: listed, rotated, and when they were last used. `tenants.py` adds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.store.database import AnyConnection
from rota.store.statements import sql
from rota.store.tenants import TokenRow, token_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Which tokens somebody may see: all, or those of a tenant, and in any case their own."""

    everything: bool
    tenant: int | None
    owner: int | None


async def read_tokens(
    connection: AnyConnection, visible: Visible, *, number: int | None = None, name: str | None = None
) -> list[TokenRow]:
    """Of those that are visible: the one with this number, those with this name, or all."""
    rows = await connection.fetch(
        sql("tokens/read_tokens"), visible.everything, visible.tenant, visible.owner, number, name
    )
    return [token_of(row) for row in rows]


async def rotate_token(
    connection: AnyConnection,
    number: int,
    *,
    public_id: str,
    secret_hash: bytes,
    expires: timedelta | datetime | None,
    overlap: timedelta,
    by: str,
) -> int | None:
    """A token with the same rights and name; the old one ends after the overlap. In a transaction.

    None: it is revoked, or was replaced before.
    """
    await connection.execute(sql("tokens/lock_token"), number)
    copy = await connection.fetchval(
        sql("tokens/copy_token"),
        number,
        public_id,
        secret_hash,
        expires if isinstance(expires, datetime) else None,
        expires if isinstance(expires, timedelta) else None,
        by,
    )
    if copy is None:
        return None
    await connection.execute(sql("tokens/end_replaced"), number, copy, overlap)
    await connection.execute(sql("tokens/name_copy"), number, copy)
    return int(copy)


async def note_token_use(connection: AnyConnection, used: Mapping[int, str | None], *, again: timedelta) -> None:
    """When and from which address; not if the row says so of a time less than `again` ago."""
    await connection.execute(sql("tokens/note_token_use"), list(used), list(used.values()), again)
