"""Random graphs in the database, ended in random ways and order, against what their edges say; and retries at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.admit.graph_runs import Again, GraphRuns
from rota.admit.ids import IdBlocks
from rota.model.accounts.permissions import Role
from rota.model.attempt import Outcome
from rota.model.errors import Problem
from rota.model.task import State, Upstream
from rota.model.tenant import MEMBER_SCOPES, Caller
from rota.settle.settlement import Settled, release, settle
from rota.store import queue
from rota.store.cancel_and_rerun import cancel_tasks
from rota.store.database import AnyConnection
from rota.store.expiry import expire_tasks
from rota.store.graphs import GraphRow, insert_graph
from rota.store.queue import Fence
from rota.store.tenants import read_plans
from tests.store.rows import Rows

SETTINGS = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
POOLS = (1, 2)
ENDS = (State.DONE, State.DONE, State.FAILED, State.CANCELLED, State.EXPIRED)


@dataclass(frozen=True)
class Node:
    """What it comes after by index, what it wants of each, where it runs, and how it ends if it may."""

    after: tuple[tuple[int, Upstream], ...]
    pool: int
    end: State


@st.composite
def dags(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for index in range(draw(st.integers(2, 7))):
        parents = draw(st.lists(st.sampled_from(range(index)), max_size=3, unique=True)) if index else []
        after = tuple((parent, draw(st.sampled_from(list(Upstream)))) for parent in parents)
        nodes.append(Node(after, draw(st.sampled_from(POOLS)), draw(st.sampled_from(ENDS))))
    return nodes


def expected(nodes: list[Node]) -> list[State]:
    """The oracle: a node ends as it would if every parent ended as it wants, and is skipped if not."""
    ends: list[State] = []
    for node in nodes:
        free = all(rule.met_by(ends[parent]) for parent, rule in node.after)
        ends.append(node.end if free else State.SKIPPED)
    return ends


async def planted(rows: Rows, nodes: list[Node]) -> list[int]:
    """The graph as rows, each edge with its own rule."""
    tasks: list[int] = []
    for node in nodes:
        parents = tuple(tasks[parent] for parent, _ in node.after)
        expires = node.end is State.EXPIRED
        number = await rows.task(after=parents, pool=node.pool, tolerance=60, expires=expires)
        for parent, rule in node.after:
            await rows.connection.execute(
                "update edges set upstream = $3 where parent = $1 and child = $2", tasks[parent], number, rule
            )
        await rows.connection.execute(
            "update tasks set after_rules = $2 where id = $1", number, [int(rule) for _, rule in node.after] or None
        )
        tasks.append(number)
    return tasks


class World:
    """Both pools' leaders, and how often each task was let go. Other examples have left tasks in the pools, too."""

    def __init__(self, rows: Rows, fences: dict[int, Fence], tasks: list[int]) -> None:
        self._rows = rows
        self._fences = fences
        self._tasks = frozenset(tasks)
        self.freed: Counter[int] = Counter()

    async def end(self, task: int, node: Node) -> None:
        connection, fence = self._rows.connection, self._fences[node.pool]
        if node.end is State.CANCELLED:
            await cancel_tasks(connection, [task], self._rows.tenant, "not wanted")
        elif node.end is State.EXPIRED:
            await connection.execute("update queue set start_by = now() - interval '1 s' where id = $1", task)
            await expire_tasks(connection)
        else:
            await self._rows.start(fence, task)
            outcome = Outcome.OK if node.end is State.DONE else Outcome.ERROR
            self._count(await settle(connection, fence, [self._rows.ended(task, outcome)]))

    async def look(self) -> None:
        """The leaders' slow polls, until nothing more comes of them."""
        moved = True
        while moved:
            moved = False
            for pool, fence in self._fences.items():
                children = await queue.dependents_to_release(self._rows.connection, pool, after=0, limit=100)
                settled = await release(self._rows.connection, fence, children) if children else Settled()
                self._count(settled)
                moved = moved or bool(settled.ended or settled.ready or settled.timed or settled.more_dependents)

    def _count(self, settled: Settled) -> None:
        self.freed.update(task.id for task in (*settled.ready, *settled.timed) if task.id in self._tasks)


async def live(rows: Rows, tasks: list[int]) -> list[int]:
    found = await rows.connection.fetch("select id from queue where id = any($1) and state <> 1 order by id", tasks)
    return [row["id"] for row in found]


async def run_dry(rows: Rows, world: World, nodes: list[Node], tasks: list[int], data: st.DataObject) -> None:
    """Everything that may end does, one after the other, in any order."""
    while waiting := await live(rows, tasks):
        task = data.draw(st.sampled_from(waiting))
        await world.end(task, nodes[tasks.index(task)])
        if data.draw(st.booleans()):
            await world.look()
        if not await live(rows, tasks):
            await world.look()


@given(dags(), st.data())
@SETTINGS
def test_every_task_of_a_graph_is_let_go_once_exactly_when_its_edges_hold(
    shared: str, loop: asyncio.AbstractEventLoop, nodes: list[Node], data: st.DataObject
) -> None:
    # Invariant: a task runs ⇔ each parent ended as its edge wants; it is let go once; nothing is left behind.
    async def scenario() -> None:
        rows = await Rows.open(shared)
        try:
            tasks = await planted(rows, nodes)
            world = World(rows, {pool: await rows.lead(pool) for pool in POOLS}, tasks)
            await run_dry(rows, world, nodes, tasks, data)
            right = expected(nodes)
            assert [await rows.state(task) for task in tasks] == right
            freed = [
                task for task, node, end in zip(tasks, nodes, right, strict=True) if node.after and end is node.end
            ]
            assert world.freed == Counter(freed)
            assert not await rows.connection.fetch("select from edges where child = any($1)", tasks)
        finally:
            await rows.close()

    loop.run_until_complete(scenario())


@given(dags(), st.data())
@settings(SETTINGS, max_examples=10)
def test_two_retries_of_a_graph_at_once_make_one_linked_run_of_each(
    shared: str, loop: asyncio.AbstractEventLoop, nodes: list[Node], data: st.DataObject
) -> None:
    # Invariant: however many ask, a task that ended badly has at most one new run, in the graph, under its name.
    async def scenario() -> None:
        rows = await Rows.open(shared)
        ids = IdBlocks(rows.database)
        try:
            tasks = await planted(rows, nodes)
            [graph] = await ids.take(1)
            members = tuple((task, f"n{place}", place, None) for place, task in enumerate(tasks))
            async with rows.connection.transaction():
                row = GraphRow(id=graph, tenant=rows.tenant, user="u", name="g", members=members)
                assert await insert_graph(rows.connection, row, None)
            world = World(rows, {pool: await rows.lead(pool) for pool in POOLS}, tasks)
            await run_dry(rows, world, nodes, tasks, data)
            runs = GraphRuns(rows.database, ids, server=lambda: 0, announce=lambda pool, task: None)
            plan = next(plan for plan in await read_plans(rows.connection) if plan.name == "unlimited")
            caller = Caller(
                token_id=1,
                tenant_id=rows.tenant,
                tenant="t",
                user="u",
                role=Role.MEMBER,
                scopes=MEMBER_SCOPES,
                plan=plan,
                trusted=True,
            )
            noted: list[int] = []

            async def note(_: AnyConnection, __: int, again: list[int]) -> None:
                noted.extend(again)

            answers = await asyncio.gather(
                *(runs.again(caller, graph, retry=True, note=note) for _ in range(3)), return_exceptions=True
            )
            won = [one for one in answers if isinstance(one, Again)]
            bad = [task for task, end in zip(tasks, expected(nodes), strict=True) if end > State.DONE]
            assert len(won) <= 1 if bad else not won
            for refusal in answers:
                if not isinstance(refusal, Again):
                    assert isinstance(refusal, Problem), refusal
                    assert refusal.slug in ("already-retried", "nothing-to-retry")
            linked = await rows.connection.fetch(
                """select reruns.task, reruns.rerun, tasks.retry_of, graph_tasks.graph, graph_tasks.name
                    from reruns join tasks on tasks.id = reruns.rerun join graph_tasks on graph_tasks.task = reruns.rerun
                    where reruns.task = any($1) order by reruns.task""",
                tasks,
            )
            copied = won[0].tasks if won else {}
            assert {row["name"]: row["rerun"] for row in linked} == copied
            assert all(row["retry_of"] == row["task"] and row["graph"] == graph for row in linked)
            assert {row["task"] for row in linked} <= set(bad)
            assert sorted(noted) == [row["task"] for row in linked], "each is told to the audit log once"
            again = await rows.connection.fetchval("select count(*) from tasks where retry_of = any($1)", tasks)
            assert again == len(linked), "nobody else's run was left behind"
            if won and (failed := [t for t, n in zip(tasks, nodes, strict=True) if t in bad and not n.after]):
                assert set(failed) <= {row["task"] for row in linked}, "what waited for nobody runs again"
        finally:
            await ids.close()
            await rows.close()

    loop.run_until_complete(scenario())
