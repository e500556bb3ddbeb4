"""Dependencies between tasks in both directions, transitively, across graphs, and after their ends.

A walk has a bound: it returns the nearest tasks, and says whether there are more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.store.database import AnyConnection
from rota.store.statements import sql

MOST_RELATED = 10_000  # tasks of one walk
MOST_SHOWN = 1_000  # dependents in a task's own document


@dataclass(frozen=True, slots=True)
class Related:
    tasks: frozenset[int]
    more: bool  # the walk stopped at its bound


async def ancestors(connection: AnyConnection, tasks: Sequence[int], tenant: int, *, most: int) -> Related:
    """The tasks that these depend on."""
    return await _walk(connection, "dependents/ancestors", tasks, tenant, most)


async def descendants(connection: AnyConnection, tasks: Sequence[int], tenant: int, *, most: int) -> Related:
    """The tasks that depend on these."""
    return await _walk(connection, "dependents/descendants", tasks, tenant, most)


async def _walk(connection: AnyConnection, statement: str, tasks: Sequence[int], tenant: int, most: int) -> Related:
    rows = await connection.fetch(sql(statement), tasks, tenant, len(tasks) + most + 1)
    found = [row["id"] for row in rows[len(tasks) :]]  # the walk begins with the tasks themselves
    return Related(frozenset(found[:most]), len(found) > most)
