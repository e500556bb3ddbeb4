"""Waiting for tasks, their results and logs, and the errors of failed tasks."""

from __future__ import annotations

import pytest

from rota import (
    AsyncClient,
    Client,
    NotFound,
    RotaError,
    ServerFault,
    TaskCancelled,
    TaskFailed,
    TaskSkipped,
    TaskTimedOut,
    WaitTimeout,
)
from rota.client.transport.log_reader import LogChunk, LogEnd
from tests.client.stub_documents import chunk, end, ended
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Lost, Reply, Stream, StubServer, problem


def test_waiting_asks_again_until_the_task_has_ended(server: StubServer, client: Client) -> None:
    server.on(
        "GET",
        "/v1/tasks/7",
        Reply(200, task_document(7, "running")),
        Lost(),
        Reply(200, task_document(7, "done", result={"total": 3})),
    )
    assert client.handle(7).result() == {"total": 3}
    assert len(server.received) == 3
    assert server.received[0].query == {"wait": "30.000"}


def test_waiting_too_long_is_a_wait_timeout_and_names_the_task(server: StubServer, client: Client) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, "running"))
    with pytest.raises(WaitTimeout, match="task 7 is still running") as caught:
        client.handle(7).wait(timeout=0)
    assert caught.value.task_ids == (7,)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (
            {"state": "failed", "failure": {"type": "ValueError", "message": "no", "traceback": "T"}},
            TaskFailed,
        ),
        ({"state": "failed", "exit_code": 3}, TaskFailed),
        ({"state": "failed", "failure": {"type": "timeout", "message": "ran over 30 s"}}, TaskTimedOut),
        ({"state": "cancelled"}, TaskCancelled),
        ({"state": "skipped"}, TaskSkipped),
    ],
)
def test_a_task_that_did_not_end_done_comes_back_as_a_typed_error(
    server: StubServer, client: Client, fields: dict[str, object], kind: type[TaskFailed]
) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, **fields))  # type: ignore[arg-type]
    with pytest.raises(TaskFailed) as caught:
        client.handle(7).result()
    assert type(caught.value) is kind
    assert caught.value.task_id == 7
    assert caught.value.state == fields["state"]


def test_the_tasks_own_exception_is_in_the_error(server: StubServer, client: Client) -> None:
    failure = {"type": "ValueError", "message": "no such file", "traceback": "Traceback …"}
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", failure=failure))
    with pytest.raises(TaskFailed, match="task 7 failed: ValueError: no such file") as caught:
        client.handle(7).result()
    assert (caught.value.type, caught.value.message) == ("ValueError", "no such file")
    assert caught.value.traceback == "Traceback …"


def test_gather_asks_once_for_all_and_keeps_their_order(server: StubServer, client: Client) -> None:
    server.on(
        "POST",
        "/v1/tasks/wait",
        Reply(200, {"ended": [ended(8, result="b")], "pending": 1}),
        Reply(200, {"ended": [ended(7, result="a")], "pending": 0}),
    )
    assert client.gather([client.handle(7), client.handle(8)]) == ["a", "b"]
    assert [one.json["ids"] for one in server.received] == [[7, 8], [7]]


def test_gather_can_put_errors_in_their_places(server: StubServer, client: Client) -> None:
    answer = {"ended": [ended(7, "failed"), ended(8, result="b")], "pending": 0}
    server.on_document("POST", "/v1/tasks/wait", answer)
    first, second = client.gather([client.handle(7), client.handle(8)], return_errors=True)
    assert isinstance(first, TaskFailed)
    assert second == "b"


def test_an_unknown_task_is_not_found(server: StubServer, client: Client) -> None:
    with pytest.raises(NotFound, match=r"^there is no such task: 99$"):
        client.get(99)


def test_an_unknown_dead_letter_is_named_too(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/dead/77", problem(404, "not-found", "there is no such dead letter"))
    with pytest.raises(NotFound, match=r"^there is no such dead letter: 77$"):
        client.dead_letter(77)


def test_an_answer_that_is_not_rotas_is_a_server_fault(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/tasks/7", Reply(200, body=b"<html>", content_type="text/html"))
    with pytest.raises(ServerFault, match="cannot be read"):
        client.get(7)


def test_a_proxys_error_page_is_still_a_rota_error(server: StubServer, client: Client) -> None:
    server.on("GET", "/v1/tasks/7", Reply(500, body=b"<html>", content_type="text/html"))
    with pytest.raises(RotaError, match="HTTP 500"):
        client.get(7)


def test_a_broken_log_is_taken_up_where_it_broke(server: StubServer, client: Client) -> None:
    server.on(
        "GET",
        "/v1/tasks/7/log",
        Stream((chunk(b"one\n", seq=0), chunk(b"two\n", seq=1, stream="stderr"))),
        Lost(),
        Stream((chunk(b"three\n", seq=2), end("done", 0))),
    )
    items = list(client.follow(7))
    assert [item.data for item in items if isinstance(item, LogChunk)] == [b"one\n", b"two\n", b"three\n"]
    assert items[-1] == LogEnd(state="done", exit_code=0, kept_bytes=0, dropped_bytes=0)
    assert [one.query for one in server.received] == [
        {"follow": "true"},
        {"follow": "true", "attempt": "1", "after": "1"},
        {"follow": "true", "attempt": "1", "after": "1"},
    ]


async def test_the_async_client_takes_a_broken_log_up_too(server: StubServer) -> None:
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"a"),)), Stream((chunk(b"b", seq=1), end())))
    async with AsyncClient(server.url, "key") as client:
        items = [item async for item in client.follow(7)]
    assert [item.data for item in items if isinstance(item, LogChunk)] == [b"a", b"b"]


async def test_the_async_client_gathers(server: StubServer) -> None:
    server.on_document("POST", "/v1/tasks/wait", {"ended": [ended(7, result=1)], "pending": 0})
    async with AsyncClient(server.url, "key") as client:
        assert await client.gather([client.handle(7)]) == [1]
