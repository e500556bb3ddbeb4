"""Functions keep a value across attempts, and are asked to stop before they are killed."""

from __future__ import annotations

from pathlib import Path

from tests.journeys.checkpoints.conftest import PATIENCE_SECONDS, eventually

from rota.client._sync.client import Client


def test_a_value_is_there_for_the_next_attempt_and_for_the_same(client: Client, tmp_path: Path) -> None:
    handle = client.submit(function="keeping_tasks:count_up", args=[str(tmp_path)], attempts=3, backoff=0.01)
    assert handle.result(PATIENCE_SECONDS) == [[1, 2], [1, 2, 3]]


def test_a_value_is_kept_in_a_sandbox_too(untrusted: Client) -> None:
    handle = untrusted.submit(function="keeping_tasks:count_up", args=[""], attempts=3, backoff=0.01, memory="256M")
    assert handle.result(PATIENCE_SECONDS) == [[1, 2], [1, 2, 3]]


def test_a_function_that_looks_has_the_time_to_save_when_it_is_paused(client: Client, tmp_path: Path) -> None:
    handle = client.submit(function="keeping_tasks:until_asked", args=[str(tmp_path)])
    eventually((tmp_path / "up").exists)
    handle.pause()
    eventually(lambda: handle.state == "paused")
    handle.resume()
    assert handle.result(PATIENCE_SECONDS) == "went on"
    first, second = handle.attempts()
    assert (first.outcome, second.outcome) == ("disrupted", "ok")
    assert first.failure is not None
    assert first.failure.message == "stopped because its owner paused it"


def test_a_value_that_is_too_large_is_refused_where_it_was_saved(client: Client) -> None:
    handle = client.submit(function="keeping_tasks:keep_too_much")
    assert handle.result(PATIENCE_SECONDS) == "the checkpoint was not stored: it is larger than 1.05M"


def test_a_value_that_is_not_json_is_refused_in_words_about_checkpoints(client: Client) -> None:
    handle = client.submit(function="keeping_tasks:keep_what_is_not_json")
    assert handle.result(PATIENCE_SECONDS) == [
        "the checkpoint was not stored: the value is nan, which JSON does not have",
        "the checkpoint was not stored: the value['a'][0] has a key of type int; keys must be str",
        "the checkpoint was not stored: the value is of type object, which is not JSON",
        "before",
    ]
