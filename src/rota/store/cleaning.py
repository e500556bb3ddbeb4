"""Removing what nobody needs any more, a bounded number of rows at a time."""

from __future__ import annotations

from rota.store.database import AnyConnection

ROWS_A_ROUND = 20_000


async def forget_keys(connection: AnyConnection, *, hours: int) -> None:
    """Idempotency keys past their time."""
    await connection.execute(
        """delete from idempotency where (tenant, key_hash) in (
            select tenant, key_hash from idempotency where created_at < now() - make_interval(hours => $1)
            order by created_at limit $2 for update skip locked)""",
        hours, ROWS_A_ROUND,
    )  # fmt: skip


async def forget_admission_commits(connection: AnyConnection) -> None:
    """An hour is far longer than an admission transaction can stay in doubt."""
    await connection.execute(
        """delete from admission_commits where id in (
            select id from admission_commits where created_at < now() - interval '1 hour'
            limit $1 for update skip locked)""",
        ROWS_A_ROUND,
    )


async def forget_concurrency_keys(connection: AnyConnection) -> None:
    """Keys that nobody holds or waits for, and whose cool-down is over. They are made again when they are needed."""
    await connection.execute(
        """delete from concurrency_keys where (tenant, key) in (
            select tenant, key from concurrency_keys keys
            where (cooled_until is null or cooled_until < now())
                and not exists (select from key_places where (tenant, key) = (keys.tenant, keys.key))
                and not exists (select from key_waits where (tenant, key) = (keys.tenant, keys.key))
            limit $1 for update skip locked)""",
        ROWS_A_ROUND,
    )


async def forget_servers(connection: AnyConnection) -> None:
    """Keeps the row while a task may still name it as the node that admitted it; only the liveness is dropped."""
    await connection.execute(
        """update servers set seen_at = '-infinity'
            where seen_at < now() - interval '1 hour' and seen_at > '-infinity'"""
    )
