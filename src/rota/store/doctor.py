"""Examines a database for `rota doctor`: server version, schema, stuck tasks."""

from __future__ import annotations

from dataclasses import dataclass

from rota.store.database import connect
from rota.store.migrations import read_version
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class Examined:
    server_version: int
    schema: int
    schema_current: bool
    stuck: int


async def examine(url: str) -> Examined:
    version = await read_version(url)
    connection = await connect(url, {"application_name": "rota doctor"})
    try:
        server = int(await connection.fetchval(sql("doctor/server_version")))
        stuck = len(await connection.fetch(sql("doctor/stuck_tasks"))) if version.current else 0
    finally:
        await connection.close()
    return Examined(server, version.applied, version.current, stuck)
