"""Logs, attempts and results by the id of an array or a graph: in order, in pages, followed, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.harness.cluster import Cluster

from rota.client._sync.client import Client
from rota.client.calls import account_calls, cluster_calls, task_calls
from rota.client.errors import NotFound, Refused
from rota.client.transport.log_reader import LogChunk, LogEnd, LogReader

Rota = Callable[..., CompletedProcess[str]]

WORK = """
echo "out $ROTA_INDEX"; echo "err $ROTA_INDEX" >&2
echo "{\\"square\\": $((ROTA_INDEX * ROTA_INDEX))}" > $ROTA_RESULT
[ $ROTA_INDEX != 2 ] || [ $ROTA_ATTEMPT = 2 ]
"""


@pytest.fixture(scope="module")
def array(client: Client) -> int:
    handle = client.submit(script=WORK, array="0-4", name="sq", attempts=2, backoff="10ms")
    client.graphs.wait(handle.id, timeout=60)
    return handle.id


def test_the_output_of_an_array_comes_in_order_in_pages_and_by_stream(client: Client, rota: Rota, array: int) -> None:
    first = rota("logs", str(array), "--limit", "3")
    text = re.sub(r"^==> \d+ ", "==> ", first.stdout, flags=re.M)
    assert text == "".join(f"==> sq[{n}] <==\nout {n}\nerr {n}\n" for n in range(3))
    more = re.search(r"--cursor (\S+), or --all", first.stderr)
    assert more is not None
    second = rota("logs", str(array), "--cursor", more[1], "--stderr").stdout
    assert re.sub(r"^==> \d+ ", "==> ", second, flags=re.M) == "==> sq[3] <==\nerr 3\n==> sq[4] <==\nerr 4\n"
    assert client.log(array, stream="stderr").count(b" <==\nerr ") == 5
    pages = [
        json.loads(line) for line in rota("logs", str(array), "--all", "--limit", "3", "-o", "json").stdout.splitlines()
    ]
    assert [(one["index"], one["log"]) for page in pages for one in page["tasks"]] == [
        (n, f"out {n}\nerr {n}\n") for n in range(5)
    ]
    with pytest.raises(Refused, match="no chunks of its own"):
        client.perform(task_calls.log_stream(array, follow=True, after=3, progress=False, page={}, options={}))


def test_an_array_is_followed_as_one_and_each_task_and_the_array_end(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo begin; while [ ! -e {gate} ]; do sleep 0.05; done; echo end"
    handle = client.submit(["sh", "-c", script], array="0-2")
    seen: dict[int, bytes] = {}
    ends: list[LogEnd] = []
    for item in client.follow(handle.id):
        if isinstance(item, LogChunk):
            seen[item.task] = seen.get(item.task, b"") + item.data
            if list(seen.values()) == [b"begin\n"] * 3:
                gate.touch()  # all three are followed while they run
        elif isinstance(item, LogEnd):
            ends.append(item)
    assert list(seen.values()) == [b"begin\nend\n"] * 3
    assert sorted(end.task for end in ends[:3]) == sorted(seen)
    assert (ends[3].graph, ends[3].state, len(ends)) == (handle.id, "done", 4)


def test_a_broken_stream_of_an_array_shows_nothing_twice(client: Client, array: int) -> None:
    reader = LogReader(array)
    chunks = 0
    for item in client.read_log(reader):
        chunks += isinstance(item, LogChunk)
        if chunks == 3:
            break
    rest = [item for item in client.read_log(reader) if isinstance(item, LogChunk)]
    everything = [item for item in client.follow(array) if isinstance(item, LogChunk)]
    assert chunks + len(rest) == len(everything)


def test_the_attempts_of_an_array_name_their_tasks(client: Client, rota: Rota, array: int) -> None:
    found = client.attempts(array)
    assert [(one.name, one.number, one.outcome) for one in found] == [
        ("sq[0]", 1, "ok"), ("sq[1]", 1, "ok"), ("sq[2]", 1, "error"), ("sq[2]", 2, "ok"), ("sq[3]", 1, "ok"),
        ("sq[4]", 1, "ok"),
    ]  # fmt: skip
    page = client.perform(task_calls.attempts(array, limit=2))
    assert ([one.name for one in page.attempts], page.next is None) == (["sq[0]", "sq[1]"], False)
    further = client.perform(task_calls.attempts(array, limit=2, cursor=page.next))
    assert [one.name for one in further.attempts] == ["sq[2]", "sq[2]", "sq[3]"]
    shown = rota("attempts", str(array), "--limit", "2")
    assert ("sq[1]" in shown.stdout, "sq[2]" in shown.stdout, "--cursor" in shown.stderr) == (True, False, True)
    assert "sq[4]" in rota("attempts", str(array), "--limit", "2", "--all").stdout


def test_the_results_of_an_array_are_a_list_and_those_of_a_graph_an_object(
    client: Client, rota: Rota, array: int
) -> None:
    ran = rota("result", str(array))
    assert (ran.returncode, json.loads(ran.stdout)) == (0, [{"square": n * n} for n in range(5)])
    page = client.perform(task_calls.results(array, limit=2))
    assert [(one.index, one.state, one.result) for one in page.results] == [
        (0, "done", {"square": 0}),
        (1, "done", {"square": 1}),
    ]
    assert client.perform(task_calls.results(page.results[0].id)).results[0].result == {"square": 0}
    graph = client.submit_manifest("tasks:\n  good: {script: 'echo 7 > $ROTA_RESULT'}\n  bad: {command: ['false']}\n")
    number = client.get(graph["good"].id).graph
    assert number is not None
    client.graphs.wait(number, timeout=60)
    failed = rota("result", str(number))
    assert (failed.returncode, json.loads(failed.stdout)) == (1, {"good": 7, "bad": None})
    assert f"1 of 2 tasks are not done: {graph['bad'].id}" in failed.stderr
    waiting = client.submit(["true"], array="0-1", delay="1h")
    ran = rota("result", str(waiting.id))
    assert (ran.returncode, "2 of 2 tasks have not ended" in ran.stderr) == (6, True)
    client.graphs.cancel(waiting.id)


def test_nobody_elses_array_is_read(client: Client, cluster: Cluster, array: int) -> None:
    client.perform(cluster_calls.add_tenant("stranger", "free"))
    eve = {"tenant": "stranger", "user": "eve", "role": "member"}
    token = client.perform(account_calls.add_token(eve)).token
    with Client(cluster.urls[0], token) as stranger:
        for call in (task_calls.log(array), task_calls.attempts(array), task_calls.results(array)):
            with pytest.raises(NotFound):
                stranger.perform(call)
