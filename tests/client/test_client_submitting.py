"""Submitting: the request, the answer, and a lost answer (R1)."""

from __future__ import annotations

import datetime

import pytest

from rota import AsyncClient, Client, Graph, LimitExceeded, Refused, Unreachable
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Lost, Reply, StubServer, problem

SUBMITTED = Reply(201, {"id": 7, "state": "ready", "created": True})


def test_a_command_is_sent_with_its_options_and_the_token_in_its_header(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    handle = client.submit(["echo", "hi"], memory="128M", attempts=3, cap=datetime.timedelta(minutes=2))
    sent = server.received[0]
    assert handle.id == 7
    assert sent.json == {"command": ["echo", "hi"], "memory": "128M", "attempts": 3, "cap": 120.0}
    assert sent.headers["authorization"] == "Bearer key"


def test_a_task_may_wait_for_handles_ids_and_refs(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    first = client.submit(script="true")
    client.submit(["true"], after=[first, 3, "load"])
    assert server.received[1].json["after"] == [7, 3, "load"]


def test_a_lost_answer_is_requested_again_with_the_same_idempotency_key(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Lost(), SUBMITTED)
    assert client.submit(["true"]).id == 7
    first, second = server.asked("POST", "/v1/tasks")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] != ""
    assert first.body == second.body


def test_two_submits_have_two_idempotency_keys(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    client.submit(["true"])
    client.submit(["true"])
    first, second = server.received
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_the_callers_own_idempotency_key_is_used(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    client.submit(["true"], idempotency_key="order-5")
    assert server.received[0].headers["idempotency-key"] == "order-5"


def test_a_submit_is_repeated_while_the_server_is_not_available(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", problem(503, "unavailable", "no leader"), SUBMITTED)
    assert client.submit(["true"]).id == 7
    assert len(server.received) == 2


def test_a_lost_answer_to_a_batch_is_requested_again_with_the_same_idempotency_key(
    server: StubServer, client: Client
) -> None:
    server.on("POST", "/v1/tasks/batch", Lost(), Reply(201, {"ids": [7, 8], "replayed": []}))
    handles = client.submit_many([{"command": ["true"], "ref": "a"}, {"script": "true", "after": ["a"]}])
    first, second = server.received
    assert [handle.id for handle in handles] == [7, 8]
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_without_retries_no_idempotency_keys_are_made_and_a_lost_answer_is_an_error(server: StubServer) -> None:
    server.on("POST", "/v1/tasks", Lost())
    with Client(server.url, "key", retry_seconds=0) as client, pytest.raises(Unreachable):
        client.submit(["true"])
    assert "idempotency-key" not in server.received[0].headers


def test_a_request_that_would_do_its_work_twice_is_not_repeated(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/graphs/7/rerun", Lost())
    with pytest.raises(Unreachable, match="may have done what you asked for"):
        client.graphs.rerun(7)
    assert len(server.received) == 1


def test_a_server_that_is_not_there_is_unreachable_once_the_retry_time_is_up(server: StubServer) -> None:
    server.close()
    with (
        Client(server.url, "key", retry_seconds=0.1) as client,
        pytest.raises(Unreachable, match="cannot be reached"),
    ):
        client.submit(["true"])


def test_a_reached_limit_is_raised_at_once_with_the_time_to_try_again(server: StubServer, client: Client) -> None:
    answer = problem(429, "rate-limited", "plan free allows 100 tasks an hour", title="Limit exceeded", retry_after=2.5)
    server.on("POST", "/v1/tasks", answer)
    with pytest.raises(LimitExceeded, match=r"^Limit exceeded: plan free allows 100 tasks an hour$") as caught:
        client.submit(["true"])
    assert (caught.value.retry_after, caught.value.slug) == (2.5, "rate-limited")
    assert len(server.received) == 1


def test_a_refusal_carries_every_fault(server: StubServer, client: Client) -> None:
    faults = [
        {"pointer": "/memory", "code": "out-of-range", "detail": "too much"},
        {"pointer": "/cap", "code": "out-of-range", "detail": "too long"},
    ]
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", "2 things are wrong", errors=faults))
    with pytest.raises(Refused) as caught:
        client.submit(["true"], memory="1000T", cap="9w")
    assert [fault.pointer for fault in caught.value.faults] == ["/memory", "/cap"]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ({"command": "echo hi"}, "list of words"),
        ({}, "exactly one of"),
        ({"command": ["a"], "script": "b"}, "exactly one of"),
        ({"function": "m:f", "args": [1, object()]}, "argument 2 of m:f is not JSON"),
        ({"function": "m:f", "kwargs": {"x": {1j}}}, "argument 'x' of m:f is not JSON"),
    ],
)
def test_what_cannot_be_sent_is_a_type_error_before_any_request(
    server: StubServer, client: Client, work: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        client.submit(**work)  # type: ignore[arg-type]
    assert server.received == []


async def test_the_async_client_submits_repeats_and_waits_alike(server: StubServer) -> None:
    server.on("POST", "/v1/tasks", Lost(), SUBMITTED)
    server.on("GET", "/v1/tasks/7", Reply(200, task_document(7, "done", result=[1, 2], exit_code=0)))
    async with AsyncClient(server.url, "key") as client:
        handle = await client.submit(["true"])
        assert await handle.result() == [1, 2]
        assert await handle.state() == "done"
    first, second = server.asked("POST", "/v1/tasks")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_a_task_of_a_graph_is_checked_where_it_is_written_and_named_if_it_has_no_name() -> None:
    graph = Graph("etl")
    for _ in range(3):
        graph.task(["/bin/true"])
    graph.task(["true"], name="other")
    graph.task(["true"])
    assert list(graph.nodes) == ["true", "true-2", "true-3", "other", "true-4"]
    with pytest.raises(TypeError, match=r"a task has no option 'memmory'; did you mean 'memory'\?"):
        graph.task(["true"], memmory="1G")
