"""Deletes rows that are no longer needed, a bounded number at a time."""

from __future__ import annotations

from rota.store.database import AnyConnection
from rota.store.statements import sql

ROWS_A_ROUND = 20_000
FEW_DIFFERENCES = 50  # in the counts of rows: fewer are not worth a write


async def forget_keys(connection: AnyConnection, *, hours: int) -> None:
    """Deletes idempotency keys older than `hours`."""
    await connection.execute(sql("cleaning/forget_keys"), hours, ROWS_A_ROUND)


async def forget_admission_commits(connection: AnyConnection) -> None:
    """An hour is far longer than an admission transaction can stay in doubt."""
    await connection.execute(sql("cleaning/forget_admission_commits"), ROWS_A_ROUND)


async def forget_concurrency_keys(connection: AnyConnection) -> None:
    """Deletes concurrency keys that no task holds or waits for and that are not cooled down. Starts make them again."""
    await connection.execute(sql("cleaning/forget_concurrency_keys"), ROWS_A_ROUND)


async def fold_row_counts(connection: AnyConnection) -> None:
    """Adds up the differences in the numbers of live tasks and dead letters, so that reading them stays cheap."""
    await connection.execute(sql("cleaning/fold_row_counts"), FEW_DIFFERENCES, ROWS_A_ROUND)


async def forget_servers(connection: AnyConnection) -> None:
    """Marks dead servers as gone. Their rows stay, because tasks name the server that admitted them."""
    await connection.execute(sql("cleaning/forget_servers"))
