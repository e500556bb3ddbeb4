"""The latest progress report of each running task, and its finished stages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.model.progress import Progress, ReportedProgress, cleaned
from rota.model.stage import StageDone
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

ROWS_A_ROUND = 20_000


async def store_progress(
    connection: AnyConnection, reported: Sequence[ReportedProgress], *, identity: int | None = None
) -> None:
    """Stores reports of running attempts that the sender speaks for; others are dropped.

    `identity`: of the sender's node; None: it has a worker's token.
    """
    latest = {one.task: one for one in reported}
    words = [latest[task] for task in sorted(latest)]
    progress = [cleaned(one.progress) for one in words]
    await connection.execute(
        sql("progress/store_progress"),
        *columns(words, "task", "attempt"),
        *columns(progress, "fraction", "message"),
        identity,
    )


async def record_stage(connection: AnyConnection, *, task: int, attempt: int, tenant: int, stage: StageDone) -> None:
    """Records a finished stage of a running attempt. A repeated call changes nothing."""
    words = cleaned(Progress(stage.number / stage.count, f"stage {stage.number}/{stage.count} {stage.name} done"))
    await connection.execute(
        sql("progress/record_stage"),
        task,
        attempt,
        tenant,
        words.fraction,
        words.message,
        stage.number,
        msgspec.json.encode(stage).decode(),
    )


async def forget_progress(connection: AnyConnection) -> None:
    """Deletes the progress of attempts that have ended."""
    await connection.execute(sql("progress/forget_progress"), ROWS_A_ROUND)
