"""Several server addresses: which is used, what a failing one costs, and what is never sent where."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rota import AsyncClient, Client, ConfigurationError, Refused, Unreachable
from rota.client.calls import task_calls
from rota.client.transport import http_rules as rules
from rota.client.transport.log_reader import LogChunk
from rota.client.transport.tries import RETURN_SECONDS, Preference, Tries
from rota.servers import addresses_of
from tests.client.stub_documents import chunk, end
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Lost, Reply, Silent, Stream, StubServer, problem

SUBMITTED = Reply(201, {"id": 7, "state": "ready", "created": True})
TASK = Reply(200, task_document(7, "done", result=1))


@pytest.fixture
def second() -> Iterator[StubServer]:
    stub = StubServer()
    yield stub
    stub.close()


@pytest.fixture
def both(server: StubServer, second: StubServer) -> Iterator[Client]:
    with Client(f"{server.url},{second.url}", "key") as made:
        yield made


# ---- the list ------------------------------------------------------------------------------------------------------


def test_a_list_of_addresses_is_read_in_its_order() -> None:
    assert addresses_of("http://a") == ("http://a",)
    assert addresses_of(" http://b:2/ , http://a:1/rota/,http://[::1]:70") == (
        "http://b:2",
        "http://a:1/rota",
        "http://[::1]:70",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write http://host:port"),
        ("http://a,", "address 2 of 2 is empty"),
        ("http://a,,http://b", "address 2 of 3 is empty"),
        ("http://a http://b", "'http://a http://b' is not the address of a server"),
        ("http://a;http://b", "several with commas"),
        ("http://a,b:7070", "'b:7070' is not the address"),
        ("http://a,ftp://b", "'ftp://b' is not the address"),
        ("http://a,http://:70", "'http://:70' is not the address"),
        ("http://a:70000", "is not the address"),
        ("http://a:x,http://b", "'http://a:x' is not the address"),
        ("http://[::1", "is not the address"),
        ("http://a/?x=1,http://b", "is not the address"),
        ("http://a:1,http://b:1,http://a:1/", "http://a:1 is named twice"),
        ("https://a,http://b", "must not send a token unencrypted"),
    ],
)
def test_a_list_that_cannot_be_used_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        addresses_of(text)
    if text:
        with pytest.raises(ConfigurationError):
            Client(text, "key")


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Client("http://a,http://ann:hunter2@b", "key")
    assert "hunter2" not in str(caught.value)


# ---- which one -----------------------------------------------------------------------------------------------------


def test_the_first_server_is_preferred_and_used_again_some_time_after_its_trouble() -> None:
    preference = Preference(("a", "b", "c"))
    assert preference.begin(0.0) == "a"
    preference.failed("a", 1.0)
    preference.failed("a", 1.1)  # of a second request, which began before
    assert preference.begin(1.2) == "b"
    preference.failed("b", 2.0)
    assert preference.begin(2.1) == "c"
    assert [preference.begin(1.1 + RETURN_SECONDS), preference.begin(1.2 + RETURN_SECONDS)] == ["a", "c"], "one asks"
    preference.failed("a", 2.0 + RETURN_SECONDS)
    assert preference.begin(2.1 + RETURN_SECONDS) == "c"
    assert preference.begin(2.0 + 2 * RETURN_SECONDS) == "a"
    preference.answered("a")
    assert preference.begin(2.1 + 2 * RETURN_SECONDS) == "a"


def test_requests_go_to_the_first_server_and_after_trouble_stay_with_the_next(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("GET", "/v1/tasks/7", TASK)
    second.on("GET", "/v1/tasks/7", TASK)
    both.get(7)
    assert (len(server.received), len(second.received)) == (1, 0)
    server.on("GET", "/v1/tasks/7", Lost())
    both.get(7)
    both.get(7)
    assert (len(server.received), len(second.received)) == (2, 2)


# ---- what trouble costs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [Lost(), problem(503, "unavailable", "the database is away", retry_after=20)])
def test_a_submit_goes_on_to_the_next_server_at_once_with_the_same_key(
    server: StubServer, second: StubServer, both: Client, trouble: Reply | Lost
) -> None:
    server.on("POST", "/v1/tasks", trouble)
    second.on("POST", "/v1/tasks", SUBMITTED)
    began = time.monotonic()
    assert both.submit(["true"]).id == 7
    assert time.monotonic() - began < 1.0
    [first], [again] = server.asked("POST", "/v1/tasks"), second.asked("POST", "/v1/tasks")
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"] != ""
    assert first.body == again.body


async def test_the_async_client_goes_on_too(server: StubServer, second: StubServer) -> None:
    server.on("POST", "/v1/tasks", Lost())
    second.on("POST", "/v1/tasks", SUBMITTED)
    second.on("GET", "/v1/tasks/7", TASK)
    async with AsyncClient(f"{server.url},{second.url}", "key", retry_seconds=0) as client:
        handle = await client.submit(["true"])
        assert await handle.result() == 1
    [first], [again] = server.asked("POST", "/v1/tasks"), second.asked("POST", "/v1/tasks")
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]


def test_a_server_that_is_not_there_costs_nothing_even_without_retries(server: StubServer, second: StubServer) -> None:
    server.close()
    second.on("POST", "/v1/graphs/7/rerun", Reply(201, {"id": 9, "tasks": {}, "rerun_of": 7}))
    with Client(f"{server.url},{second.url}", "key", retry_seconds=0) as client:
        assert client.graphs.rerun(7).id == 9  # also what must not be sent twice: it was not sent


def test_a_silent_server_costs_a_second(server: StubServer, second: StubServer, both: Client) -> None:
    server.on("GET", "/v1/tasks/7", Silent())
    second.on("GET", "/v1/tasks/7", TASK)
    began = time.monotonic()
    assert both.get(7).id == 7
    assert 0.9 < time.monotonic() - began < 2.5


def test_if_all_servers_are_slow_they_get_more_time(
    server: StubServer, second: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ANSWER", rules.Patience(30.0, 0.05))
    server.on("GET", "/v1/tasks/7", Silent(), TASK)
    second.on("GET", "/v1/tasks/7", Silent())
    with Client(f"{server.url},{second.url}", "key", retry_seconds=0) as client:
        assert client.get(7).id == 7
    assert (len(server.received), len(second.received)) == (2, 1)


def test_a_request_that_must_not_be_repeated_is_given_time_and_one_server(
    server: StubServer, second: StubServer, both: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ANSWER", rules.Patience(0.3, 0.05))
    server.on("POST", "/v1/graphs/7/rerun", Silent())
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not answer in time.*look before you try again"):
        both.graphs.rerun(7)
    assert time.monotonic() - began >= 0.3
    assert second.received == []


def test_servers_that_all_fail_are_one_error_about_all(server: StubServer, second: StubServer) -> None:
    server.close()
    second.on("GET", "/v1/tasks/7", Lost())
    with (
        Client(f"{server.url},{second.url}", "key", retry_seconds=0) as client,
        pytest.raises(Unreachable, match=r"cannot be reached.*\(all 2 servers were tried\)"),
    ):
        client.get(7)
    assert len(second.received) == 1


def test_a_refusal_is_not_asked_of_another_server(server: StubServer, second: StubServer, both: Client) -> None:
    server.on("POST", "/v1/tasks", problem(422, "out-of-range", "too long"))
    with pytest.raises(Refused):
        both.submit(["true"])
    assert second.received == []


def test_a_wait_asks_for_no_longer_than_a_frozen_server_may_cost(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("GET", "/v1/tasks/7", TASK)
    server.on_document("POST", "/v1/tasks/wait", {"ended": [{"id": 7, "state": "done", "result": 1}], "pending": 0})
    both.handle(7).wait()
    both.gather([both.handle(7)])
    assert float(server.received[0].query["wait"]) == rules.SHORT_WAIT_SECONDS
    assert server.received[1].json["timeout"] == rules.SHORT_WAIT_SECONDS
    assert second.received == []


# ---- streams and files ---------------------------------------------------------------------------------------------


def test_a_log_goes_on_at_another_server_where_it_broke(server: StubServer, second: StubServer, both: Client) -> None:
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"one\n", seq=0), chunk(b"two\n", seq=1))))
    second.on("GET", "/v1/tasks/7/log", Stream((chunk(b"three\n", seq=2), end("done", 0))))
    began = time.monotonic()
    data = [item.data for item in both.follow(7) if isinstance(item, LogChunk)]
    assert data == [b"one\n", b"two\n", b"three\n"]
    assert time.monotonic() - began < 1.0
    assert [one.query for one in second.received] == [{"follow": "true", "attempt": "1", "after": "1"}]


def test_a_log_whose_server_falls_silent_goes_on_at_another(
    server: StubServer, second: StubServer, both: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "STREAM", rules.Patience(60.0, 0.2))
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"one\n", seq=0),), hold=True))
    second.on("GET", "/v1/tasks/7/log", Stream((chunk(b"two\n", seq=1), end())))
    assert [item.data for item in both.follow(7) if isinstance(item, LogChunk)] == [b"one\n", b"two\n"]


async def test_an_async_log_goes_on_at_another_server(server: StubServer, second: StubServer) -> None:
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"a"),)))
    second.on("GET", "/v1/tasks/7/log", Stream((chunk(b"b", seq=1), end())))
    async with AsyncClient(f"{server.url},{second.url}", "key") as client:
        items = [item async for item in client.follow(7)]
    assert [item.data for item in items if isinstance(item, LogChunk)] == [b"a", b"b"]


def test_streams_that_always_break_at_once_are_not_asked_for_without_pauses(
    server: StubServer, second: StubServer, both: Client
) -> None:
    """Both servers answer, say something and end, as when their database is away."""
    for stub in (server, second):
        stub.on("GET", "/v1/tasks/7/log", *[Stream((chunk(b"a"),))] * 10, Stream((end(),)))
    began = time.monotonic()
    list(both.follow(7))
    assert time.monotonic() - began > 0.2  # ten pauses of at least 25 ms each, one after every two streams


def test_a_download_goes_on_at_another_server_where_it_broke(
    server: StubServer, second: StubServer, both: Client, tmp_path: Path
) -> None:
    data = b"0123456789" * 1000
    digest = hashlib.sha256(data).hexdigest()
    document = {"id": f"sha256:{digest}", "sha256": digest, "size_bytes": len(data)}
    server.on_document("GET", f"/v1/artifacts/sha256:{digest}", document)
    path = f"/v1/artifacts/{digest}/content"
    server.on("GET", path, Reply(200, body=data[:4000]), Lost())
    second.on("GET", path, Reply(206, body=data[4000:]))
    assert both.artifacts.download(f"sha256:{digest}", tmp_path / "copy").read_bytes() == data
    assert second.received[-1].headers["range"] == "bytes=4000-"


def test_an_upload_is_sent_whole_to_another_server(
    server: StubServer, second: StubServer, both: Client, tmp_path: Path
) -> None:
    data = b"x" * 300_000
    (tmp_path / "file").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    server.on("POST", "/v1/artifacts", Lost())
    made = {"id": f"sha256:{digest}", "sha256": digest, "size_bytes": len(data)}
    second.on_document("POST", "/v1/artifacts", made, 201)
    assert both.artifacts.upload(tmp_path / "file").sha256 == digest
    assert second.received[0].body == data


# ---- a lost answer to a change that may be sent again ----------------------------------------------------------------


def test_a_removal_whose_answer_was_lost_has_succeeded_if_nothing_is_there(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("DELETE", "/v1/secrets/A", Lost())
    second.on("DELETE", "/v1/secrets/A", problem(404, "not-found", "there is no such secret"))
    both.secrets.remove("A")
    with pytest.raises(Refused):
        both.secrets.remove("A")  # asked of the second alone: nothing was lost


def test_a_cancel_whose_answer_was_lost_has_succeeded_if_the_task_is_cancelled(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("POST", "/v1/tasks/7/cancel", Lost())
    second.on("POST", "/v1/tasks/7/cancel", problem(409, "already-terminal", "it is cancelled", state="cancelled"))
    answer = both.handle(7).cancel()
    assert (answer.id, answer.state, answer.cancelling) == (7, "cancelled", False)


def test_a_cancel_whose_answer_was_lost_is_refused_if_the_task_is_done(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("POST", "/v1/tasks/7/cancel", Lost())
    second.on("POST", "/v1/tasks/7/cancel", problem(409, "already-terminal", "it is done", state="done"))
    with pytest.raises(Refused, match="it is done"):
        both.handle(7).cancel()


def test_a_cancel_of_many_whose_answer_was_lost_counts_those_that_are_cancelled(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("POST", "/v1/tasks/cancel", Lost())
    refused = [{"id": 7, "reason": "ended", "state": "cancelled"}, {"id": 8, "reason": "ended", "state": "done"}]
    second.on_document("POST", "/v1/tasks/cancel", {"cancelled": [9], "cancelling": [], "refused": refused})
    answer = both.cancel([7, 8, 9])
    assert (answer.cancelled, [one.id for one in answer.refused]) == ([7, 9], [8])


def test_a_retry_whose_answer_was_lost_is_the_task_that_it_made(
    server: StubServer, second: StubServer, both: Client
) -> None:
    server.on("POST", "/v1/tasks/7/retry", Lost())
    second.on("POST", "/v1/tasks/7/retry", problem(409, "already-retried", "as 9", retried_as=9))
    assert both.retry(7).id == 9
    with pytest.raises(Refused):
        both.retry(7)


# ---- the token -----------------------------------------------------------------------------------------------------


def test_the_token_goes_to_the_named_servers_and_no_redirect_leads_it_elsewhere(
    server: StubServer, second: StubServer, both: Client
) -> None:
    stranger = StubServer()
    try:
        elsewhere = Reply(307, {}, headers={"Location": f"{stranger.url}/v1/tasks/7"})
        server.on("GET", "/v1/tasks/7", elsewhere)
        with pytest.raises(Exception, match="HTTP 307"):
            both.get(7)
        assert stranger.received == []
        server.on("GET", "/v1/tasks/7", Lost())
        second.on("GET", "/v1/tasks/7", TASK)
        both.get(7)
        assert {one.headers["authorization"] for one in server.received + second.received} == {"Bearer key"}
    finally:
        stranger.close()


def test_silent_servers_get_twice_the_time_in_each_round() -> None:
    """A server that is stopped for good must not cost the full patience while another is only slow."""
    call, tries = task_calls.task(7), Tries(Preference(("http://a", "http://b")), 0.0)
    allowed: list[tuple[str, float | None]] = []
    with pytest.raises(Unreachable):
        while True:
            allowed.append((tries.server, tries.timeout(call, rules.ANSWER).read))
            assert tries.pause(call, httpx.ReadTimeout("silent")) < 2
    assert [seconds for _, seconds in allowed] == [1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 30, 30]
    assert [server for server, _ in allowed] == ["http://a", "http://b"] * 6
