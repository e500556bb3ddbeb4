"""Effects that must not happen twice: by functions over their attempts, by clients, by the command line."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import httpx
import pytest
from tests.harness.cluster import Cluster
from tests.modules.talking_tasks import RESULTS

from rota import OnceError
from rota.client._async.client import AsyncClient
from rota.client._sync.client import Client
from rota.client.calls import once_calls
from rota.client.errors import Refused, WaitTimeout

Rota = Callable[..., CompletedProcess[str]]


@pytest.fixture
def key() -> str:
    return f"charge-{uuid4().hex}"


@pytest.mark.parametrize(
    ("function", "by"), [("charge_then_fail", 1), ("die_holding", 2), ("give_up", 2)], ids=lambda value: str(value)
)
def test_an_effect_happens_once_over_all_attempts(
    client: Client, key: str, tmp_path: Path, function: str, by: int
) -> None:
    ledger = tmp_path / "ledger"
    handle = client.submit(
        function=f"talking_tasks:{function}", args=[key, str(ledger)], attempts=3, backoff="10ms", cap="20s"
    )
    assert handle.result(30) == f"receipt of attempt {by}"
    assert ledger.read_text() == f"charged by attempt {by}\n"
    assert len(handle.attempts()) == 2


UNKEPT = {
    "nan": "the result is nan, which JSON does not have",
    "object": "the result is of type object, which is not JSON",
    "large": "it has 70002 bytes of JSON; at most 65536 are kept",
    "NUL": "",  # in the server's words
}


@pytest.mark.parametrize("result", UNKEPT)
def test_an_effect_whose_result_can_not_be_kept_is_not_repeated(
    client: Client, key: str, tmp_path: Path, result: str
) -> None:
    ledger = tmp_path / "ledger"
    handle = client.submit(
        function="talking_tasks:charge_for_what_cannot_be_kept",
        args=[key, str(ledger), result],
        attempts=2,
        backoff=0.01,
    )
    assert handle.result(30) == [2, None]
    assert ledger.read_text() == "charged by attempt 1\n"
    failure = handle.attempts()[0].failure
    assert failure is not None
    assert failure.type == "rota.model.once.OnceError"
    assert failure.message.startswith(f"{key!r} is done and recorded, but without its result: {UNKEPT[result]}")


@pytest.mark.parametrize("result", UNKEPT)
async def test_an_effect_of_a_client_whose_result_can_not_be_kept_is_not_repeated(
    cluster: Cluster, client: Client, key: str, result: str
) -> None:
    done: list[str] = []

    def effect() -> object:
        done.append(key)
        return RESULTS[result]

    async with AsyncClient(server=cluster.urls[0], token=cluster.tokens.admin) as awaited:
        with pytest.raises(OnceError, match="is done and recorded, but without its result"):
            await awaited.once(key, effect)
        assert await awaited.once(key, effect) is None
    other = f"{key}-other"
    with pytest.raises(OnceError, match="is done and recorded, but without its result"):
        await asyncio.to_thread(client.once, other, effect)
    assert await asyncio.to_thread(client.once, other, effect) is None
    assert len(done) == 2


def test_of_many_tasks_one_has_the_effect_and_all_have_its_result(client: Client, key: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    work = {"function": "talking_tasks:die_holding", "args": [key, str(ledger)], "attempts": 3, "backoff": "10ms"}
    handles = client.submit_many([work for _ in range(6)])  # type: ignore[list-item]
    receipts = set(client.gather(handles, 30))
    assert len(receipts) == 1
    assert len(ledger.read_text().splitlines()) == 1


def test_misuse_is_told_in_a_sentence(client: Client, key: str) -> None:
    said = client.submit(function="talking_tasks:misuse", args=[key]).result(30)
    assert said == [
        "ValueError: a key is text of 1 to 500 characters, not ''",
        f"ValueError: a key is text of 1 to 500 characters, not '{'x' * 59}",
        f"OnceError: {key!r} was done, or is being done, by another caller: check `first` before you do it",
    ]


def test_over_http_201_is_first_200_is_done_and_409_is_somebody_at_it(cluster: Cluster, key: str) -> None:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}

    def ask(**body: object) -> tuple[int, dict[str, object]]:
        answered = httpx.post(f"{cluster.urls[0]}/v1/once", headers=headers, json={"key": key, **body})
        return answered.status_code, answered.json()

    status, mine = ask()
    assert (status, mine["first"], mine["done"], mine["lease_seconds"]) == (201, True, False, 60)
    status, other = ask()
    assert (status, str(other["type"]).rsplit("/", 1)[-1]) == (409, "once-claimed")
    assert other["retry_after"]
    assert ask(result=1)[0] == 409
    assert ask(claim=mine["claim"], result={"receipt": 7})[0] == 201
    for body in (
        {},
        {"result": 8},
        {"claim": "other", "result": 8},
        {"claim": mine["claim"], "result": {"receipt": 7}},
    ):
        assert ask(**body) == (200, {"key": key, "first": False, "done": True, "result": {"receipt": 7}})


@pytest.mark.parametrize(
    "body",
    [
        {"key": ""},
        {"key": "x" * 501},
        {"key": "k", "lease": "soon"},
        {"key": "k", "lease": 0},
        {"key": "k", "claim": ""},
        {"key": "k", "release": True},
        {"key": "k", "result": "x" * 70_000},
        {"key": 7},
        {"key": "k", "else": 1},
        {},
    ],
)
def test_bad_requests_are_refused(cluster: Cluster, body: dict[str, object]) -> None:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    assert httpx.post(f"{cluster.urls[0]}/v1/once", headers=headers, json=body).status_code == 422


def test_a_worker_speaks_only_for_attempts_that_run(cluster: Cluster, key: str) -> None:
    headers = {"authorization": f"Bearer {cluster.worker_token}"}
    body = {"task": 1, "attempt": 30_000, "action": "claim", "key": key, "nonce": "n"}
    answered = httpx.post(f"{cluster.urls[0]}/v1/worker/once", headers=headers, json=body)
    assert (answered.status_code, answered.json()["type"].rsplit("/", 1)[-1]) == (409, "not-running")
    assert httpx.post(f"{cluster.urls[0]}/v1/once", headers=headers, json={"key": key}).status_code == 403


def test_a_client_waits_for_who_is_at_it(client: Client, key: str) -> None:
    began, go = threading.Event(), threading.Event()
    results: list[object] = []

    def first() -> None:
        def effect() -> int:
            began.set()
            go.wait(30)
            return 7

        results.append(client.once(key, effect))

    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(30)
    with pytest.raises(WaitTimeout, match="another caller is still doing"):
        client.once(key, lambda: 8, timeout=0)
    go.set()
    assert client.once(key, lambda: 9, timeout=30) == 7
    thread.join(30)
    assert results == [7]


def test_what_raised_was_not_done(client: Client, key: str) -> None:
    with pytest.raises(ZeroDivisionError):
        client.once(key, lambda: 1 / 0)
    with client.once(key) as use:
        assert use.first
        use.renew()
        client.perform(once_calls.release(key, use._claim))
        assert client.once(key, lambda: "other") == "other"
        use.done("other")  # another's record stands; this one says no more than that it is done
    assert client.once(key, lambda: 8) == "other"
    with pytest.raises(Refused):
        client.once("", lambda: 8)


async def test_awaited_clients_do_it_once_among_many(cluster: Cluster, key: str) -> None:
    done: list[str] = []

    async def effect() -> str:
        done.append(key)
        await asyncio.sleep(0)
        return "charged"

    async with AsyncClient(server=cluster.urls[0], token=cluster.tokens.admin) as client:
        results = await asyncio.gather(*(client.once(key, effect) for _ in range(5)))
        assert (results, done) == (["charged"] * 5, [key])
        other = f"{key}-other"
        with pytest.raises(ZeroDivisionError):
            await client.once(other, lambda: 1 / 0)
        async with client.once(other) as use:
            assert use.first
            await use.renew()
            with pytest.raises(WaitTimeout, match="another caller is still doing"):
                await client.once(other, effect, timeout=0)
            await use.done(7)
        assert await client.once(other, effect) == 7
        async with client.once(other) as late:
            with pytest.raises(RuntimeError, match="by another caller: check `first`"):
                await late.done(8)
        assert late.result == 7


def test_the_command_line_runs_a_command_once(rota: Rota, key: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    failed = rota("once", key, "--", "sh", "-c", "exit 3")
    assert failed.returncode == 3
    for expected in ("done\n", ""):
        ran = rota("once", "--lease", "10s", key, "--", "sh", "-c", f"echo once >> {ledger}; echo done")
        assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr
    assert ledger.read_text() == "once\n"
    assert json.dumps(key)[1:-1] in ran.stderr
    assert rota("once", f"{key}-2", "--", "/no/such/program").returncode == 2
