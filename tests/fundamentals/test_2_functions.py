"""Lesson 2: Python functions as tasks. They stay plain functions; arguments and results travel as JSON."""

from __future__ import annotations

import pytest

from rota import AsyncClient, Client, TaskFailed
from tests.harness.cluster import Cluster


def test_a_decorated_function_is_still_a_function(client: Client) -> None:
    from sample_tasks import add

    assert add(2, 3) == 5
    assert add.submit(2, 3).result(timeout=30) == 5


def test_map_sends_one_request_and_gives_one_handle_each(client: Client) -> None:
    from sample_tasks import greet

    handles = greet.map(["ann", "bob", "cleo"])
    assert [handle.result(timeout=30) for handle in handles] == ["hello ann", "hello bob", "hello cleo"]


def test_an_exception_comes_back_typed_with_the_remote_traceback(client: Client) -> None:
    from sample_tasks import fail

    with pytest.raises(TaskFailed, match="no such luck") as failed:
        fail.options(attempts=1).submit("no such luck").result(timeout=30)
    assert failed.value.type == "ValueError"
    assert "raise ValueError(message)" in failed.value.traceback


def test_a_function_can_be_named_without_being_imported(client: Client) -> None:
    assert client.submit(function="sample_tasks:noop", args=[41]).result(timeout=30) == 41


def test_a_result_that_is_not_json_is_reported_for_what_it_is(client: Client) -> None:
    document = client.submit(function="sample_tasks:not_json", attempts=5).wait(timeout=30)
    assert (document.state, document.outcome, document.attempt) == ("failed", "bad_result", 1)


def test_a_function_that_ends_its_process_fails_alone(client: Client) -> None:
    broken = client.submit(function="sample_tasks:leave", args=[9])
    fine = client.submit(function="sample_tasks:noop", args=[1])
    assert broken.wait(timeout=30).outcome == "crashed"
    assert fine.result(timeout=30) == 1


def test_what_a_function_prints_is_its_log(client: Client) -> None:
    handle = client.submit(function="sample_tasks:shout", args=["hey"])
    handle.wait(timeout=30)
    assert sorted(handle.log().splitlines()) == ["HEY", "hey"]


async def test_the_asynchronous_client_speaks_the_same_language(cluster: Cluster) -> None:
    async with AsyncClient(server=cluster.urls[0], token=cluster.tokens.admin) as client:
        handle = await client.submit(function="sample_tasks:add", args=[20, 22])
        assert await handle.result(timeout=30) == 42
