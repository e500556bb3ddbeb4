"""A real PostgreSQL for tests: one server per test process, one fresh database per user of it.

Databases are copied from a template that has the schema, which takes a few hundredths of a second.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import asyncpg

from rota.store import embedded
from rota.store.embedded import EmbeddedPostgres
from rota.store.migrations import upgrade


class TestPostgres:
    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.server = EmbeddedPostgres(folder / "postgres")
        self._numbers = itertools.count(1)

    def start(self) -> None:
        self.server.start()
        asyncio.run(self.make_template())

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

    async def make_template(self) -> None:
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


@contextmanager
def postgres_on(address: str, folder: Path) -> Iterator[TestPostgres]:
    """A PostgreSQL that also listens on this address, on its usual port, and trusts whoever reaches it there."""
    postgres = TestPostgres(folder)
    with mock.patch.dict(embedded.CONFIGURATION, {"listen_addresses": address}):
        postgres.server.start()
    try:
        rules = postgres.server.data / "pg_hba.conf"
        rules.write_text("host all all 0.0.0.0/0 trust\n" + rules.read_text())
        asyncio.run(postgres.make_template())
        yield postgres
    finally:
        postgres.stop()
