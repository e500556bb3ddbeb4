"""Reads the results of the tasks that a task depends on, once, when it starts."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.attempt import MOST_INPUT_BYTES, Input
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def read_inputs(connection: AnyConnection, parents: Sequence[int]) -> dict[int, Input]:
    """By task: the results of parents that are done. A result that is too large is left out; its name stays."""
    rows = await connection.fetch(sql("parent_results/read_inputs"), parents, MOST_INPUT_BYTES)
    return {
        row["task"]: Input(row["task"], row["name"], None if row["result"] is None else row["result"].encode())
        for row in rows
    }
