"""Admission as one server node has it, in this process: no HTTP, a real PostgreSQL, any number of them side by side."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import msgspec

from rota.admit.admission import Admission
from rota.admit.facts_cache import FactsCache
from rota.admit.submission import Admitted
from rota.model.accounts.permissions import Role
from rota.model.request.task_request import TaskRequest
from rota.model.tenant import MEMBER_SCOPES, Caller, Plan
from rota.store.database import Database
from rota.store.tenants import read_plans


@dataclass
class Node:
    database: Database
    admission: Admission
    facts: FactsCache

    async def submit(self, caller: Caller, *tasks: TaskRequest, key: str | None = None) -> Admitted:
        """A batch, as the batch route submits it."""
        body = msgspec.json.encode(tasks)
        return await self.admission.submit(caller, tasks, key=key, body=body, single=False)

    async def submit_one(self, caller: Caller, task: TaskRequest, *, key: str | None = None) -> Admitted:
        body = msgspec.json.encode(task)
        return await self.admission.submit(caller, [task], key=key, body=body, single=True)

    async def caller(self, plan: str = "unlimited", **limits: object) -> Caller:
        """Somebody of a new tenant, with the plan and some of its limits changed."""
        name = f"tenant-{uuid4().hex[:12]}"
        async with self.database.engine() as connection:
            number = await connection.fetchval(
                "insert into tenants (name, plan) values ($1, $2) returning id", name, plan
            )
            found = next(one for one in await read_plans(connection) if one.name == plan)
        fields = {field: getattr(found, field) for field in Plan.__dataclass_fields__}
        return Caller(
            token_id=1,
            tenant_id=number,
            tenant=name,
            user="ann",
            role=Role.MEMBER,
            scopes=MEMBER_SCOPES,
            plan=Plan(**{**fields, **limits}),
            trusted=True,
        )


@contextlib.asynccontextmanager
async def running_node(url: str) -> AsyncIterator[Node]:
    database = Database(url, connections=4)
    facts = FactsCache(database)
    await facts.refresh()
    admission = Admission(database, facts, server=lambda: 1, on_arrived=lambda *_: None, on_timed=lambda *_: None)
    writing = asyncio.create_task(admission.group_commit.run())
    try:
        yield Node(database, admission, facts)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await admission.ids.close()
        await database.close()


def task(**fields: object) -> TaskRequest:
    return TaskRequest(**{"command": ["true"], **fields})  # type: ignore[arg-type]
