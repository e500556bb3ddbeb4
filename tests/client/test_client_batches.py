"""The results of tasks that were submitted together come many at once, whichever way they are asked for."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rota import AsyncClient, Client, Graph, NotFound, TaskFailed, Unreachable, WaitTimeout, task
from rota.client.calls.batch_waiting import MOST_KEPT_BYTES
from tests.client.stub_documents import ended
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Lost, Made, Received, Reply, StubServer, problem

WAIT = ("POST", "/v1/tasks/wait")


@task
def double(number: int) -> int:
    return 2 * number


class Cluster:
    """Tasks 1, 2, … of which some have ended, behind `/v1/tasks/batch` and `/v1/tasks/wait`."""

    def __init__(self, server: StubServer) -> None:
        self.server = server
        self.running: set[int] = set()
        self.removed: set[int] = set()
        self.fields: dict[int, dict[str, Any]] = {}
        self.changed = threading.Condition()
        self.asked = threading.Event()
        server.on("POST", "/v1/tasks/batch", Made(self._submitted))
        server.on(*WAIT, Made(self._waited))

    @property
    def questions(self) -> int:
        return len(self.server.asked(*WAIT))

    def wait_for_question(self) -> None:
        assert self.asked.wait(5)

    def end(self, task_id: int) -> None:
        with self.changed:
            self.running.discard(task_id)
            self.changed.notify_all()

    def _submitted(self, request: Received) -> Reply:
        return Reply(200, {"ids": list(range(1, len(request.json["tasks"]) + 1))})

    def _waited(self, request: Received) -> Reply:
        asked = request.json
        if self.removed.intersection(asked["ids"]):
            return problem(404, "not-found", "there is no such task")
        with self.changed:
            self.asked.set()
            self.changed.wait_for(lambda: not self.running.issuperset(asked["ids"]), min(asked["timeout"], 5))
            over = [one for one in (*asked["ids"], *asked["also"]) if one not in self.running | self.removed]
        if asked["documents"]:
            made = [task_document(one, "done", result=2 * one) for one in over]
            return Reply(200, {"ended": [], "documents": made})
        return Reply(200, {"ended": [ended(one, **{"result": 2 * one, **self.fields.get(one, {})}) for one in over]})


@pytest.fixture
def cluster(server: StubServer) -> Cluster:
    return Cluster(server)


def test_a_loop_over_the_results_of_a_thousand_tasks_takes_one_request(cluster: Cluster, client: Client) -> None:
    handles = double.using(client).map(range(1, 1001))
    assert [handle.result() for handle in handles] == [2 * number for number in range(1, 1001)]
    assert cluster.questions == 1


@pytest.mark.parametrize("way", ["map", "starmap", "submit_many", "handles"])
def test_every_way_to_submit_tasks_together_makes_a_batch(cluster: Cluster, client: Client, way: str) -> None:
    function = double.using(client)
    handles = {
        "map": lambda: function.map(range(50)),
        "starmap": lambda: function.starmap([(one,) for one in range(50)]),
        "submit_many": lambda: client.submit_many([function.spec(one) for one in range(50)]),
        "handles": lambda: client.handles(range(1, 51)),
    }[way]()
    assert [handle.result() for handle in handles] == [2 * one for one in range(1, 51)]
    assert cluster.questions == 1


def test_the_nodes_of_a_graph_are_a_batch(server: StubServer, cluster: Cluster, client: Client) -> None:
    server.on_document("POST", "/v1/graphs", {"id": 100, "tasks": {"a": 1, "b": 2, "c": 3}})
    with Graph("three", client) as graph:
        nodes = [graph.task(["true"], name=name) for name in "abc"]
    assert [node.result() for node in nodes] == [2, 4, 6]
    assert cluster.questions == 1


def test_the_results_come_together_in_the_reverse_order_too(cluster: Cluster, client: Client) -> None:
    handles = client.handles(range(1, 301))
    assert [handle.result() for handle in reversed(handles)] == [2 * number for number in range(300, 0, -1)]
    assert cluster.questions == 2


def test_a_result_asked_for_twice_is_fetched_once_and_is_a_new_value(cluster: Cluster, client: Client) -> None:
    cluster.fields[1] = {"result": [1]}
    handle, *_ = client.handles([1, 2])
    handle.result().append("mine")
    assert handle.result() == [1]
    assert cluster.questions == 1


def test_documents_come_together_too(cluster: Cluster, client: Client) -> None:
    documents = [handle.wait() for handle in client.handles(range(1, 101))]
    assert [(one.id, one.result, one.name) for one in documents] == [(n, 2 * n, "nightly") for n in range(1, 101)]
    assert cluster.questions == 1


def test_a_failed_task_raises_at_its_own_handle_only(cluster: Cluster, client: Client) -> None:
    cluster.fields[2] = {"state": "failed", "failure": {"type": "ValueError", "message": "no"}}
    first, second, third = client.handles([1, 2, 3])
    assert (first.result(), third.result()) == (2, 6)
    with pytest.raises(TaskFailed, match="task 2 failed: ValueError: no") as caught:
        second.result()
    assert caught.value.task_id == 2
    assert cluster.questions == 1


def test_waiting_for_a_running_task_names_only_it_and_brings_ended_neighbours(cluster: Cluster, client: Client) -> None:
    cluster.running = {1, 2}
    handles = client.handles([1, 2, 3])
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(handles[0].result)
        cluster.wait_for_question()
        cluster.end(1)
        assert result.result() == 2
    [asked] = cluster.server.asked(*WAIT)
    assert asked.json["ids"] == [1]
    assert asked.json["any"] is True
    assert handles[2].result() == 6
    assert cluster.questions == 1


def test_a_task_that_does_not_end_in_time_is_a_wait_timeout_of_its_own(cluster: Cluster, client: Client) -> None:
    cluster.running = {2}
    handles = client.handles([1, 2, 3])
    with pytest.raises(WaitTimeout, match="task 2 has not ended after 0 s") as caught:
        handles[1].result(timeout=0)
    assert caught.value.task_ids == (2,)
    assert handles[2].result(timeout=0) == 6


def test_a_task_that_is_gone_is_not_found_and_the_others_have_their_results(cluster: Cluster, client: Client) -> None:
    cluster.removed = {2}
    first, second, third = client.handles([1, 2, 3])
    assert (first.result(), third.result()) == (2, 6)
    with pytest.raises(NotFound):
        second.result()


def test_what_is_kept_of_large_results_is_bounded(cluster: Cluster, client: Client) -> None:
    count, size = 40, 1024 * 1024
    cluster.fields = {one: {"result": "x" * size} for one in range(1, count + 1)}
    handles = client.handles(range(1, count + 1))
    assert [len(handle.result()) for handle in handles] == [size] * count
    kept = handles[0]._batch._outcomes._neighbours  # type: ignore[union-attr]
    assert sum(map(len, kept._kept.values())) == kept._kept_bytes <= MOST_KEPT_BYTES
    assert 1 < cluster.questions < count


def test_dropped_handles_take_nothing_from_the_others(cluster: Cluster, client: Client) -> None:
    handles = list(client.handles(range(1, 101)))
    last = handles[-1]
    del handles
    gc.collect()
    assert last.result() == 200


def test_threads_share_a_batch(cluster: Cluster, client: Client) -> None:
    handles = client.handles(range(1, 501))
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda handle: handle.result(), handles)) == [2 * one for one in range(1, 501)]
    assert cluster.questions <= 20


async def test_gathered_coroutines_share_one_request(server: StubServer, cluster: Cluster) -> None:
    async with AsyncClient(server.url, "key") as client:
        handles = await client.submit_many([double.spec(one) for one in range(1000)])
        assert await asyncio.gather(*(handle.result() for handle in handles)) == [2 * n for n in range(1, 1001)]
        assert cluster.questions == 1
        assert [await handle.result() for handle in handles] == [2 * n for n in range(1, 1001)]
        assert cluster.questions == 1


async def test_of_gathered_coroutines_each_returns_when_its_own_task_has_ended(
    server: StubServer, cluster: Cluster
) -> None:
    cluster.running = {1, 2}
    async with AsyncClient(server.url, "key") as client:
        slow, quick = (asyncio.ensure_future(handle.result()) for handle in client.handles([1, 2]))
        await asyncio.to_thread(cluster.wait_for_question)
        cluster.end(2)
        assert await quick == 4
        assert not slow.done()
        cluster.end(1)
        assert await slow == 2


async def test_a_cancelled_coroutine_takes_no_result_from_the_others(server: StubServer, cluster: Cluster) -> None:
    cluster.running = {1, 2}
    async with AsyncClient(server.url, "key") as client:
        first, second = (asyncio.ensure_future(handle.result()) for handle in client.handles([1, 2]))
        await asyncio.to_thread(cluster.wait_for_question)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        cluster.end(1)
        cluster.end(2)
        assert await second == 4


async def test_a_lost_server_is_told_to_all_who_wait_after_one_try(server: StubServer, cluster: Cluster) -> None:
    server.on(*WAIT, Lost())
    async with AsyncClient(server.url, "key", retry_seconds=0) as client:
        results = await asyncio.gather(*(one.result() for one in client.handles(range(1, 101))), return_exceptions=True)
    assert {type(one) for one in results} == {Unreachable}
    assert cluster.questions == 1


async def test_gathered_coroutines_that_time_out_share_one_request(server: StubServer, cluster: Cluster) -> None:
    cluster.running = set(range(1, 101))
    async with AsyncClient(server.url, "key") as client:
        results = await asyncio.gather(
            *(one.result(timeout=0) for one in client.handles(range(1, 101))), return_exceptions=True
        )
    assert [one.task_ids for one in results if isinstance(one, WaitTimeout)] == [(one,) for one in range(1, 101)]
    assert cluster.questions == 1
