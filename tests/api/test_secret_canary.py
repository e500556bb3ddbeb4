"""I29: a canary secret is used in every way a task can, and is then nowhere but in the task."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

MODULES = Path(__file__).parent.parent / "modules"
NAME = "CANARY"
CANARY = f'canary "{uuid4().hex}" \\ second línea {uuid4().hex}'
DIGEST = hashlib.sha256(CANARY.encode()).hexdigest()
# What must be found nowhere: the value and its halves, as text, and as databases and protocols would write them.
TRACES = [half.encode() for half in CANARY.split('"') if len(half) >= 30] + [
    form for form in (CANARY.encode().hex().encode(), base64.b64encode(CANARY.encode())[:-4])
]  # fmt: skip
TELL = """
printf '%s\\n' "$CANARY"
printf '%s\\n' "$CANARY" >&2
python3 - <<'END'
import os, time
value = os.environb[b"CANARY"]
for part in (value[:20], value[20:21], value[21:]):
    os.write(1, part)
    time.sleep(0.02)
END
printf '%s' "$CANARY" | sha256sum
"""


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("canary")
    with Cluster(postgres.create(), folder, modules=MODULES) as running:
        running.add_server(ROTA_LOG="debug")
        running.add_worker(ROTA_LOG="debug")
        yield running


def _rota(cluster: Cluster, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", *words],
        env=environment, input=stdin, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def _everything_stored(url: str) -> bytes:
    async def dump() -> bytes:
        connection = await asyncpg.connect(url)
        try:
            tables = [
                row[0]
                for row in await connection.fetch(
                    "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
                )
            ]
            assert {"secrets", "audit_log_default", "queue"} <= set(tables)
            rows = [row[0] for table in tables for row in await connection.fetch(f"select t::text from {table} t")]
        finally:
            await connection.close()
        return "\n".join(rows).encode()

    return asyncio.run(dump())


def _command_lines() -> bytes:
    lines = []
    for process in os.listdir("/proc"):
        if process.isdigit():
            try:
                lines.append(Path(f"/proc/{process}/cmdline").read_bytes())
            except OSError:
                continue
    return b"\n".join(lines)


def _every_answer(cluster: Cluster, tasks: list[int]) -> bytes:
    paths = ["/v1/tasks", "/v1/dead", "/v1/secrets", "/v1/me", "/v1/nodes", "/v1/servers", "/v1/tokens", "/metrics"]
    for task in tasks:
        base = f"/v1/tasks/{task}"
        paths += [
            base,
            f"{base}/attempts",
            f"{base}/log",
            f"{base}/log?stream=stderr",
            f"{base}/log?follow=true",
            f"{base}/why",
        ]
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    with httpx.Client(base_url=cluster.urls[0], headers=headers, timeout=30, trust_env=False) as http:
        answers = [http.get(path) for path in paths] + [
            http.post("/v1/tasks/wait", json={"ids": tasks, "timeout": 0}),
            http.post("/v1/tasks/preview", json={"command": ["true"], "secrets": [NAME]}),
        ]
    assert {answer.status_code for answer in answers} <= {200, 409}, [(a.url, a.status_code) for a in answers]
    return b"\n".join(answer.content for answer in answers)


def _found(haystack: bytes) -> list[bytes]:
    flat = haystack.replace(b"\\\\", b"\\").replace(b'\\"', b'"')
    return [trace for trace in TRACES if trace in haystack or trace in flat]


def test_a_canary_is_given_to_its_task_and_found_nowhere_else(cluster: Cluster, tmp_path: Path) -> None:
    assert len(TRACES) >= 4
    said = _rota(cluster, "secret", "set", NAME, stdin=CANARY + "\n")
    assert (said.returncode, said.stderr) == (0, ""), said
    gate = tmp_path / "gate"
    with cluster.client() as client:
        waiting = client.submit(
            ["sh", "-c", f'while [ ! -e {gate} ]; do sleep 0.02; done; printf %s "$CANARY" | sha256sum'], secrets=[NAME]
        )
        in_shell = client.submit(["sh", "-c", TELL], secrets=[NAME])
        in_script = client.submit(script=TELL, secrets=[NAME])
        behind_walls = client.submit(["sh", "-c", TELL], secrets=[NAME], isolation="sandbox")
        function = [
            client.submit(function=f"secret_tasks:{name}", secrets=[NAME])
            for name in ("digest", "tell", "blame", "abort")
        ]
        missing = client.submit(["no-such-program"], secrets=[NAME])
        without = client.submit(function="secret_tasks:absent")
        ended = [in_shell, in_script, *function, missing, without, behind_walls]
        documents = [task.wait(60) for task in ended]
        lines = _command_lines()
        assert f"while [ ! -e {gate}".encode() in lines, "the waiting task should be seen by its arguments"
        gate.touch()
        waiting.wait(60)

        # They had it.
        assert waiting.log().split() == [DIGEST, "-"]
        for task in (in_shell, in_script, behind_walls):
            assert task.log(stream="stdout") == f"***\n***{DIGEST}  -\n", task.log()
            assert task.log(stream="stderr") == "***\n"
        assert documents[2].result == [DIGEST, documents[2].result[1]]
        assert "CANARY=***" in documents[2].result[1]
        assert documents[3].result == {"plain": "***", "inside": "<***>", "***": ["***"]}
        assert function[1].log() in ("******\n", "***\n***")
        assert documents[4].failure is not None
        assert documents[4].failure.message.endswith("x***")
        assert "KeyError: '***'" in documents[4].failure.traceback
        assert (documents[5].outcome, function[3].log()) == ("crashed", "***\n")
        assert (documents[6].outcome, documents[7].result) == ("refused", True)

        # And nothing else does.
        tasks = [waiting.id, *(task.id for task in ended)]
        shown = "".join(_rota(cluster, *words).stdout for words in (("show", str(in_shell.id)), ("secret", "list")))
        assert shown.count(NAME) >= 2
        assert documents[0].spec["secrets"] == [NAME]
        repeated = client.submit(["true"], secrets=[NAME]).wait(60)
        assert repeated.state == "done"
        tasks.append(repeated.id)
    kept = b"\n".join(path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file())
    assert b"node-0" in kept
    assert b"registered" in kept
    places = {
        "arguments": lines,
        "database": _everything_stored(cluster.database),
        "answers": _every_answer(cluster, tasks),
        "command line": shown.encode() + said.stdout.encode(),
        "logs and files": kept,
    }
    assert {place: _found(content) for place, content in places.items()} == dict.fromkeys(places, [])


def test_a_secret_that_goes_before_the_start_ends_the_attempt_with_its_name(cluster: Cluster) -> None:
    with cluster.client() as client:
        client.secrets.set("FLEETING", "here today, gone tomorrow")
        first = client.submit(["sh", "-c", "sleep 0.5"])
        task = client.submit(["true"], secrets=["FLEETING"], after=[first.id])
        client.secrets.remove("FLEETING")
        ended = task.wait(60)
    assert (ended.state, ended.outcome) == ("failed", "refused")
    assert ended.failure is not None
    assert ended.failure.message == "the secret FLEETING is gone: it was removed after the task was submitted"


def test_a_new_value_holds_for_the_next_attempt(cluster: Cluster) -> None:
    with cluster.client() as client:
        seen = []
        for value in ("first value of it", "second value of it"):
            client.secrets.set("CHANGING", value)
            task = client.submit(["sh", "-c", 'printf %s "$CHANGING" | sha256sum'], secrets=["CHANGING"])
            task.wait(60)
            seen.append(task.log().split()[0] == hashlib.sha256(value.encode()).hexdigest())
    assert seen == [True, True]


def test_a_row_moved_to_another_name_or_tenant_opens_nowhere(cluster: Cluster) -> None:
    async def copy() -> None:
        connection = await asyncpg.connect(cluster.database)
        await connection.execute(
            """insert into secrets (tenant, name, key_id, wrapped_key, ciphertext, created_by, changed_by)
                select tenant, 'STOLEN', key_id, wrapped_key, ciphertext, 'eve', 'eve' from secrets where name = 'MINE'"""
        )
        await connection.close()

    with cluster.client() as client:
        client.secrets.set("MINE", "a value nobody moves")
        asyncio.run(copy())
        ended = client.submit(["true"], secrets=["STOLEN"]).wait(60)
    assert ended.failure is not None
    assert "STOLEN can't be read: its row in the database was changed, moved or damaged" in ended.failure.message


KEY_TELL = """
printf '%s\\n' "$ROTA_TOKEN"
printf '%s' "$ROTA_TOKEN" | sha256sum
printf '%s' "$ROTA_TOKEN" > "$1"
"""


def test_the_key_of_a_running_task_is_found_nowhere_else(cluster: Cluster, tmp_path: Path) -> None:
    """It is stored nowhere: the database can't hold it, and nobody writes it down."""
    with cluster.client() as client:
        client.secrets.set(NAME, CANARY)
        told = client.submit(["sh", "-c", KEY_TELL, "sh", str(tmp_path / "key")], may_submit=True)
        walled = client.submit(["sh", "-c", 'printf "%s\n" "$ROTA_TOKEN"'], may_submit=True, isolation="sandbox")
        function = client.submit(function="submitting_tasks:tell_key", may_submit=True)
        submitting = client.submit(function="submitting_tasks:by_program", may_submit=True)
        ended = [told, walled, function, submitting]
        assert [task.wait(60).state for task in ended] == ["done", "done", "failed", "done"]
        key = (tmp_path / "key").read_bytes()
        (tmp_path / "key").unlink()
        assert told.log() == f"***\n{hashlib.sha256(key).hexdigest()}  -\n"
        assert walled.log() == "***\n"
        tasks = [task.id for task in ended]
        shown = "".join(_rota(cluster, "show", str(task)).stdout for task in tasks)
    kept = b"\n".join(path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file())
    places = {
        "arguments": _command_lines(),
        "database": _everything_stored(cluster.database),
        "answers": _every_answer(cluster, tasks),
        "command line": shown.encode(),
        "logs and files": kept,
    }
    assert b"rota_attempt_" in key
    assert {place: b"rota_attempt_" in content for place, content in places.items()} == dict.fromkeys(places, False)
