"""Lesson 3: dependencies, retries after failures, and dead letters when all attempts are used up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rota import Client, Refused, TaskSpec


def test_tasks_of_one_batch_name_each_other(client: Client) -> None:
    extract, transform, load = client.submit_many(
        [
            TaskSpec(command=["true"], ref="extract"),
            TaskSpec(command=["true"], ref="transform", after=["extract"]),
            TaskSpec(command=["true"], after=["transform"]),
        ]
    )
    last = load.wait(timeout=30)
    assert last.state == "done"
    assert last.after == [transform.id]
    ended = [client.get(handle.id) for handle in (extract, transform, load)]
    assert all(a.ended_at <= b.started_at for a, b in pairwise(ended) if a.ended_at and b.started_at)


def test_a_cycle_is_refused_and_named(client: Client) -> None:
    with pytest.raises(Refused, match=r"wait for each other: (a → b → a|b → a → b)"):
        client.submit_many(
            [TaskSpec(command=["true"], ref="a", after=["b"]), TaskSpec(command=["true"], ref="b", after=["a"])]
        )


def test_what_comes_after_a_failure_is_skipped_unless_it_runs_anyway(client: Client) -> None:
    gate = client.submit(["sh", "-c", "exit 1"], delay="300ms")
    skipped = client.submit(["true"], after=[gate.id])
    below = client.submit(["true"], after=[skipped.id])
    anyway = client.submit(["true"], after=[gate.id], upstream="run")
    assert skipped.wait(timeout=30).reason == f"task {gate.id} ended failed"
    assert below.wait(timeout=30).state == "skipped"
    assert anyway.wait(timeout=30).state == "done"


def test_a_failing_task_is_tried_again_and_every_attempt_is_kept(client: Client) -> None:
    handle = client.submit(["sh", "-c", '[ "$ROTA_ATTEMPT" = 3 ]'], attempts=3, backoff="10ms")
    assert handle.wait(timeout=30).state == "done"
    assert [(a.number, a.outcome) for a in client.attempts(handle.id)] == [(1, "error"), (2, "error"), (3, "ok")]


def test_a_task_without_attempts_left_is_a_dead_letter_and_can_run_again_once(client: Client) -> None:
    handle = client.submit(["sh", "-c", "exit 1"], attempts=2, backoff="10ms")
    handle.wait(timeout=30)
    assert handle.id in {letter.id for letter in client.dead()}
    again = client.retry(handle.id)
    assert client.get(again.id).retry_of == handle.id
    assert handle.id not in {letter.id for letter in client.dead()}
    with pytest.raises(Refused, match=f"retried already, as task {again.id}"):
        client.retry(handle.id)


def test_a_waiting_task_is_cancelled_at_once_a_running_one_is_stopped(client: Client) -> None:
    waiting = client.submit(["true"], delay="1h")
    waiting.cancel()
    assert waiting.state == "cancelled"
    running = client.submit(["sleep", "60"])
    while running.state != "running":
        client.get(running.id)
    running.cancel()
    assert running.wait(timeout=30).state == "cancelled"


def test_tasks_with_one_concurrency_key_run_one_at_a_time(client: Client) -> None:
    handles = client.submit_many(
        [TaskSpec(function="sample_tasks:nap", args=[0.05], concurrency_key="printer") for _ in range(4)]
    )
    spans = sorted(
        (d.started_at, d.ended_at) for d in (h.wait(timeout=60) for h in handles) if d.started_at and d.ended_at
    )
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_rules_say_which_failures_are_worth_another_try(client: Client) -> None:
    busy = client.submit(["sh", "-c", "exit 75"], attempts=2, retry_on=["exit=75:0s"])
    broken = client.submit(["sh", "-c", "exit 2"], attempts=5, retry_on=["exit=75"])
    wrong = client.submit(function="sample_tasks:fail", args=["no"], attempts=5, fail_on=["error=ValueError"])
    assert busy.wait(timeout=30).attempt == 2
    assert "by its rules that is not retried" in str(broken.wait(timeout=30).reason)
    assert [client.get(handle.id).attempt for handle in (broken, wrong) if handle.wait(timeout=30)] == [1, 1]
    with pytest.raises(Refused, match="is not an end of an attempt"):
        client.submit(["true"], attempts=2, retry_on=["sometimes"])
