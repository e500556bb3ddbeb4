"""Async functions that share a child: concurrent, each with its own result, output, context and end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rota import wire
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import CAPACITY, StartAgent, StubServer, run_of

WriteModule = Callable[[str], str]
# The whole node: one grant at a time, so concurrent calls share it.
GRANT = Resources(cpu_milli=CAPACITY.cpu_milli, memory_bytes=400 * 1024 * 1024)

SOURCE = """
    import asyncio, os, sys, time
    from rota.execute.child.context import current

    life = os.urandom(8).hex()
    here, met = 0, asyncio.Event()

    async def meet(count):
        global here
        me = current().task_id
        print("came", me)
        here += 1
        if here >= count: met.set()
        await met.wait()
        print("met", current().task_id, file=sys.stderr)
        return [life, me, current().task_id]
    async def one(): return life
    async def wait(): await asyncio.sleep(60)
    async def stubborn():
        while True:
            try: await asyncio.sleep(60)
            except asyncio.CancelledError: pass
    async def boom(): raise KeyError("gone")
    async def get(name): return os.environ.get(name)
    async def vanish(): os._exit(3)
    async def eat(): kept = bytearray(600 << 20)
    async def vanish_with(count):
        await meet(count)
        os._exit(3)
    async def eat_with(count):
        await meet(count)
        await eat()
    async def block_with(count):
        await meet(count)
        time.sleep(60)
    async def idle_with(count):
        await meet(count)
        await asyncio.sleep(0.5)
        return "well"
    async def wait_with(count):
        await meet(count)
        await wait()
    async def doze_with(count):
        await meet(count)
        time.sleep(1.5)
        return "well"
    async def stubborn_with(count):
        await meet(count)
        await stubborn()
"""


@pytest.fixture(params=["none", "sandbox"])
def call(request: pytest.FixtureRequest, tasks_module: WriteModule, tmp_path: Path) -> Callable[..., wire.Run]:
    module = tasks_module(SOURCE)
    tmp_path.chmod(0o755)  # a sandboxed function has a user number of its own

    def make(task: int, name: str, *args: object, cap_ms: int = 60_000, **more: object) -> wire.Run:
        spec: dict[str, object] = {"function": f"{module}:{name}", "args": list(args), "isolation": request.param}
        # One name for all: the first run shows that they are async.
        run = run_of(task, Kind.FUNCTION, {**spec, **more}, name="choir", cap_ms=cap_ms)
        return msgspec.structs.replace(run, tenant=7)

    return make


async def test_async_functions_share_a_child_and_nothing_else(
    agent: StartAgent, server: StubServer, call: Callable[..., wire.Run]
) -> None:
    async with agent():
        await server.start(call(1, "one"), grant=GRANT)
        await server.result(1)
        # None of these could end if they did not run at the same time.
        await server.start(
            *(call(task, "meet", 20) for task in range(10, 30)),
            call(30, "boom"),
            call(31, "wait", cap_ms=300),
            call(32, "get", "WORD", env={"WORD": "alone"}),
            grant=GRANT,
        )
        await server.until(lambda: len(server.results) == 24)
    lives = set()
    for task in range(10, 30):
        result = server.results_of(task)[0]
        assert result.outcome is Outcome.OK, result.failure
        life, *tasks = json.loads(result.result or b"")
        lives.add(life)
        assert tasks == [task, task]
        assert sorted(server.output(task).split(b"\n")) == [b"", f"came {task}".encode(), f"met {task}".encode()]
    assert len(lives) == 1
    raised, late, alone = (server.results_of(task)[0] for task in (30, 31, 32))
    assert raised.failure is not None
    assert (raised.outcome, raised.failure.type) == (Outcome.ERROR, "KeyError")
    assert late.failure is not None
    assert (late.outcome, late.failure.message) == (Outcome.TIMEOUT, "ran longer than its cap of 300ms")
    assert (alone.outcome, alone.result) == (Outcome.OK, b'"alone"')


async def test_one_that_can_not_be_cancelled_or_dies_ends_its_child_and_the_node_goes_on(
    agent: StartAgent, server: StubServer, call: Callable[..., wire.Run]
) -> None:
    async with agent():
        await server.start(call(1, "one"), grant=GRANT)
        await server.result(1)
        await server.start(call(2, "stubborn", cap_ms=200), grant=GRANT)
        assert (await server.result(2)).outcome is Outcome.TIMEOUT
        await server.start(call(3, "vanish"), grant=GRANT)
        died = await server.result(3)
        await server.start(call(4, "wait"), grant=GRANT)
        await server.stop(4)
        assert (await server.result(4)).outcome is Outcome.CANCELLED
        await server.start(call(5, "one"), grant=GRANT)
        assert (await server.result(5)).outcome is Outcome.OK
    assert died.failure is not None
    assert (died.outcome, "exited with code 3" in died.failure.message) == (Outcome.CRASHED, True)


def again(run: wire.Run) -> wire.Run:
    """The attempt that follows one which used up no attempt."""
    return msgspec.structs.replace(run, attempt=run.attempt + 1)


@pytest.mark.parametrize(
    ("culprit", "cap_ms", "outcome", "kind"),
    [
        ("vanish", 60_000, Outcome.CRASHED, "crashed"),
        ("eat", 60_000, Outcome.ERROR, "oom"),
        ("block", 700, Outcome.TIMEOUT, "timeout"),
        ("stubborn", 700, Outcome.TIMEOUT, "timeout"),
    ],
)
async def test_when_calls_that_share_a_child_end_together_none_is_blamed_until_it_has_failed_alone(
    agent: StartAgent,
    server: StubServer,
    call: Callable[..., wire.Run],
    culprit: str,
    cap_ms: int,
    outcome: Outcome,
    kind: str,
) -> None:
    async with agent():
        await server.start(call(1, "one"), grant=GRANT)
        await server.result(1)
        bad = call(2, f"{culprit}_with", 3, cap_ms=cap_ms)
        good = [call(task, "wait_with", 3) for task in (3, 4)]
        await server.start(bad, *good, grant=GRANT)
        ended = [await server.result(task) for task in (2, 3, 4)]
        assert [(one.outcome, one.failure and one.failure.type) for one in ended] == [
            (Outcome.DISRUPTED, "neighbour")
        ] * 3
        # Alone they would wait for ever for the others: those of the second attempt meet each other.
        await server.start(again(call(2, f"{culprit}_with", 1, cap_ms=cap_ms)), grant=GRANT)
        await server.start(*(again(call(task, "idle_with", 1)) for task in (3, 4)), grant=GRANT)
        alone, *well = [await server.result(task, 2) for task in (2, 3, 4)]
    assert alone.failure is not None
    assert (alone.outcome, alone.failure.type) == (outcome, kind)
    assert [one.result for one in well] == [b'"well"'] * 2


async def test_a_cap_does_not_count_the_time_in_which_another_call_kept_the_loop(
    agent: StartAgent, server: StubServer, call: Callable[..., wire.Run]
) -> None:
    async with agent(kill_grace_seconds=30.0):
        await server.start(call(1, "one"), grant=GRANT)
        await server.result(1)
        await server.start(call(2, "doze_with", 2), call(3, "idle_with", 2, cap_ms=1000), grant=GRANT)
        ended = [await server.result(task) for task in (2, 3)]
        await server.start(again(call(3, "idle_with", 1, cap_ms=1000)), grant=GRANT)
        alone = await server.result(3, 2)
    assert [one.outcome for one in ended] == [Outcome.OK, Outcome.DISRUPTED]
    assert ended[1].failure is not None
    assert "blocked each other" in ended[1].failure.message
    assert (alone.outcome, alone.result) == (Outcome.OK, b'"well"')
