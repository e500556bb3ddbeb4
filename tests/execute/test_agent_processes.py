"""Commands, scripts and files, run by a real agent with a real keeper."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rota.model.attempt import Outcome
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, command, processes_with, run_of, shell


@pytest.fixture(params=[True, False], ids=["cgroups", "no cgroups"])
def use_cgroups(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_command_that_succeeds_is_ok_and_its_output_travels_in_the_result(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent():
        await server.start(command(1, "echo", "hello"))
        result = await server.result(1)
    assert (result.outcome, result.exit_code, result.failure) == (Outcome.OK, 0, None)
    assert [(chunk.seq, chunk.stream, chunk.data) for chunk in result.log] == [(0, 1, b"hello\n")]
    assert result.log_bytes == 6


async def test_a_non_zero_exit_is_an_error_with_its_code(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "exit 7"))
        result = await server.result(1)
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 7)
    assert result.failure is not None
    assert (result.failure.type, result.failure.message) == ("exit-code", "exited with code 7")


async def test_death_by_a_signal_names_the_signal(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "kill -SEGV $$"))
        result = await server.result(1)
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 139)
    assert result.failure is not None
    assert (result.failure.type, result.failure.message) == ("signal", "died of SIGSEGV")


@pytest.mark.parametrize("argv", [["no-such-program-anywhere"], ["/no/such/file"]])
async def test_a_program_that_does_not_exist_is_refused_by_name(
    agent: StartAgent, server: StubServer, argv: list[str]
) -> None:
    async with agent():
        await server.start(command(1, *argv))
        result = await server.result(1)
    assert result.outcome is Outcome.REFUSED
    assert result.failure is not None
    assert result.failure.type == "no-such-program"
    assert argv[0] in result.failure.message


async def test_a_file_that_is_not_executable_is_refused(agent: StartAgent, server: StubServer, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text")
    async with agent():
        await server.start(command(1, str(plain)))
        result = await server.result(1)
    assert result.outcome is Outcome.REFUSED
    assert result.failure is not None
    assert result.failure.type == "not-executable"


async def test_scripts_run_by_shebang_then_interpreter_then_sh(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(
            run_of(
                1,
                Kind.SCRIPT,
                {"script": "#!/usr/bin/env python3\nimport sys; print(sys.argv[1:])", "args": ["a b", 2]},
            ),
            run_of(2, Kind.SCRIPT, {"script": "echo cat-ed", "interpreter": ["cat"]}),
            run_of(3, Kind.SCRIPT, {"script": "echo $1 from sh; x=$(pwd); test $x = $HOME", "args": [True]}),
        )
        for task in (1, 2, 3):
            assert (await server.result(task)).outcome is Outcome.OK
    assert server.output(1) == b"['a b', '2']\n"
    assert server.output(2) == b"echo cat-ed"
    assert server.output(3) == b"true from sh\n"


async def test_a_script_larger_than_a_packet_runs(agent: StartAgent, server: StubServer) -> None:
    text = "# " + "x" * 300_000 + "\necho long"
    async with agent():
        await server.start(run_of(1, Kind.SCRIPT, {"script": text}))
        await server.result(1)
    assert server.output(1) == b"long\n"


async def test_paths_run_directly_or_by_their_interpreter(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    runnable, plain = tmp_path / "runnable", tmp_path / "plain"
    runnable.write_text("#!/bin/sh\necho direct $1")
    runnable.chmod(0o755)
    plain.write_text("print('by python')")
    async with agent():
        await server.start(
            run_of(1, Kind.SCRIPT, {"path": str(runnable), "args": ["x"]}),
            run_of(2, Kind.SCRIPT, {"path": str(plain), "interpreter": ["python3"]}),
            run_of(3, Kind.SCRIPT, {"path": str(tmp_path / "missing")}),
        )
        for task in (1, 2, 3):
            await server.result(task)
    assert server.output(1) == b"direct x\n"
    assert server.output(2) == b"by python\n"
    assert server.results_of(3)[0].outcome is Outcome.REFUSED


async def test_the_environment_is_made_and_never_inherited(
    agent: StartAgent, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "secret")
    async with agent():
        await server.start(run_of(5, Kind.COMMAND, {"command": ["env"], "env": {"MINE": "yes"}}))
        await server.result(5)
    env = dict(line.split("=", 1) for line in server.output(5).decode().splitlines())
    assert set(env) - {"TZ"} == {
        *("PATH", "HOME", "LANG", "TMPDIR", "MINE", "ROTA_TASK_ID", "ROTA_ATTEMPT", "ROTA_IDEMPOTENCY_KEY"),
        *("ROTA_NODE", "ROTA_WORKDIR", "ROTA_PROGRESS", "ROTA_RESULT", "ROTA_CHECKPOINT"),
    }
    assert (env["ROTA_TASK_ID"], env["ROTA_ATTEMPT"], env["ROTA_IDEMPOTENCY_KEY"]) == ("5", "1", "key-5")
    assert env["HOME"] == env["TMPDIR"] == env["ROTA_WORKDIR"]


async def test_a_run_past_its_cap_is_a_timeout_and_its_whole_tree_is_dead(
    agent: StartAgent, server: StubServer, use_cgroups: bool
) -> None:
    marker = f"3{time.time_ns() % 10**9:09}"
    async with agent(use_cgroups=use_cgroups):
        await server.start(
            shell(1, f"trap '' TERM; setsid sleep {marker} & sleep {marker}; sleep {marker}", cap_ms=300)
        )
        result = await server.result(1)
        assert processes_with(marker) == []
    assert result.outcome is Outcome.TIMEOUT
    assert result.failure is not None
    assert (result.failure.type, result.failure.message) == ("timeout", "ran longer than its cap of 300ms")


async def test_what_a_finished_task_left_running_is_killed_before_its_result_is_sent(
    agent: StartAgent, server: StubServer, use_cgroups: bool
) -> None:
    marker = f"4{time.time_ns() % 10**9:09}"
    double_fork = f"(setsid sh -c 'sleep {marker} & sleep {marker}' & ) & sleep {marker} & sleep 0.1; echo done"
    at_once = f"(setsid env -i sleep {marker} &) ; (setsid sleep {marker} &) ; exit 0"
    async with agent(use_cgroups=use_cgroups):
        await server.start(shell(1, double_fork))
        assert (await server.result(1)).outcome is Outcome.OK
        assert processes_with(marker) == []
        await server.start(shell(2, at_once))
        assert (await server.result(2)).outcome is Outcome.OK
        assert processes_with(marker) == []


async def test_a_work_folder_is_gone_with_its_task_whatever_was_left_in_it(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    deep = "import os\nfor i in range(1500):\n    os.mkdir('ddddd'); os.chdir('ddddd')\n"
    text = f"mkdir -p a/b; ln -s {outside} link; ln -s {outside} a/b/link; touch a/b/f; chmod 0 a/b; chmod 500 a\n"
    async with agent():
        await server.start(
            run_of(1, Kind.SCRIPT, {"script": text}),
            run_of(2, Kind.SCRIPT, {"script": deep, "interpreter": ["python3"]}),
        )
        assert (await server.result(1)).outcome is Outcome.OK
        assert (await server.result(2)).outcome is Outcome.OK
        assert os.listdir(tmp_path / "data" / "work") == []
    assert (outside / "precious").read_text() == "kept"


async def test_a_cancelled_run_gets_term_first_and_may_tidy_up(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(shell(1, "trap 'echo tidied; exit 3' TERM; echo up; while :; do sleep 0.01; done"))
        await server.until(lambda: server.chunks)
        await server.stop(1)
        result = await server.result(1)
    assert result.outcome is Outcome.CANCELLED
    assert server.output(1).startswith(b"up\n")
    assert server.output(1).endswith(b"tidied\n")


async def test_a_pipe_where_a_script_should_be_holds_up_nobody_but_its_own_task(
    agent: StartAgent, server: StubServer, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe", 0o777)
    async with agent():
        await server.start(
            run_of(1, Kind.SCRIPT, {"path": str(tmp_path / "pipe"), "interpreter": ["cat"]}),
            run_of(2, Kind.SCRIPT, {"path": str(tmp_path / "pipe")}),
        )
        await server.start(command(3, "echo", "meanwhile"))
        await server.result(3)
        await server.stop(1, 2)
        for task in (1, 2):
            assert (await server.result(task)).outcome in (Outcome.CANCELLED, Outcome.REFUSED)
    assert server.output(3) == b"meanwhile\n"
