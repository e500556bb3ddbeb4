"""Async functions through a whole cluster: long ones run together within one grant, however long each takes."""

from __future__ import annotations

from rota.client._sync.client import Client


def test_calls_that_wait_long_wait_together(client: Client) -> None:
    one = client.submit(function="waiting_tasks:together", args=[0.5])
    assert one.result(30)[1] == 1, "nobody knew yet that it is async"
    handles = client.submit_many([{"function": "waiting_tasks:together", "args": [0.5]} for _ in range(30)])
    for handle in handles:
        handle.wait(60)
    answers = [handle.result(1) for handle in handles]
    most = max(count for _, count in answers)
    assert most >= 10, "a second's wait would otherwise be one of half a minute"
