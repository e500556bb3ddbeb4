"""Uploads on a real database and a folder: in whatever order things fail, no object is lost sight of and no row lies."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rota.admit.artifacts import Artifacts, Expected
from rota.model.artifact import Purpose
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.store import artifacts as rows
from rota.store.artifacts import Holder
from rota.store.database import Database
from rota.store.objects import ObjectStore, open_objects
from tests.admit.node import Node, task


@dataclass
class Bench:
    node: Node
    artifacts: Artifacts
    objects: ObjectStore
    caller: Caller
    folder: Path

    async def upload(self, data: bytes, caller: Caller | None = None, **more: Any) -> rows.ArtifactRow:
        artifact, _ = await self.artifacts.upload(
            caller or self.caller, pieces(data), name=more.get("name", ""), expected=Expected(size_bytes=len(data))
        )
        return artifact

    async def ask(self, question: str, *arguments: object) -> list[tuple[Any, ...]]:
        async with self.node.database.engine() as connection:
            return [tuple(row) for row in await connection.fetch(question, *arguments)]

    async def age(self, keys: list[str]) -> None:
        """Nobody can be finishing these uploads any more."""
        await self.ask(
            "update loose_objects set remove_at = now() - interval '1 second' where object_key = any($1)", keys
        )

    async def loose(self) -> list[str]:
        """Of this bench only: others share the database."""
        found = await self.ask("select object_key from loose_objects where starts_with(object_key, $1)", self.prefix)
        return [key for (key,) in found]

    def kept(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    @property
    def prefix(self) -> str:
        return self.artifacts._prefix


@pytest.fixture
async def bench(node: Node, tmp_path: Path) -> Bench:
    objects = open_objects(str(tmp_path))
    return Bench(node, _artifacts(node.database, objects), objects, await node.caller(), tmp_path)


def _artifacts(database: Database, objects: ObjectStore | None, **changes: Any) -> Artifacts:
    options: dict[str, Any] = {"prefix": uuid4().hex, "limit_bytes": 10_000_000, "kept_for": None}
    return Artifacts(database, objects, **{**options, **changes})


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def test_the_limit_counts_the_bytes_that_come_not_those_that_were_declared(bench: Bench) -> None:
    small = _artifacts(bench.node.database, bench.objects, limit_bytes=1000)
    for source, expected in (
        (pieces(bytes(2000)), Expected(size_bytes=2000)),
        (pieces(bytes(600), bytes(600)), Expected()),
        (pieces(bytes(600), bytes(600)), Expected(size_bytes=5)),
    ):
        with pytest.raises(Problem) as refused:
            await small.upload(bench.caller, source, name="", expected=expected)
        assert (refused.value.status, refused.value.slug) == (413, "payload-too-large")
    assert bench.kept() == []
    assert await bench.ask("select 1 from artifacts where tenant = $1", bench.caller.tenant_id) == []
    await small.upload(bench.caller, pieces(bytes(1000)), name="", expected=Expected())


async def test_an_upload_larger_than_a_plans_whole_storage_gets_a_final_answer(bench: Bench) -> None:
    caller = await bench.node.caller(storage_bytes=1000)
    for expected in (Expected(size_bytes=1200), Expected()):
        with pytest.raises(Problem) as refused:
            await bench.artifacts.upload(caller, pieces(bytes(600), bytes(600)), name="", expected=expected)
        assert (refused.value.status, refused.value.slug) == (413, "payload-too-large")
    assert bench.kept() == []


async def test_uploads_at_once_can_not_pass_a_plans_storage_together(bench: Bench) -> None:
    caller = await bench.node.caller(storage_bytes=2500)
    results = await asyncio.gather(*(bench.upload(os.urandom(1000), caller) for _ in range(6)), return_exceptions=True)
    refused = [one for one in results if isinstance(one, Problem)]
    assert {(one.status, one.slug) for one in refused} == {(429, "quota-exceeded")}
    assert len(results) - len(refused) == 2
    assert len(bench.kept()) == 2
    assert await bench.loose() == []


async def test_equal_uploads_at_once_are_one_artifact(bench: Bench) -> None:
    data = os.urandom(5000)
    made = await asyncio.gather(*(bench.upload(data) for _ in range(6)))
    assert {one.id for one in made} == {made[0].id}
    assert bench.kept() == [made[0].object_key]
    assert await bench.loose() == []


async def test_one_tenant_can_not_take_all_the_turns(bench: Bench) -> None:
    never = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"x"
        await never.wait()

    slow = [
        asyncio.create_task(bench.artifacts.upload(bench.caller, stalled(), name="", expected=Expected()))
        for _ in range(8)
    ]
    async with asyncio.timeout(20):
        while bench.artifacts._uploads.get(bench.caller.tenant_id) != 8 or len(await bench.loose()) != 8:
            await asyncio.sleep(0.005)
    with pytest.raises(Problem) as refused:
        await bench.upload(b"ninth")
    assert (refused.value.status, refused.value.retry_after_seconds) == (503, 2.0)
    await bench.upload(b"of another", await bench.node.caller())
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert await bench.upload(b"ninth")
    assert len(await bench.loose()) == 8, "cut off without a word, as by a crash: left to the sweeper"


async def test_whatever_a_dead_process_left_is_swept_and_nothing_else(bench: Bench) -> None:
    """Object without row, key without object, row removed but object there: all go. A live upload and artifacts stay."""
    kept = await bench.upload(b"kept")
    orphan, announced, removed, live = (
        f"{bench.prefix}/1/{name}" for name in ("orphan", "announced", "removed", "live")
    )
    async with bench.node.database.engine() as connection:
        for key in (orphan, announced, removed, live):
            await rows.announce(connection, key, within=timedelta(hours=1))
    for key in (orphan, removed, live):
        await bench.objects.put(key, pieces(b"x"))
    (bench.folder / f"{announced}#1").parent.mkdir(parents=True, exist_ok=True)
    (bench.folder / f"{announced}#1").write_bytes(b"half a part")
    await bench.age([orphan, announced, removed])
    await bench.artifacts.sweep()
    assert bench.kept() == sorted([kept.object_key, live])
    assert await bench.loose() == [live]


async def test_an_upload_that_the_sweeper_gave_up_is_refused_and_leaves_nothing(bench: Bench) -> None:
    memory = open_objects("memory://")

    async def slow(artifacts: Artifacts) -> AsyncIterator[bytes]:
        yield b"x"
        await bench.age(await bench.loose())
        await artifacts.sweep()

    # In memory as in a bucket nothing is there yet to sweep; in a folder the part itself is pulled from under the write.
    for objects, slug in ((memory, "upload-forgotten"), (bench.objects, "unavailable")):
        artifacts = _artifacts(bench.node.database, objects, prefix=bench.prefix)
        with pytest.raises(Problem) as refused:
            await artifacts.upload(bench.caller, slow(artifacts), name="", expected=Expected())
        assert refused.value.slug == slug
        assert [facts async for facts in objects.below(bench.prefix)] == []
        assert await bench.loose() == []


async def test_a_store_that_is_away_leaves_the_object_to_the_sweeper(bench: Bench) -> None:
    made = await bench.upload(b"to be removed")
    path = bench.folder / made.object_key
    folder = path.parent
    hidden = folder.with_name("hidden")
    folder.rename(hidden)
    folder.write_text("in the way")  # deleting below a file is an error, not an absence
    await bench.artifacts.remove(bench.caller.tenant_id, made.sha256.hex())
    assert await bench.loose() == [made.object_key]
    folder.unlink()
    hidden.rename(folder)
    await bench.artifacts.sweep()
    assert (path.exists(), await bench.loose()) == (False, [])


async def test_what_is_kept_no_longer_goes_unless_a_live_task_names_it(bench: Bench) -> None:
    short = _artifacts(bench.node.database, bench.objects, prefix=bench.prefix, kept_for=timedelta(days=1))
    used, unused, forever = b"used", b"unused", b"forever"
    for data in (used, unused):
        made, _ = await short.upload(bench.caller, pieces(data), name="", expected=Expected())
        assert made.kept_until is not None
    await bench.upload(forever)
    admitted = await bench.node.submit_one(bench.caller, task(delay="1h"))
    await bench.ask(
        "update tasks set artifacts = array[$2::bytea] where id = $1", admitted.ids[0], hashlib.sha256(used).digest()
    )
    await bench.ask("update artifacts set kept_until = now() - interval '1 s' where tenant = $1 and kept_until is not null",
                    bench.caller.tenant_id)  # fmt: skip
    await short.sweep()
    left = await bench.ask("select sha256 from artifacts where tenant = $1", bench.caller.tenant_id)
    assert {sha for (sha,) in left} == {hashlib.sha256(data).digest() for data in (used, forever)}
    assert len(bench.kept()) == 2
    later = await bench.ask("select kept_until > now() from artifacts where sha256 = $1", hashlib.sha256(used).digest())
    assert later == [(True,)], "looked at again in an hour"


async def test_a_second_upload_keeps_an_artifact_at_least_as_long(bench: Bench) -> None:
    short = _artifacts(bench.node.database, bench.objects, kept_for=timedelta(days=1))
    first, _ = await short.upload(bench.caller, pieces(b"same"), name="a", expected=Expected())
    assert first.kept_until is not None
    again, fresh = await bench.artifacts.upload(bench.caller, pieces(b"same"), name="", expected=Expected())
    assert (again.kept_until, again.name, fresh) == (None, "a", False)
    once_more, _ = await short.upload(bench.caller, pieces(b"same"), name="b", expected=Expected())
    assert (once_more.kept_until, once_more.name) == (None, "b")


async def test_checkpoints_go_when_their_task_has_ended(bench: Bench) -> None:
    admitted = await bench.node.submit_one(bench.caller, task(delay="1h"))
    number = admitted.ids[0]
    holder = Holder(bench.caller.tenant_id, "ann", None)
    for purpose in (Purpose.CHECKPOINT, Purpose.LOG):
        await bench.artifacts.store(
            holder, pieces(b"state"), task=number, attempt=1, purpose=purpose, name="x", expected=Expected()
        )
    await bench.artifacts.sweep()
    assert len(bench.kept()) == 2, "the task is live"
    await bench.ask("delete from queue where id = $1", number)
    await bench.artifacts.sweep()
    assert len(bench.kept()) == 1
    assert await bench.ask("select purpose from attempt_objects where task = $1", number) == [("log",)]
    short = _artifacts(bench.node.database, bench.objects, prefix=bench.prefix, kept_for=timedelta(days=1))
    await bench.ask("update attempt_objects set created_at = now() - interval '2 days' where task = $1", number)
    await short.sweep()
    assert (bench.kept(), await bench.loose()) == ([], [])


async def test_an_artifact_named_in_an_open_admission_is_not_removed_under_it(bench: Bench) -> None:
    made = await bench.upload(b"wanted")
    tenant = bench.caller.tenant_id
    connection = await bench.node.database.direct("test")
    transaction = connection.transaction()
    await transaction.start()
    assert await rows.lock_artifacts(connection, tenant, [made.sha256, bytes(32)]) == {made.sha256}
    removing = asyncio.create_task(bench.artifacts.remove(tenant, made.sha256.hex()))
    done, _ = await asyncio.wait([removing], timeout=0.3)
    assert not done
    admitted = await bench.node.submit_one(bench.caller, task(delay="1h"))
    await connection.execute(
        "update tasks set artifacts = array[$2::bytea] where id = $1", admitted.ids[0], made.sha256
    )
    await transaction.commit()
    await connection.close()
    with pytest.raises(Problem) as refused:
        await removing
    assert refused.value.slug == "artifact-in-use"


async def test_without_an_object_store_uploads_are_refused_with_the_setting_named(bench: Bench) -> None:
    none = _artifacts(bench.node.database, None)
    with pytest.raises(Problem, match="--objects or ROTA_OBJECTS") as refused:
        await none.upload(bench.caller, pieces(b"x"), name="", expected=Expected())
    assert (refused.value.status, refused.value.slug) == (503, "no-object-store")
    await none.sweep()
