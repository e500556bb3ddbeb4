"""What a function reads and reports while it runs, through a real agent and a real warm child."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from rota.model.attempt import Input, Outcome
from tests.execute.stub_server import StartAgent, StubServer, function

WriteModule = Callable[[str], str]

SOURCE = """
    from datetime import timedelta
    from rota import current

    def again(seconds):
        try:
            current().retry(in_=seconds, reason="the till is closed")
        except Exception:
            return "caught"
    def minutes(): current().retry(in_=timedelta(minutes=2))
    def never(): current().retry(in_=-1)
    def read():
        found = current().results
        return [found["prepare"], found[7], sorted(map(str, found))]
    def missing(key): return current().results[key]
    def far(fraction): current().progress(fraction)
"""


async def test_a_function_that_asks_to_be_tried_again_has_not_failed(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent(imports=(module,)):
        await server.start(
            function(1, f"{module}:again", 60), function(2, f"{module}:minutes"), function(3, f"{module}:never")
        )
        again, minutes, never = [await server.result(task) for task in (1, 2, 3)]
    assert (again.outcome, again.retry_in_ms) == (Outcome.RETRY, 60_000)
    assert again.failure is not None
    assert again.failure.message == "asked to be tried again in 60s: the till is closed"
    assert again.failure.traceback == ""
    assert minutes.retry_in_ms == 120_000
    assert never.outcome is Outcome.ERROR
    assert never.failure is not None
    assert "in_ is 0 to" in never.failure.message


async def test_a_function_reads_what_the_tasks_before_it_returned(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    inputs = (Input(7, "prepare", b'{"rows":3}'), Input(8, "big", None))
    async with agent(imports=(module,)):
        runs = [
            function(1, f"{module}:read"),
            function(2, f"{module}:missing", "big"),
            function(3, f"{module}:missing", 9),
        ]
        await server.start(*(msgspec.structs.replace(run, inputs=inputs) for run in runs))
        read, large, unknown = [await server.result(task) for task in (1, 2, 3)]
    assert json.loads(read.result or b"") == [{"rows": 3}, {"rows": 3}, ["7", "8", "big", "prepare"]]
    assert large.failure is not None
    assert "too large to be passed on" in large.failure.message
    assert unknown.failure is not None
    assert "no task 9 among those" in unknown.failure.message


async def test_progress_outside_nought_to_one_is_the_functions_error(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent(imports=(module,)):
        await server.start(function(1, f"{module}:far", 40), function(2, f"{module}:far", 1.0000001))
        wrong, right = await server.result(1), await server.result(2)
    assert wrong.failure is not None
    assert wrong.failure.message == "progress is a number from 0 to 1, not 40; 40 % is 0.4"
    assert right.outcome is Outcome.OK
