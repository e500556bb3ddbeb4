"""Group commit: many requests in one commit, each answered for itself; keys claimed once and given back when refused."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from rota.model.errors import Problem
from rota.model.task import State
from rota.store.admission import was_committed
from tests.admit.node import Node, running_node, task


async def test_a_task_is_in_both_ledgers_when_its_submission_returns(node: Node) -> None:
    caller = await node.caller()
    admitted = await node.submit_one(caller, task(name="first", tags={"a": "b"}))
    async with node.database.engine() as connection:
        row = await connection.fetchrow(
            """select tasks.name, tasks.tags, tasks.user_name, tasks.tenant, queue.state, queue.version
                from tasks join queue using (id) where id = $1""",
            admitted.ids[0],
        )
    assert tuple(row) == ("first", '{"a": "b"}', "ann", caller.tenant_id, State.READY, 0)


async def test_a_lone_task_is_stored_as_it_would_be_in_a_batch(node: Node) -> None:
    caller = await node.caller()
    one = task(
        name="one",
        tags={"a": "b"},
        tolerance="5m",
        concurrency_key="k",
        env={"A": "ü"},
        attempts=2,
        retry_on=["exit=75:30s"],
    )
    alone = await node.submit_one(caller, one)
    batch = await node.submit(caller, one, one)
    async with node.database.engine() as connection:
        rows = await connection.fetch(
            """select to_jsonb(tasks) - '{id, created_at, start_by, urgent_at}'::text[] as task,
                to_jsonb(queue) - '{id, start_by, wake_at}'::text[] as queue,
                start_by - created_at as slack, urgent_at - created_at as calm, wake_at - created_at as sleep
                from tasks join queue using (id, start_by) where id = any($1)""",
            [*alone.ids, *batch.ids],
        )
        tags = await connection.fetch(
            "select task, tenant, name, value from task_tags where task = any($1) order by task",
            [*alone.ids, *batch.ids],
        )
    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]
    assert [tuple(row) for row in tags] == [(n, caller.tenant_id, "a", "b") for n in (*alone.ids, *batch.ids)]


async def test_the_key_of_a_lone_task_is_its_own(node: Node) -> None:
    caller = await node.caller()
    first = await node.submit_one(caller, task(name="one"), key="k")
    again = await node.submit_one(caller, task(name="one"), key="k")
    assert (again.ids, again.replayed) == (first.ids, [0])
    with pytest.raises(Problem, match="has another body") as refused:
        await node.submit_one(caller, task(name="two"), key="k")
    assert (refused.value.status, refused.value.slug) == (422, "idempotency-key-reused")
    async with node.database.engine() as connection:
        assert await connection.fetchval("select count(*) from tasks where tenant = $1", caller.tenant_id) == 1


async def test_requests_that_arrive_together_share_a_commit_and_get_their_own_ids(node: Node) -> None:
    caller = await node.caller()
    async with node.database.engine() as connection:
        before = await connection.fetchval("select count(*) from admission_commits")
    admitted = await asyncio.gather(*(node.submit(caller, *[task() for _ in range(n % 5 + 1)]) for n in range(100)))
    async with node.database.engine() as connection:
        commits = await connection.fetchval("select count(*) from admission_commits") - before
        stored = await connection.fetchval("select count(*) from queue where tenant = $1", caller.tenant_id)
    ids = [number for one in admitted for number in one.ids]
    assert [len(one.ids) for one in admitted] == [n % 5 + 1 for n in range(100)]
    assert len(set(ids)) == len(ids) == stored == 300
    assert commits < 50, "a hundred requests need not wait for a hundred flushes"


async def test_a_refused_request_does_not_take_its_neighbours_down(node: Node) -> None:
    caller = await node.caller()
    answers = await asyncio.gather(
        node.submit(caller, task()),
        node.submit(caller, task(after=[2**62])),
        node.submit(caller, task()),
        return_exceptions=True,
    )
    problem = answers[1]
    assert isinstance(problem, Problem)
    assert (problem.status, problem.slug) == (422, "unknown-dependency")
    async with node.database.engine() as connection:
        stored = await connection.fetch("select id from tasks where tenant = $1 order by 1", caller.tenant_id)
    assert [row["id"] for row in stored] == sorted(answers[0].ids + answers[2].ids)  # type: ignore[union-attr]


async def test_keys_of_a_refused_request_are_free_again_though_its_batch_was_committed(node: Node) -> None:
    caller = await node.caller()
    twice = [task(idempotency_key="same", name="one"), task(idempotency_key="same", name="two")]
    orphan = task(idempotency_key="orphan", after=[2**62])
    answers = await asyncio.gather(
        node.submit(caller, *[task() for _ in range(2000)]),
        node.submit(caller, *twice),
        node.submit(caller, orphan),
        node.submit(caller, task()),
        return_exceptions=True,
    )
    assert [getattr(answer, "slug", None) for answer in answers] == [
        None, "idempotency-key-reused", "unknown-dependency", None,
    ]  # fmt: skip
    again = await node.submit(caller, task(idempotency_key="same"), task(idempotency_key="orphan"))
    assert again.replayed == []


async def test_two_tasks_of_a_batch_with_one_key_and_one_body_are_one_task(node: Node) -> None:
    caller = await node.caller()
    admitted = await node.submit(caller, task(idempotency_key="k"), task(), task(idempotency_key="k"))
    assert admitted.ids[0] == admitted.ids[2] != admitted.ids[1]
    assert admitted.replayed == [2]
    async with node.database.engine() as connection:
        assert await connection.fetchval("select count(*) from tasks where tenant = $1", caller.tenant_id) == 2


async def test_a_batch_sent_again_under_its_key_gives_the_same_ids(node: Node) -> None:
    caller = await node.caller()
    batch = [task(ref="a"), task(after=["a"])]
    first = await node.submit(caller, *batch, key="nightly")
    second = await node.submit(caller, *batch, key="nightly")
    assert (second.ids, second.replayed) == (first.ids, [0, 1])
    with pytest.raises(Problem) as refused:
        await node.submit(caller, *batch, task(), key="nightly")
    assert (refused.value.status, refused.value.slug) == (422, "idempotency-key-reused")


async def test_a_key_that_another_node_is_just_using_is_waited_for(node: Node, shared: str) -> None:
    caller = await node.caller()
    async with running_node(shared) as other:
        admitted = await asyncio.gather(
            *((node if n % 2 else other).submit_one(caller, task(), key="once") for n in range(50))
        )
    assert len({one.ids[0] for one in admitted}) == 1
    assert sum(not one.replayed for one in admitted) == 1


async def test_the_same_key_of_two_tenants_is_two_keys(node: Node) -> None:
    ours, theirs = await node.caller(), await node.caller()
    first = await node.submit_one(ours, task(), key="once")
    second = await node.submit_one(theirs, task(name="other"), key="once")
    assert first.ids != second.ids


async def test_a_commit_in_doubt_is_settled_by_its_own_row(node: Node) -> None:
    committed, never = uuid4(), uuid4()
    async with node.database.engine() as connection:
        await connection.execute("insert into admission_commits (id) values ($1)", committed)
        assert await was_committed(connection, committed) is True  # type: ignore[arg-type]
        assert await was_committed(connection, never) is False  # type: ignore[arg-type]
        assert await was_committed(connection, never) is True, "declared dead: it can't commit any more"  # type: ignore[arg-type]


async def test_a_connection_lost_in_the_middle_is_replaced_and_nothing_is_stored_twice(node: Node) -> None:
    caller = await node.caller()
    await node.submit(caller, task())
    async with node.database.engine() as connection:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'rota admission'"
        )
    admitted = await node.submit(caller, task(), task())
    async with node.database.engine() as connection:
        assert await connection.fetchval("select count(*) from queue where tenant = $1", caller.tenant_id) == 3
    assert len(admitted.ids) == 2


async def test_a_dependency_that_is_done_does_not_hold_the_task_up(node: Node) -> None:
    caller = await node.caller()
    (parent,) = (await node.submit_one(caller, task())).ids
    await _end(node, parent, State.DONE)
    admitted = await node.submit_one(caller, task(after=[parent]))
    assert admitted.rows[0].state is State.READY


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED, State.SKIPPED])
async def test_a_dependency_that_ended_badly_refuses_the_task_unless_it_runs_anyway(node: Node, state: State) -> None:
    caller = await node.caller()
    (parent,) = (await node.submit_one(caller, task())).ids
    await _end(node, parent, state)
    with pytest.raises(Problem) as refused:
        await node.submit_one(caller, task(after=[parent]))
    assert (refused.value.status, refused.value.slug) == (422, "upstream-ended")
    admitted = await node.submit_one(caller, task(after=[parent], upstream="run"))
    assert admitted.rows[0].state is State.READY


async def _end(node: Node, number: int, state: State) -> None:
    async with node.database.engine() as connection, connection.transaction():
        tenant = await connection.fetchval("delete from queue where id = $1 returning tenant", number)
        await connection.execute(
            "insert into attempts (task, number, tenant, state, outcome) values ($1, 0, $2, $3, 11)",
            number, tenant, state,
        )  # fmt: skip
