"""Runs that are more than one task, and what they bring along: graphs, arrays, artifacts, on a real database."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest

from rota.model.schedule.schedule import Overlap
from rota.model.task import State
from rota.store.artifacts import InUse, expire_artifacts, remove_artifact
from rota.store.graphs import join_graph
from rota.store.schedules import delete_schedule

from .clockwork import Clockwork, spec


def graph(*tasks: dict[str, object], name: str | None = "etl") -> str:
    return json.dumps({"tasks": [{"command": ["true"], "unplaceable": "wait", **one} for one in tasks], "graph": name})


DIAMOND = graph(
    {"ref": "a"}, {"ref": "b", "after": ["a"]}, {"ref": "c", "after": ["a"]}, {"ref": "d", "after": ["b", "c"]}
)


async def test_every_run_is_a_graph_whose_tasks_know_their_interval(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(every="PT10S", ago=15, request=DIAMOND)
    await clockwork.tick()
    runs = await clockwork.history(schedule)
    assert len(runs) == 2
    for run in runs:
        row = await clockwork.connection.fetchrow("select * from graphs where id = $1", run.graph)
        assert row is not None
        assert (row["name"], row["schedule"], row["scheduled_for"]) == ("etl", schedule.id, run.instant)
        members = await clockwork.connection.fetch(
            "select task, name from graph_tasks where graph = $1 order by place", run.graph
        )
        assert [(one["task"], one["name"]) for one in members] == list(zip(run.tasks or (), "abcd", strict=True))
        for number in run.tasks or ():
            told = spec(await clockwork.task(number))["scheduled"]
            assert isinstance(told, list)
            assert told[0] == told[2] == run.instant.isoformat().replace("+00:00", "Z")
    after = await clockwork.reread(schedule)
    assert (after.last_graph, after.last_tasks) == (runs[-1].graph, runs[-1].tasks)


async def test_overlap_is_judged_on_the_graph_as_a_whole(clockwork: Clockwork) -> None:
    """Also by what joined it since: a task that a member submitted."""
    schedule = await clockwork.schedule(ago=1, request=DIAMOND, overlap=Overlap.SKIP)
    other = await clockwork.schedule(ago=1)
    await clockwork.tick()
    (run,) = await clockwork.history(schedule)
    ((_, child),) = await clockwork.tasks_of(other)
    assert run.tasks is not None
    await join_graph(clockwork.connection, run.tasks[0], schedule.tenant, [child], ["child"])
    again = "update schedules set next_at = now() - interval '1ms' where id = $1"
    await clockwork.end(*run.tasks)
    await clockwork.connection.execute(again, schedule.id)
    await clockwork.tick()
    assert (await clockwork.history(schedule))[-1].reason == f"overlap: task {child} of the last run has not ended"
    await clockwork.end(child)
    await clockwork.connection.execute(again, schedule.id)
    await clockwork.tick()
    assert (await clockwork.history(schedule))[-1].graph is not None


async def test_an_array_is_one_run_with_its_own_limit(clockwork: Clockwork) -> None:
    task = {"name": "resize", "command": ["true"], "unplaceable": "wait", "array": "0-4%2"}
    schedule = await clockwork.schedule(ago=1, request=json.dumps({"tasks": [task]}))
    await clockwork.tick()
    (run,) = await clockwork.history(schedule)
    row = await clockwork.connection.fetchrow("select * from graphs where id = $1", run.graph)
    assert row is not None
    assert (row["name"], row["is_array"], len(run.tasks or ())) == ("resize", True, 5)
    limits = {
        (one["concurrency_key"], one["concurrency_limit"])
        for one in [await clockwork.task(number) for number in run.tasks or ()]
    }
    assert limits == {(f"array:{run.graph}:0", 2)}


async def test_a_run_that_would_wait_for_too_many_says_so(clockwork: Clockwork) -> None:
    task = {"name": "wide", "command": ["true"], "unplaceable": "wait", "array": "1-501"}
    schedule = await clockwork.schedule(
        every="PT10S", ago=15, request=json.dumps({"tasks": [task]}), overlap=Overlap.QUEUE
    )
    await clockwork.tick()
    first, second = await clockwork.history(schedule)
    assert len(first.tasks or ()) == 501
    assert second.reason == "overlap: 501 tasks of the last run have not ended, too many to wait for"


async def test_a_replaced_graph_is_waited_for_only_as_far_as_it_still_runs(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=1, request=DIAMOND, overlap=Overlap.REPLACE)
    await clockwork.tick()
    (old,) = await clockwork.history(schedule)
    await clockwork.connection.execute(
        "update schedules set next_at = now() - interval '1ms' where id = $1", schedule.id
    )
    await clockwork.tick()
    new = (await clockwork.history(schedule))[-1]
    assert new.tasks is not None
    assert new.graph != old.graph
    root = await clockwork.task(new.tasks[0])
    assert (root["state"], root["after_tasks"]) == (State.READY, None)


async def test_what_a_schedule_names_is_kept_for_it_and_given_to_its_tasks(clockwork: Clockwork) -> None:
    """Retention and removal leave it alone as long as the schedule is there; a run's tasks name it themselves."""
    data = hashlib.sha256(b"#!/bin/sh\n").digest()
    await clockwork.connection.execute(
        """insert into artifacts (tenant, sha256, size_bytes, name, object_key, created_by, kept_until)
            values ($1, $2, 10, 'nightly.sh', $3, 'ann', now() - interval '1s')""",
        clockwork.caller.tenant_id, data, data.hex(),
    )  # fmt: skip
    work = json.dumps({"tasks": [{"upload": data.hex()[:12], "unplaceable": "wait"}]})
    schedule = await clockwork.schedule(ago=1, request=work, artifacts=(data,))
    assert await expire_artifacts(clockwork.connection, at_most=10) == 0
    await clockwork.tick()
    ((_, number),) = await clockwork.tasks_of(schedule)
    task = await clockwork.task(number)
    assert task["artifacts"] == [data]
    assert spec(task)["upload"] == f"sha256:{data.hex()}"
    await clockwork.end(number)
    with pytest.raises(InUse, match=f"schedule {schedule.name}"):
        await remove_artifact(clockwork.connection, schedule.tenant, data)
    await delete_schedule(clockwork.connection, schedule)
    assert await remove_artifact(clockwork.connection, schedule.tenant, data) == data.hex()


async def test_a_schedule_whose_artifact_is_gone_skips_and_says_so(clockwork: Clockwork) -> None:
    work = json.dumps({"tasks": [{"upload": "ab" * 32, "unplaceable": "wait"}]})
    schedule = await clockwork.schedule(ago=1, request=work, artifacts=(bytes.fromhex("ab" * 32),))
    await clockwork.tick()
    (skip,) = await clockwork.history(schedule)
    assert "there is no artifact" in (skip.reason or "")
    assert (await clockwork.reread(schedule)).next_at > await clockwork.now() - timedelta(seconds=1)  # type: ignore[operator]
