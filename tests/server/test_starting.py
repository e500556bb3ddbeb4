"""A server node and `rota up` that start before their database, or with one that refuses them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from rota.model.errors import unavailable
from rota.store.embedded import EmbeddedPostgres
from rota.store.migrations import upgrade
from rota.store.trouble import DatabaseRefused, refusal, until_database, why_unreachable
from tests.harness.cluster import Process, free_port


@pytest.fixture(scope="module")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """One that these tests may stop and start."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("own") / "postgres")
    server.start()
    asyncio.run(_refuse_a_wrong_password(server))
    server.stop()
    yield server
    server.stop()


async def _refuse_a_wrong_password(server: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(server.url)
    await connection.execute("create role careful login password 'right'")
    await connection.close()
    rules = server.data / "pg_hba.conf"
    rules.write_text("local all careful scram-sha-256\n" + rules.read_text())


@pytest.fixture
def running_postgres(own_postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    if own_postgres.pid is None:
        own_postgres.start()
    return own_postgres


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    started = []

    def start(database: str) -> Process:
        port = free_port()
        process = Process(
            "server", ["serve", "--port", str(port)], {"ROTA_DATABASE": database, "ROTA_TIME_SCALE": "0.2"}, tmp_path
        )
        process.start(wait=False)
        started.append(process)
        process.url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
        return process

    yield start
    for process in started:
        process.stop()


def _ask(process: Process, path: str) -> httpx.Response | None:
    """None: it does not listen yet."""
    try:
        return httpx.get(f"{process.url}{path}", trust_env=False)  # type: ignore[attr-defined]
    except httpx.TransportError:
        return None


def _until(found: Callable[[], bool], process: Process) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert process.running, process.log()
        assert time.monotonic() < deadline, process.log()
        time.sleep(0.02)


def _is(process: Process, path: str, status: int, text: str = "") -> bool:
    answer = _ask(process, path)
    return answer is not None and answer.status_code == status and text in answer.text


def test_a_server_node_waits_for_its_database_says_so_and_goes_on(
    own_postgres: EmbeddedPostgres, serve: Callable[[str], Process]
) -> None:
    process = serve(own_postgres.url)
    _until(lambda: _is(process, "/readyz", 503, "nothing listens at the database's address"), process)
    answer = _ask(process, "/v1/tasks")
    assert answer is not None
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["status"] == 503
    assert _is(process, "/healthz", 200)
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    waits = [line for line in lines if line["event"] == "node.waits_for_database"]
    assert [line["why"] for line in waits] == ["nothing listens at the database's address"], "once, not at every try"
    own_postgres.start()
    _until(lambda: _is(process, "/readyz", 200), process)
    process.stop()
    assert "Traceback" not in process.log()
    own_postgres.stop()


def test_a_database_that_refuses_a_running_server_node_is_away_until_it_accepts_it_again(
    running_postgres: EmbeddedPostgres, serve: Callable[[str], Process]
) -> None:
    """As while a password is being changed, or on a standby whose rules are older."""
    process = serve(running_postgres.url)
    _until(lambda: _is(process, "/readyz", 200), process)
    rules = running_postgres.data / "pg_hba.conf"
    kept = rules.read_text()
    try:
        asyncio.run(_reload_rules(running_postgres, "local all all reject\n" + kept))
        _until(lambda: _is(process, "/readyz", 503), process)
        # Every loop meets the refusal: the slowest of those that matter asks for its lease again.
        _until(lambda: "leader.stepped_down" in process.log(), process)
    finally:
        rules.write_text(kept)
        assert running_postgres.pid is not None
        os.kill(running_postgres.pid, signal.SIGHUP)
    _until(lambda: _is(process, "/readyz", 200, "default"), process)
    assert "Traceback" not in process.log()


async def _reload_rules(server: EmbeddedPostgres, rules: str) -> None:
    """From now on, for sessions of this moment too."""
    connection = await asyncpg.connect(server.url)
    (server.data / "pg_hba.conf").write_text(rules)
    await connection.execute("select pg_reload_conf()")
    while not await connection.fetchval("select count(*) from pg_hba_file_rules where auth_method = 'reject'"):
        pass
    with pytest.raises(asyncpg.PostgresError):
        while True:  # the postmaster reads its rules a moment later
            await (await asyncpg.connect(server.url)).close()
    question = "select count(pg_terminate_backend(pid)) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
    await connection.execute(question)
    await connection.close()


def test_a_server_node_that_waits_for_its_database_stops_at_once_when_told(
    own_postgres: EmbeddedPostgres, serve: Callable[[str], Process]
) -> None:
    process = serve(own_postgres.url)
    _until(lambda: _is(process, "/healthz", 200), process)
    assert process.popen is not None
    process.signal(signal.SIGTERM)
    assert process.popen.wait(10) == 0


@pytest.mark.parametrize(
    ("user", "name", "sentence"),
    [
        ("postgres", "nothing", 'the database refuses this server: database "nothing" does not exist'),
        ("nobody", "postgres", 'the database refuses this server: role "nobody" does not exist'),
        ("careful:wrong", "postgres", "the database refuses this server: password authentication failed for user"),
        ("careful:right", "postgres", "the database's user may not do what Rota needs: permission denied"),
    ],
)
async def test_a_database_that_refuses_is_not_waited_for(
    running_postgres: EmbeddedPostgres, user: str, name: str, sentence: str
) -> None:
    url = f"postgresql://{user}@/{name}?host={running_postgres.socket}"
    with pytest.raises(DatabaseRefused) as refused:
        await until_database(lambda: upgrade(url), lambda *_: None, _no_sleep)
    assert str(refused.value).startswith(sentence)


def test_a_wrong_password_ends_the_start_of_a_server_node_with_one_sentence(
    running_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = f"postgresql://careful:wrong@/postgres?host={running_postgres.socket}"
    ended = _rota("serve", "--port", str(free_port()), folder=tmp_path, ROTA_DATABASE=url)
    why = 'the database refuses this server: password authentication failed for user "careful"; check --database'
    assert (ended.returncode, _reason(ended)) == (4, why)


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_port_that_is_no_number_is_a_usage_error(tmp_path: Path, command: str) -> None:
    ended = _rota(*command.split(), folder=tmp_path, ROTA_DATABASE="postgresql://a:secret@db1:5432,db2:x5432/rota")
    assert ended.returncode == 2
    assert "--database: 'x5432' is not a port from 1 to 65535" in ended.stderr
    assert "secret" not in ended.stderr


def test_a_port_in_use_is_said_without_a_word_about_the_database(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = _rota("serve", "--port", str(port), folder=tmp_path, ROTA_DATABASE="postgresql://a@127.0.0.1:1/a")
    assert (ended.returncode, _reason(ended)) == (5, f"can't listen on 127.0.0.1:{port}: Address already in use")


def test_rota_up_waits_for_a_database_of_ones_own_until_it_is_stopped(tmp_path: Path) -> None:
    command = ["up", "--data", str(tmp_path / "data"), "--port", str(free_port())]
    up = subprocess.Popen(
        [sys.executable, "-m", "rota.cli", *command, "--database", "postgresql://a@127.0.0.1:1/a"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert up.stdout is not None
    said = up.stdout.readline()
    up.send_signal(signal.SIGINT)
    said += up.stdout.read()
    assert up.wait(10) == 0
    assert "Waiting: nothing listens at the database's address." in said
    assert "Traceback" not in said


def test_rota_up_says_in_one_sentence_that_a_database_refuses_it(
    running_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = f"postgresql://postgres@/nothing?host={running_postgres.socket}"
    ended = _rota("up", "--data", str(tmp_path / "d"), "--port", str(free_port()), folder=tmp_path, ROTA_DATABASE=url)
    assert ended.returncode == 4
    assert ended.stderr.startswith('rota: the database refuses this server: database "nothing" does not exist')


def test_rota_db_says_why_there_is_no_database(tmp_path: Path) -> None:
    url = "postgresql://a:secret@127.0.0.1:1/a"
    ended = _rota("db", "version", folder=tmp_path, ROTA_DATABASE=url)
    assert ended.returncode == 5
    assert ended.stderr.startswith("rota: nothing listens at the database's address (ConnectionRefusedError")
    assert "secret" not in ended.stderr


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line that a process without a terminal leaves in its log."""
    (line,) = ended.stderr.splitlines()
    return str(json.loads(line)["reason"])


def _rota(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, **environment},
    )


# ---- what is waited for ----------------------------------------------------------------------------------------------


async def _no_sleep(_: float) -> None:
    return


async def test_a_database_lost_again_in_the_middle_of_the_start_is_waited_for() -> None:
    troubles = [ConnectionResetError("reset"), TimeoutError(), asyncpg.ReadOnlySQLTransactionError("standby")]
    said = []

    async def start() -> str:
        if troubles:
            raise unavailable("the database can't be reached right now; try again") from troubles.pop(0)
        return "started"

    assert await until_database(start, lambda why, _: said.append(why), _no_sleep) == "started"
    assert said == ["the database can't be reached", "the database does not answer", "no database takes writes"]


async def test_a_refusal_behind_a_problem_is_found() -> None:
    async def start() -> None:
        raise unavailable("…") from asyncpg.InvalidPasswordError('password authentication failed for user "rota"')

    with pytest.raises(DatabaseRefused, match='password authentication failed for user "rota"'):
        await until_database(start, lambda *_: None, _no_sleep)


async def test_a_mistake_of_our_own_is_neither_waited_for_nor_hidden() -> None:
    async def start() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        await until_database(start, lambda *_: None, _no_sleep)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
        asyncpg.InternalClientError("got result for unknown protocol state"),
        asyncpg.TargetServerAttributeNotMatched("None of the hosts match the target attribute requirement"),
        OSError(113, "No route to host"),
    ],
)
def test_what_passes_by_itself_is_waited_for(error: Exception) -> None:
    assert refusal(error) is None
    assert why_unreachable(error)
