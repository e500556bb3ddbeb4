"""A real PostgreSQL for tests: one server per test process, one fresh database per user of it.

Databases are copied from a template that has the schema, which takes a few hundredths of a second.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import asyncpg

from rota.store.embedded import EmbeddedPostgres
from rota.store.migrations import upgrade


class TestPostgres:
    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.server = EmbeddedPostgres(folder / "postgres")
        self._numbers = itertools.count(1)

    def start(self) -> None:
        self.server.start()
        asyncio.run(self._make_template())

    def stop(self) -> None:
        self.server.stop()

    def url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.server.socket}"

    def create(self) -> str:
        """A fresh database with the schema; its URL."""
        name = f"test_{next(self._numbers)}"
        asyncio.run(self._execute(f"create database {name} template rota_template"))
        return self.url(name)

    async def create_async(self) -> str:
        name = f"test_{next(self._numbers)}"
        await self._execute(f"create database {name} template rota_template")
        return self.url(name)

    async def _make_template(self) -> None:
        # These tests kill processes, never the machine: what the kernel has been given is not lost. Disks are slow.
        for setting in ("fsync", "full_page_writes"):
            await self._execute(f"alter system set {setting} = off")
        await self._execute("select pg_reload_conf()")
        await self._execute("create database rota_template")
        await upgrade(self.url("rota_template"), check_transitions=True)

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
