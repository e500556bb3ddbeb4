"""A connection that explains itself: it runs the product's own statements and keeps the plan each was run with.

Every statement is prepared under the connection's own settings and explained with its real arguments, in a savepoint
that is rolled back; then it runs for good. So the plan is the one production gets, generic where that is pinned.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rota.store.database import Connection

_numbers = itertools.count(1)
_LEDGERS = ("tasks", "attempts", "queue", "task_tags", "graph_tasks", "graphs")


@dataclass
class Explained:
    connection: Connection
    plans: list[dict[str, Any]] = field(default_factory=list)

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        await self._explain(statement, arguments)
        return list(await self.connection.fetch(statement, *arguments))

    async def fetchrow(self, statement: str, *arguments: object) -> Any:
        await self._explain(statement, arguments)
        return await self.connection.fetchrow(statement, *arguments)

    async def fetchval(self, statement: str, *arguments: object) -> Any:
        await self._explain(statement, arguments)
        return await self.connection.fetchval(statement, *arguments)

    async def execute(self, statement: str, *arguments: object) -> str:
        await self._explain(statement, arguments)
        return str(await self.connection.execute(statement, *arguments))

    def transaction(self) -> Any:
        return self.connection.transaction()

    async def _explain(self, statement: str, arguments: Sequence[object]) -> None:
        name = f"explained_{next(_numbers)}"
        await self.connection.execute(f"prepare {name} as {statement}")
        values = f"({', '.join(_literal(argument) for argument in arguments)})" if arguments else ""
        undo = self.connection.transaction()
        await undo.start()
        try:
            plan = await self.connection.fetchval(f"explain (analyze, format json) execute {name}{values}")
        finally:
            await undo.rollback()
            await self.connection.execute(f"deallocate {name}")
        self.plans.append(json.loads(plan)[0]["Plan"])

    def scans(self) -> Iterator[tuple[str, str, bool]]:
        """(node type, relation, whether it ran) of everything that reads a table."""
        for plan in self.plans:
            for node in _nodes(plan):
                if "Relation Name" in node and "Scan" in node["Node Type"]:
                    yield node["Node Type"], node["Relation Name"], node.get("Actual Loops", 0) > 0

    def most_read(self) -> int:
        """The rows that the most thorough scan took from its table or index, whether they were wanted or not.

        Of tables that tasks fill: those of nodes, pools and lanes are read from end to end as long as they are small.
        """
        return max(
            int(node.get("Actual Rows", 0) * loops + node.get("Rows Removed by Filter", 0) * loops)
            for plan in self.plans
            for node in _nodes(plan)
            if node.get("Relation Name", "").startswith(_LEDGERS) and (loops := node.get("Actual Loops", 0))
        )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _literal(value: object) -> str:
    return "null" if value is None else "'" + _text(value).replace("'", "''") + "'"


def _text(value: object) -> str:
    """A value as PostgreSQL reads it from text; the prepared statement knows the type."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return "{" + ",".join("null" if item is None else json.dumps(_text(item)) for item in value) + "}"
        case _:
            return str(value)
