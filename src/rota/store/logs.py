"""Log chunks as they come from agents."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.attempt import LogChunk
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def store_chunks(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    """Keeps chunks; one that is resent under the same number is kept once."""
    await connection.execute(
        sql("insert_log_chunks"), [c.task for c in chunks], [c.attempt for c in chunks], [c.seq for c in chunks],
        [c.stream for c in chunks], [c.data for c in chunks],
    )  # fmt: skip
