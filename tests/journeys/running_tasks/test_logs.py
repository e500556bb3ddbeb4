"""Parts of a task's output: last lines, recent output, one stream; stored or followed, from any server node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess

import asyncpg
import pytest
from tests.harness.cluster import Cluster
from tests.journeys.running_tasks.conftest import eventually

from rota.cli.shell.terminal import Neutraliser
from rota.client._sync.client import Client
from rota.client.errors import Refused
from rota.client.transport.log_reader import LogChunk, LogEnd

HOSTILE = b'\x1b]0;owned\x07\x00{"end":true}\xff\xfe\r\nlast\x9b2J'


def test_parts_of_stored_output(client: Client, rota: Callable[..., CompletedProcess[str]]) -> None:
    before = datetime.now(UTC).isoformat()
    handle = client.submit(["sh", "-c", "for n in 1 2 3; do echo out $n; done; echo err >&2"])
    handle.wait(30)
    number = str(handle.id)
    assert rota("logs", number, "--tail", "2", "--stdout").stdout == "out 2\nout 3\n"
    assert rota("logs", number, "--stderr", "--since", "10m").stdout == "err\n"
    assert rota("logs", number, "--stderr", "--since", before).stdout == "err\n"
    assert rota("logs", number, "--since", "0").stdout == ""
    assert rota("logs", "-f", number, "--tail", "1", "--stdout").stdout == "out 3\n"
    wrong = rota("logs", number, "--since", "yesterday")
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False)
    assert "neither a duration like 10m nor a time" in " ".join(wrong.stderr.split())


@pytest.mark.parametrize(
    "query", [{"since": "soon"}, {"since": "2026-01-01"}, {"since": "0001-01-01T00:00+23:59"}, {"tail": -3}]
)
def test_a_filter_that_is_none_is_named(client: Client, query: dict[str, object]) -> None:
    handle = client.submit(["true"])
    with pytest.raises(Refused) as refused:
        client.log(handle.id, **query)  # type: ignore[arg-type]
    assert refused.value.status == 422
    assert refused.value.faults[0].pointer == f"/{next(iter(query))}"


def test_every_server_node_follows_what_runs(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with cluster.client(0) as here, cluster.client(1) as there:
        handle = here.submit(["sh", "-c", f"echo before; while [ ! -e {gate} ]; do sleep 0.05; done; echo after"])
        eventually(lambda: handle.log() == "before\n")
        followed = [client.follow(handle.id, tail=1) for client in (here, there)]
        firsts = [next(stream) for stream in followed]
        gate.touch()
        for first, stream in zip(firsts, followed, strict=True):
            *chunks, end = [first, *stream]
            assert b"".join(chunk.data for chunk in chunks if isinstance(chunk, LogChunk)) == b"before\nafter\n"
            assert (end.state, end.exit_code, end.dropped_bytes) == ("done", 0, 0)


def test_hostile_output_is_stored_as_it_is_and_shown_harmless(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "hostile"
    file.write_bytes(HOSTILE)
    handle = client.submit(["cat", str(file)])
    handle.wait(30)
    assert client.log(handle.id) == HOSTILE
    ends = [item for item in client.follow(handle.id) if isinstance(item, LogEnd)]
    assert [(end.state, end.exit_code, end.dropped_bytes) for end in ends] == [("done", 0, 0)]
    shown = Neutraliser().take(HOSTILE, last=True)
    assert shown == '\\x1b]0;owned\\x07\\x00{"end":true}\\xff\\xfe\nlast\\x9b2J'


def test_long_output_is_moved_to_the_object_store_and_read_as_before(
    cluster: Cluster, rota: Callable[..., CompletedProcess[str]]
) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 80_001))

    async def in_objects() -> int:
        connection = await asyncpg.connect(cluster.database)
        try:
            return await connection.fetchval(
                """select coalesce(sum(size_bytes), 0)::bigint from log_segments where task = $1
                    and not exists (select from log_chunks where log_chunks.task = log_segments.task)""",
                handle.id,
            )
        finally:
            await connection.close()

    with cluster.client(0) as here, cluster.client(1) as there:
        handle = here.submit(["seq", "1", "80000"])
        handle.wait(30)
        assert handle.log() == whole
        eventually(lambda: asyncio.run(in_objects()) == len(whole))
        assert here.log(handle.id).decode() == there.log(handle.id).decode() == whole
        chunks = [item.data for item in there.follow(handle.id) if isinstance(item, LogChunk)]
        assert b"".join(chunks).decode() == whole
    assert rota("logs", str(handle.id), "--tail", "2", server=1).stdout == "79999\n80000\n"
    assert rota("logs", str(handle.id), "--stderr").stdout == ""
    assert rota("logs", str(handle.id), "--since", "1h").stdout == whole


def test_of_long_output_both_ends_are_read_and_followed_and_what_is_between_is_told(
    client: Client, rota: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = f"seq 1 300000; echo halfway; while [ ! -e {gate} ]; do sleep 0.05; done; echo END; echo END-ERR >&2"
    handle = client.submit(["sh", "-c", script], log_limit="100Ki", cap="60s")
    left_out = 0
    seen = {"stdout": b"", "stderr": b""}
    for item in handle.follow():
        if isinstance(item, LogChunk):
            left_out += item.left_out_bytes
            seen[item.stream] += item.data
            if seen["stdout"].endswith(b"\nhalfway\n"):
                gate.touch()  # beyond its limit, and a follower still sees what it writes
    assert seen["stdout"].startswith(b"1\n2\n3\n")
    assert seen["stdout"].endswith(b"\n300000\nhalfway\nEND\n")
    assert seen["stderr"] == b"END-ERR\n"
    (attempt,) = handle.attempts()
    assert attempt.log_bytes <= 100 * 1024
    assert attempt.log_bytes + attempt.log_dropped_bytes == 1_988_895 + len("halfway\nEND\nEND-ERR\n")
    assert left_out <= attempt.log_dropped_bytes
    number = str(handle.id)
    said = f"[rota: {attempt.log_dropped_bytes:,} bytes of stdout are left out here]\n"
    shown = rota("logs", number)
    assert said in shown.stdout
    assert shown.stdout.endswith("\nhalfway\nEND\nEND-ERR\n")
    assert rota("logs", number, "--tail", "2").stdout == "END\nEND-ERR\n"
    assert rota("logs", number, "--stderr").stdout == "END-ERR\n"
    document = json.loads(rota("logs", number, "-o", "json").stdout)
    assert [gap["bytes"] for gap in document["left_out"]] == [document["dropped_bytes"]] == [attempt.log_dropped_bytes]
    assert "log limit" in rota("show", number).stdout


def test_with_a_large_limit_long_output_is_kept_whole_in_the_object_store(client: Client) -> None:
    handle = client.submit(["seq", "1", "3000000"], log_limit="64Mi", cap="60s")
    handle.wait(60)
    whole = b"".join(b"%d\n" % number for number in range(1, 3_000_001))
    eventually(lambda: client.log(handle.id) == whole)
    (attempt,) = handle.attempts()
    assert (attempt.log_bytes, attempt.log_dropped_bytes) == (len(whole), 0)
