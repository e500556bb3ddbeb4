"""Secrets on a node: into the environment of the task that named them, out of its output, gone after it."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from rota.execute.attempts.attempt import Attempt
from rota.execute.progress import _masked
from rota.model.attempt import Outcome
from rota.model.progress import Progress, cleaned
from rota.model.resources import Resources
from rota.model.secret import MOST_A_TASK, MOST_VALUE_BYTES, Secret
from rota.model.task import Kind
from rota.wire import Failure, Run
from tests.execute.stub_server import StartAgent, StubServer, function, run_of, shell

VALUE = "s3cret-" + "v" * 40
CAPACITY_ONE = Resources(cpu_milli=100, memory_bytes=2**30)
SECRETS = (Secret("TOKEN", VALUE), Secret("SHORT", "abc"))

SOURCE = """
    import os
    from rota.execute.child.context import current

    def have(name): return [os.getpid(), os.environ.get(name), dict(current().secrets)]
    def length(name): return [os.getpid(), len(os.environ[name]), len(current().secrets[name])]
    def raises(): raise RuntimeError(os.environ["TOKEN"])
    def raises_a_name(): raise type(os.environ["TOKEN"], (Exception,), {})("see my name")
    def not_json(): return {"k": {os.environ["TOKEN"]: object()}}
"""


def _with(run: Run, *secrets: Secret) -> Run:
    return msgspec.structs.replace(run, secrets=secrets or SECRETS)


async def test_a_process_has_its_secrets_and_its_output_is_masked_while_it_runs(
    agent: StartAgent, server: StubServer
) -> None:
    text = 'printf "%s" "${TOKEN#???}"; echo; echo "<$TOKEN>$SHORT ${#TOKEN}"; sleep 100'
    async with agent():
        await server.start(_with(shell(1, text)))
        await server.until(lambda: server.chunks)  # live: it still runs
        assert b"".join(chunk.data for chunk in server.chunks) == f"{VALUE[3:]}\n<***>abc {len(VALUE)}\n".encode()
        await server.stop(1)
        assert (await server.result(1)).outcome is Outcome.CANCELLED


async def test_much_output_full_of_the_value_is_masked_across_every_boundary(
    agent: StartAgent, server: StubServer
) -> None:
    server.log_limit_bytes = 4 * 1024 * 1024
    text = 'i=0; while [ $i -lt 12 ]; do TEXT="$TEXT$TEXT$TOKEN,"; i=$((i+1)); done; printf "%s" "$TEXT"'
    async with agent():
        await server.start(_with(shell(1, text)))
        result = await server.result(1)
    masked = b""
    for _ in range(12):
        masked += masked + b"***,"
    assert server.output(1) == masked
    assert (result.log_bytes, result.log_dropped_bytes) == (len(masked), 0)


async def test_the_end_of_output_that_only_began_like_a_value_is_kept(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(_with(shell(1, f"printf 'it is {VALUE[:20]}'; printf '{VALUE[:9]}' >&2")))
        await server.result(1)
    assert server.output(1) == f"it is {VALUE[:20]}{VALUE[:9]}".encode()


async def test_a_function_has_its_secrets_for_one_call_and_its_process_forgets_them(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(SOURCE)
    async with agent(imports=(module,), capacity=CAPACITY_ONE):
        await server.start(_with(function(1, f"{module}:length", "TOKEN")))
        first = json.loads((await server.result(1)).result or b"")
        await server.start(function(2, f"{module}:have", "TOKEN"))
        second = json.loads((await server.result(2)).result or b"")
        await server.start(_with(function(3, f"{module}:have", "TOKEN"), SECRETS[0]))
        third = json.loads((await server.result(3)).result or b"")
    assert first[1:] == [len(VALUE)] * 2
    assert second == [first[0], None, {}]
    assert third == [first[0], "***", {"TOKEN": "***"}]


async def test_failures_of_functions_are_masked(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        names = ("raises", "not_json", "raises_a_name")
        await server.start(*(_with(function(n, f"{module}:{name}")) for n, name in enumerate(names, start=1)))
        raised, refused, named = await server.result(1), await server.result(2), await server.result(3)
    assert raised.failure is not None
    assert refused.failure is not None
    assert (raised.failure.message, refused.outcome) == ("***", Outcome.BAD_RESULT)
    assert named.failure is not None
    assert (named.failure.type, named.failure.message) == (f"{module}.***", "see my name")
    assert VALUE not in f"{raised} {refused} {named}"


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        ('mkfifo "$TOKEN"', "***: has a secret in its name"),
        ('touch "f-$TOKEN"', "f-***: has a secret in its name"),
        ('mkdir "$TOKEN"; touch "$TOKEN/a"', "***/a: has a secret in its name"),
        (f'touch "{"p" * 190}$TOKEN"', f"{'p' * 190}***: has a secret in its name"),  # where names are cut
    ],
    ids=["pipe", "name", "folder", "cut"],
)
async def test_names_of_outputs_that_hold_a_value_are_refused_and_masked(
    agent: StartAgent, server: StubServer, leave: str, message: str
) -> None:
    run = run_of(1, Kind.COMMAND, {"command": ["/bin/sh", "-c", leave], "outputs": ["**"]})
    async with agent():
        await server.start(_with(run))
        result = await server.result(1)
    assert (result.outcome, result.failure) == (Outcome.ERROR, Failure("bad-output", message))


def test_progress_is_masked_also_where_a_value_was_cut_off_with_the_rest() -> None:
    attempt = Attempt(_with(shell(1, ":")), b"", Resources())
    for words, masked in ((f"at {VALUE}", "at ***"), ("p" * 180 + VALUE, "p" * 180 + "***")):
        assert _masked(attempt, cleaned(Progress(0.5, words))) == Progress(0.5, masked)


async def test_a_value_in_what_can_not_be_started_is_masked(agent: StartAgent, server: StubServer) -> None:
    run = run_of(1, Kind.COMMAND, {"command": [f"/no/such/{VALUE}"]})
    async with agent():
        await server.start(_with(run))
        result = await server.result(1)
    assert result.failure == Failure("no-such-program", "there is no program /no/such/*** on this node")


async def test_as_many_secrets_as_may_be_of_the_largest_size_are_given(agent: StartAgent, server: StubServer) -> None:
    largest = [Secret(f"S{number}", f"{number:02}" + "x" * (MOST_VALUE_BYTES - 2)) for number in range(MOST_A_TASK)]
    async with agent():
        await server.start(_with(shell(1, 'echo ${#S0} ${#S15}; echo "$S7"'), *largest))
        result = await server.result(1)
    assert (result.outcome, server.output(1)) == (Outcome.OK, b"65536 65536\n***\n")


async def test_what_rota_and_the_task_set_is_not_overridden(agent: StartAgent, server: StubServer) -> None:
    run = run_of(1, Kind.COMMAND, {"command": ["/bin/sh", "-c", "echo $ROTA_TASK_ID $MINE"], "env": {"MINE": "own"}})
    async with agent():
        await server.start(_with(run, Secret("ROTA_TASK_ID", "forged-number"), Secret("MINE", "of the secret")))
        await server.result(1)
    assert server.output(1) == b"1 own\n"


async def test_an_agent_says_that_it_can_keep_secrets(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.until(lambda: server.hellos)
    assert "secrets" in server.hellos[0].capabilities
