"""Lesson 5: finding tasks again: lists, filters, pages, attempts, followed logs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from rota import AsyncClient, Client, TaskSpec, WaitTimeout
from rota.client.transport.log_reader import LogChunk, LogEnd
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tag() -> tuple[str, str]:
    """A tag of this test's own, to tell its tasks from those of other lessons."""
    return "lesson", uuid4().hex


def test_tasks_are_found_by_state_status_name_and_tag(client: Client, tag: tuple[str, str]) -> None:
    tags = dict([tag])
    done, failed, waiting, named = client.submit_many(
        [
            TaskSpec(command=["true"], tags=tags),
            TaskSpec(command=["false"], tags=tags),
            TaskSpec(command=["true"], tags=tags, delay="1h"),
            TaskSpec(command=["true"], tags=tags, name="report"),
        ]
    )
    client.gather([done, failed, named], timeout=30, return_errors=True)
    assert [task.id for task in client.list(tag=tag)] == [named.id, waiting.id, failed.id, done.id]
    assert [task.id for task in client.list(tag=tag, state="failed")] == [failed.id]
    assert [task.id for task in client.list(tag=tag, status="waiting")] == [waiting.id]
    assert [task.id for task in client.list(tag=tag, status="done", name="report")] == [named.id]
    client.cancel(waiting.id)
    assert [task.id for task in client.list(tag=tag, state="delayed")] == []


def test_a_long_list_comes_in_pages(client: Client, tag: tuple[str, str]) -> None:
    handles = client.submit_many([TaskSpec(command=["true"], tags=dict([tag]), delay="1h") for _ in range(7)])
    first = client.list(tag=tag, limit=3)
    second = client.list(tag=tag, limit=3, cursor=first.next)
    last = client.list(tag=tag, limit=3, cursor=second.next)
    ids = [task.id for page in (first, second, last) for task in page]
    assert ids == [handle.id for handle in reversed(handles)]
    assert (len(first), len(second), len(last), last.next) == (3, 3, 1, None)
    client.cancel(ids)


def test_the_command_lists_all_pages_as_json(rota: Rota, client: Client, tag: tuple[str, str]) -> None:
    handles = client.submit_many([TaskSpec(command=["true"], tags=dict([tag]), delay="1h") for _ in range(5)])
    listed = rota("list", "--tag", "=".join(tag), "--limit", "2", "--all", "-o", "json").stdout
    pages = [json.loads(line)["tasks"] for line in listed.splitlines()]
    assert [task["id"] for page in pages for task in page] == [handle.id for handle in reversed(handles)]
    client.cancel([handle.id for handle in handles])


def test_every_attempt_has_its_own_log_and_its_two_streams(client: Client) -> None:
    script = 'echo "try $ROTA_ATTEMPT"; echo oops >&2; [ "$ROTA_ATTEMPT" = 2 ]'
    handle = client.submit(["sh", "-c", script], attempts=2, backoff="10ms")
    handle.wait(timeout=30)
    assert handle.log(attempt=1, stream="stdout") == "try 1\n"
    assert handle.log(stream="stdout") == "try 2\n"
    assert handle.log(stream="stderr") == "oops\n"
    first, second = handle.attempts()
    assert (first.outcome, first.exit_code, second.outcome, second.exit_code) == ("error", 1, "ok", 0)
    assert first.node == second.node == "node-0"
    assert (first.log_bytes, second.log_bytes) == (11, 11)


def test_a_log_can_be_followed_while_the_task_runs(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two"
    handle = client.submit(["sh", "-c", script], cap="60s")
    seen = b""
    for item in handle.follow():
        if isinstance(item, LogChunk):
            seen += item.data
            if seen == b"one\n":
                assert handle.state == "running"
                gate.touch()
        else:
            assert (item.state, item.exit_code, item.dropped_bytes) == ("done", 0, 0)
    assert seen == b"one\ntwo\n"


def test_the_command_follows_a_log_too(rota: Rota, client: Client) -> None:
    handle = client.submit(["sh", "-c", "echo out; echo err >&2"])
    followed = rota("logs", "-f", str(handle.id))
    assert (followed.returncode, followed.stdout) == (0, "out\nerr\n")


def test_output_past_the_limit_is_counted_not_kept(client: Client) -> None:
    handle = client.submit(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"], cap="60s")
    *chunks, end = list(handle.follow())
    kept = sum(len(chunk.data) for chunk in chunks if isinstance(chunk, LogChunk))
    assert isinstance(end, LogEnd)
    assert kept + end.dropped_bytes == 3_000_000
    assert end.dropped_bytes > 1_000_000
    (attempt,) = handle.attempts()
    assert (attempt.log_bytes, attempt.log_dropped_bytes) == (kept, end.dropped_bytes)


def test_waiting_no_longer_than_one_wants_leaves_the_task_alone(client: Client) -> None:
    handle = client.submit(["true"], delay="1h")
    with pytest.raises(WaitTimeout) as late:
        handle.wait(timeout=0.05)
    assert late.value.task_ids == (handle.id,)
    assert handle.state == "delayed"
    handle.cancel()


def test_a_task_tells_what_it_was_given_and_what_it_used(client: Client) -> None:
    handle = client.submit(["true"], cpu=0.5, memory="64M", tags={"team": "a"}, env={"SECRET": "hidden"}, priority=3)
    document = handle.wait(timeout=30)
    assert document.resources is not None
    assert (document.resources.cpu, document.resources.memory_bytes) == (0.5, 64_000_000)
    assert (document.tenant, document.user, document.priority, document.tier) == ("default", "admin", 3, "basic")
    assert (document.scheduling, document.admitted_by, document.node) == ("now", "server-0", "node-0")
    assert document.spec["env"] == ["SECRET"], "names only: values may be nobody else's business"


async def test_the_asynchronous_client_reads_the_same(cluster: Cluster) -> None:
    async with AsyncClient(server=cluster.urls[0], token=cluster.tokens.admin) as client:
        handle = await client.submit(["sh", "-c", "echo hi"])
        items = [item async for item in handle.follow()]
        assert [item.data for item in items if isinstance(item, LogChunk)] == [b"hi\n"]
        assert handle.id in {task.id for task in await client.list(state="done")}
        assert (await client.get(handle.id)).exit_code == 0
