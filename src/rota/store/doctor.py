"""Examines a database for `rota doctor`: server version, schema, stuck tasks."""

from __future__ import annotations

from dataclasses import dataclass

from rota.store.database import AnyConnection, connect
from rota.store.migrations import version_of
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class Examined:
    postgresql: int  # the major version
    schema: int
    is_current: bool
    stuck: list[int] | None  # None: not looked for, because the schema is another one


async def examine(connection: AnyConnection) -> Examined:
    version = await version_of(connection)
    server = int(await connection.fetchval(sql("doctor/server_version")))
    stuck = None
    if version.current:
        stuck = [int(row["id"]) for row in await connection.fetch(sql("doctor/stuck_tasks"))]
    return Examined(server // 10000, version.applied, version.current, stuck)


async def examine_database(url: str) -> Examined:
    connection = await connect(url, {"application_name": "rota doctor"})
    try:
        return await examine(connection)
    finally:
        await connection.close()
