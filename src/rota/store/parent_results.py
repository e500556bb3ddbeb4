"""What the tasks that a task depends on returned: read once, when it is about to start."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.attempt import MOST_INPUT_BYTES, Input
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def read_inputs(connection: AnyConnection, parents: Sequence[int]) -> dict[int, Input]:
    """By task: those that are done and returned something. Of one that is too large only its name."""
    rows = await connection.fetch(sql("parent_results/read_inputs"), parents, MOST_INPUT_BYTES)
    return {
        row["task"]: Input(row["task"], row["name"], None if row["result"] is None else row["result"].encode())
        for row in rows
    }
