"""A task that needs the whole node, while small ones without a cap keep it full."""

from __future__ import annotations

from tests.journeys.running_tasks.conftest import eventually

from rota.client._sync.client import Client
from rota.client.options import TaskSpec

FLOOD = 400


def test_a_task_that_needs_the_whole_node_starts_while_small_ones_wait(client: Client) -> None:
    small = client.submit_many([TaskSpec(command=["sleep", "0.2"], name="small", cpu=0.5) for _ in range(FLOOD)])
    try:
        eventually(lambda: len(client.list(name="small", state="done").tasks) >= 10)
        big = client.submit(["true"], cpu=4, priority=5)
        assert big.wait(timeout=60).state == "done"
        left = client.list(name="small", state="ready", limit=FLOOD).tasks
        assert len(left) > FLOOD // 4, "it did not wait for the end of the small ones"
    finally:
        client.cancel([task.id for task in small])
