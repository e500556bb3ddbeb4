"""Idempotency over two server nodes at once: one key, one body, one task, in any order and beside other submissions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from rota.admit.submission import Admitted
from rota.model.errors import Problem
from rota.model.request.task_request import TaskRequest
from rota.model.tenant import Caller
from tests.admit.node import Node, running_node, task

T = TypeVar("T")

keys = st.sampled_from(["a", "b", "c"])
bodies = st.sampled_from(["x", "y"])
who = st.integers(0, 1)


class Idempotency(RuleBasedStateMachine):
    """Invariant: (tenant, key) belongs to one body and one task for ever; another body is 422; nothing runs twice."""

    nodes: ClassVar[list[Node]]
    loop: ClassVar[asyncio.AbstractEventLoop]

    @initialize()
    def begin(self) -> None:
        self.callers: list[Caller] = [self.run(self.nodes[0].caller()) for _ in range(2)]
        self.known: dict[tuple[int, str], tuple[str, int]] = {}  # (tenant, key) → (body, task)
        self.plain = [0, 0]  # tasks without a key, by tenant

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 20))

    @rule(posts=st.lists(st.tuples(who, who, keys, bodies), min_size=1, max_size=8))
    def post_at_once(self, posts: list[tuple[int, int, str, str]]) -> None:
        """Several single submissions at the same time, over both nodes."""
        answers = self.run(self._post(posts))
        for (_, tenant, key, body), answer in zip(posts, answers, strict=True):
            if isinstance(answer, Problem):
                assert (answer.status, answer.slug) == (422, "idempotency-key-reused")
            else:
                first_body, first_task = self.known.setdefault((tenant, key), (body, answer.ids[0]))
                assert (body, answer.ids[0]) == (first_body, first_task)
        for (_, tenant, key, body), answer in zip(posts, answers, strict=True):
            assert isinstance(answer, Problem) == (self.known[tenant, key][0] != body)
        fresh = [post[1:3] for post, answer in zip(posts, answers, strict=True) if not getattr(answer, "replayed", [0])]
        assert len(set(fresh)) == len(fresh), "one of them at most was the first"

    async def _post(self, posts: list[tuple[int, int, str, str]]) -> list[Admitted | Problem]:
        return await asyncio.gather(  # type: ignore[return-value]
            *(
                self.nodes[node].submit_one(self.callers[tenant], task(name=body), key=key)
                for node, tenant, key, body in posts
            ),
            return_exceptions=True,
        )

    @rule(node=who, tenant=who, parts=st.lists(st.tuples(st.none() | keys, bodies), min_size=1, max_size=5))
    def post_batch(self, node: int, tenant: int, parts: list[tuple[str | None, str]]) -> None:
        """A batch whose tasks have keys of their own: all of it, or none."""
        batch: list[TaskRequest] = [task(name=body, idempotency_key=key) for key, body in parts]
        mine: dict[str, str] = {}
        clash = any(
            key is not None
            and (self.known[tenant, key][0] if (tenant, key) in self.known else mine.setdefault(key, body)) != body
            for key, body in parts
        )
        admitted = self.run(self._submit(node, tenant, batch))
        assert isinstance(admitted, Problem) == clash
        if isinstance(admitted, Problem):
            assert (admitted.status, admitted.slug) == (422, "idempotency-key-reused")
            return
        for index, (key, body) in enumerate(parts):
            number = admitted.ids[index]
            if key is None:
                self.plain[tenant] += 1
                assert index not in admitted.replayed
            else:
                new = (tenant, key) not in self.known
                assert self.known.setdefault((tenant, key), (body, number)) == (body, number)
                assert (index in admitted.replayed) == (not new)

    async def _submit(self, node: int, tenant: int, batch: list[TaskRequest]) -> Admitted | Problem:
        try:
            return await self.nodes[node].submit(self.callers[tenant], *batch)
        except Problem as problem:
            return problem

    def teardown(self) -> None:
        if hasattr(self, "known"):
            self.run(self._count())

    async def _count(self) -> None:
        async with self.nodes[0].database.engine() as connection:
            for tenant, caller in enumerate(self.callers):
                stored = await connection.fetch("select id from tasks where tenant = $1", caller.tenant_id)
                owned = {number for (owner, _), (_, number) in self.known.items() if owner == tenant}
                assert owned <= {row["id"] for row in stored}
                assert len(stored) == len(owned) + self.plain[tenant]


def test_any_history_of_keys_gives_one_task_each(shared: str, loop: asyncio.AbstractEventLoop) -> None:
    async def enter(stack: AsyncExitStack) -> list[Node]:
        return [await stack.enter_async_context(running_node(shared)) for _ in range(2)]

    stack = AsyncExitStack()
    Idempotency.loop = loop
    Idempotency.nodes = loop.run_until_complete(enter(stack))
    run_state_machine_as_test(
        Idempotency,
        settings=settings(
            max_examples=30,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    loop.run_until_complete(stack.aclose())
