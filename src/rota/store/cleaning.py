"""Removing what nobody needs any more, a bounded number of rows at a time."""

from __future__ import annotations

from rota.store.database import AnyConnection
from rota.store.statements import sql

ROWS_A_ROUND = 20_000


async def forget_keys(connection: AnyConnection, *, hours: int) -> None:
    """Idempotency keys past their time."""
    await connection.execute(sql("cleaning/forget_keys"), hours, ROWS_A_ROUND)


async def forget_admission_commits(connection: AnyConnection) -> None:
    """An hour is far longer than an admission transaction can stay in doubt."""
    await connection.execute(sql("cleaning/forget_admission_commits"), ROWS_A_ROUND)


async def forget_concurrency_keys(connection: AnyConnection) -> None:
    """Keys that nobody holds or waits for, and whose cool-down is over. They are made again when they are needed."""
    await connection.execute(sql("cleaning/forget_concurrency_keys"), ROWS_A_ROUND)


async def forget_servers(connection: AnyConnection) -> None:
    """Keeps the row while a task may still name it as the node that admitted it; only the liveness is dropped."""
    await connection.execute(sql("cleaning/forget_servers"))
