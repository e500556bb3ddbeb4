"""Functions in warm children, run by a real agent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rota import wire
from rota.execute.agent import AgentError
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import CAPACITY, StartAgent, StubServer, function, processes_with, run_of

WriteModule = Callable[[str], str]

SOURCE = """
    import asyncio, os, signal, subprocess, sys, time
    from rota.execute.child.context import current

    def add(a, b=0): return a + b
    def process(): return os.getpid()
    def nap(seconds): time.sleep(seconds); return "slept"
    async def later(x):
        await asyncio.sleep(0.001)
        return x
    def boom(): raise KeyError("gone")
    def leave(): sys.exit(4)
    def vanish(code): os._exit(code)
    def segfault(): os.kill(os.getpid(), signal.SIGSEGV)
    def say(word):
        print(word); print(word, file=sys.stderr); os.write(1, b"raw " + word.encode() + b"\\n")
        return word
    def flood(count):
        for _ in range(count): os.write(1, b"x" * 65536)
    def bad(): return {"when": object()}
    def nan(): return [float("nan")]
    def large(): return "x" * 2_000_000
    def echo(value): return value
    def who(): c = current(); return [c.task_id, c.attempt, c.idempotency_key]
    def deaf(seconds): signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(seconds)
    def leave_files(marker):
        subprocess.Popen(["sleep", marker])
        subprocess.Popen(["setsid", "sh", "-c", f"sleep {marker} & sleep {marker}"])
        time.sleep(0.05)
    def get(name): return os.environ.get(name)
    class Group:
        @staticmethod
        def inner(): return "inner"
    class decorated:
        @staticmethod
        def __rota_function__(): return "unwrapped"
"""


async def test_functions_return_json_and_run_in_one_warm_process_each(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent(imports=(module,)):
        await server.start(
            function(1, f"{module}:add", 2, b=3),
            function(2, f"{module}:later", {"deep": [1, None]}),
            function(3, f"{module}:Group.inner"),
            function(4, f"{module}:decorated"),
            function(5, f"{module}:who"),
        )
        values = [json.loads((await server.result(task)).result or b"") for task in range(1, 6)]
        await server.start(function(6, f"{module}:process"))
        first = await server.result(6)
        await server.start(function(7, f"{module}:process"))
        second = await server.result(7)
    assert values == [5, {"deep": [1, None]}, "inner", "unwrapped", [5, 1, "key-5"]]
    assert first.result == second.result != str(os.getpid()).encode()


async def test_what_a_function_raises_is_an_error_with_the_functions_own_traceback(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        await server.start(function(1, f"{module}:boom"), function(2, f"{module}:leave"))
        raised, left = await server.result(1), await server.result(2)
        await server.start(function(3, f"{module}:add", 1))
        assert (await server.result(3)).outcome is Outcome.OK
    assert raised.outcome is left.outcome is Outcome.ERROR
    assert raised.failure is not None
    assert (raised.failure.type, raised.failure.message) == ("KeyError", "'gone'")
    assert "in boom" in raised.failure.traceback
    assert "child.py" not in raised.failure.traceback
    assert left.failure is not None
    assert left.failure.type == "SystemExit"


@pytest.mark.parametrize(
    ("name", "outcome", "slug", "words"),
    [
        ("nothing", Outcome.REFUSED, "unknown-function", "has no nothing"),
        ("bad", Outcome.BAD_RESULT, "bad-result", "object"),
        ("nan", Outcome.BAD_RESULT, "bad-result", "nan"),
        ("large", Outcome.BAD_RESULT, "result-too-large", "limit"),
        ("segfault", Outcome.CRASHED, "crashed", "died of SIGSEGV"),
    ],
)
async def test_a_function_that_misbehaves_is_reported_for_what_it_did(
    agent: StartAgent,
    server: StubServer,
    tasks_module: WriteModule,
    name: str,
    outcome: Outcome,
    slug: str,
    words: str,
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        await server.start(function(1, f"{module}:{name}"))
        result = await server.result(1)
    assert result.outcome is outcome
    assert result.failure is not None
    assert result.failure.type == slug
    assert words in result.failure.message


async def test_an_unknown_module_is_refused(agent: StartAgent, server: StubServer) -> None:
    async with agent():
        await server.start(function(1, "no_such_module:f"))
        result = await server.result(1)
    assert result.outcome is Outcome.REFUSED
    assert result.failure is not None
    assert result.failure.type == "unknown-function"


async def test_a_child_that_dies_takes_only_the_call_it_was_in(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    capacity = CAPACITY
    async with agent(capacity=capacity):
        warm = [function(task, f"{module}:add", task) for task in range(1, 40)]
        await server.start(*warm, grant=capacity)
        await server.until(lambda: len(server.results) == 39)
        await server.start(
            function(100, f"{module}:add", 1),
            function(101, f"{module}:vanish", 3),
            *(function(task, f"{module}:add", task) for task in range(102, 140)),
            grant=capacity,
        )
        await server.until(lambda: len(server.results) == 79)
    assert [result.task for result in server.results if result.outcome is not Outcome.OK] == [101]
    crash = server.results_of(101)[0]
    assert crash.outcome is Outcome.CRASHED
    assert crash.failure is not None
    assert "exited with code 3" in crash.failure.message


async def test_output_belongs_to_the_call_that_wrote_it_also_when_calls_are_put_ahead(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent(imports=(module,)):
        runs = []
        for task in range(1, 301):
            runs.append(
                function(task, f"{module}:say", f"word{task}") if task % 3 else function(task, f"{module}:add", 1)
            )
        await server.start(*runs, grant=CAPACITY)
        await server.until(lambda: len(server.results) == 300)
    for task in range(1, 301):
        word = f"word{task}".encode()
        expected = [word, word, b"raw " + word] if task % 3 else []
        assert sorted(server.output(task).split(b"\n")) == sorted([*expected, b""] if expected else [b""])


async def test_each_line_a_function_prints_is_sent_while_it_runs_and_stays_when_it_is_ended(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE + "    def tell(): print('epoch 1'); print('epoch 2'); time.sleep(60)\n")
    async with agent():
        await server.start(function(1, f"{module}:tell"))
        await server.until(lambda: server.output(1) == b"epoch 1\nepoch 2\n")
        await server.stop(1)
        assert (await server.result(1)).log_bytes == 16


async def test_a_function_that_prints_without_end_is_drained_and_harms_nobody(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        await server.start(function(1, f"{module}:flood", 3200), function(2, f"{module}:say", "hi"))
        flood = await server.result(1)
        await server.result(2)
    assert flood.outcome is Outcome.OK
    assert 0.9 * server.log_limit_bytes < flood.log_bytes <= server.log_limit_bytes
    assert flood.log_bytes + flood.log_dropped_bytes == 3200 * 65536
    assert server.output(1) == b"x" * flood.log_bytes


async def test_a_cap_ends_a_function_even_one_that_ignores_term(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        await server.start(function(1, f"{module}:nap", 60, cap_ms=200), function(2, f"{module}:deaf", 60, cap_ms=200))
        first, second = await server.result(1), await server.result(2)
        await server.start(function(3, f"{module}:add", 1))
        assert (await server.result(3)).outcome is Outcome.OK
    assert first.outcome is second.outcome is Outcome.TIMEOUT
    assert first.failure is not None
    assert first.failure.message == "ran longer than its cap of 200ms"


async def test_calls_put_ahead_of_a_stuck_one_are_taken_back_and_run_elsewhere(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    grant = CAPACITY.minus(CAPACITY)
    async with agent(imports=(module,)):
        await server.start(*(function(task, f"{module}:nap", 0) for task in range(1, 101)), grant=CAPACITY)
        await server.until(lambda: len(server.results) == 100)
        # `nap` is known to be short, so these are sent ahead into one child; the first turns out to be long.
        stuck = function(200, f"{module}:nap", 60)
        await server.start(stuck, *(function(task, f"{module}:nap", 0) for task in range(201, 250)), grant=CAPACITY)
        await server.start(function(300, f"{module}:add", 1), grant=grant)
        await server.result(300)
        await server.stop(200)
        await server.until(lambda: len(server.results) == 151)
    assert server.results_of(200)[0].outcome is Outcome.CANCELLED
    assert {r.outcome for r in server.results if r.task != 200} == {Outcome.OK}


async def test_processes_a_function_left_behind_are_gone_when_its_result_arrives(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    marker = f"51{os.getpid():07}"
    async with agent():
        await server.start(function(1, f"{module}:leave_files", marker))
        assert (await server.result(1)).outcome is Outcome.OK
        assert processes_with(marker) == []


async def test_large_arguments_and_results_travel_whole(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    value = ["é" * 50_000, list(range(20_000))]
    async with agent():
        await server.start(function(1, f"{module}:echo", value))
        result = await server.result(1)
    assert json.loads(result.result or b"") == value


async def test_a_module_that_can_not_be_preloaded_is_a_start_up_error(
    agent: StartAgent, tasks_module: WriteModule
) -> None:
    module = tasks_module("raise RuntimeError('not today')")
    with pytest.raises(AgentError, match="not today"):
        async with agent(imports=(module,)):
            pass


async def test_a_function_that_must_be_sandboxed_is_not_called_without_a_sandbox(
    agent: StartAgent, server: StubServer, tmp_path: Path, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module("import pathlib\npathlib.Path(__file__).with_name('loaded').touch()\ndef touch(): ...\n")
    async with agent(use_sandbox=False):
        spec: dict[str, object] = {"function": f"{module}:touch", "isolation": "sandbox"}
        await server.start(run_of(1, Kind.FUNCTION, spec))
        result = await server.result(1)
    assert result.failure is not None
    assert result.outcome is Outcome.REFUSED
    assert "this node has no sandbox: it was switched off" in result.failure.message
    assert not (tmp_path / "loaded").exists()


async def test_trusted_tenants_share_no_process_and_the_first_has_the_one_that_was_started_ahead(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, tmp_path: Path
) -> None:
    module = tasks_module("import os\ndef work(): return os.environ['HOME']\n")
    async with agent(imports=(module,)):
        runs = [function(task, f"{module}:work") for task in range(1, 5)]
        folders = []
        for run, tenant in zip(runs, (7, 8, 7, 8), strict=True):
            await server.start(msgspec.structs.replace(run, tenant=tenant))
            folders.append(json.loads((await server.result(run.task)).result or b""))
        living = os.listdir(tmp_path / "data" / "work")
    assert folders[:2] == folders[2:]
    assert sorted(os.path.basename(folder) for folder in set(folders)) == sorted(living)
    assert len(living) == 2


@pytest.mark.parametrize(
    ("name", "stays"), [("left", False), ("few", True), ("joined", True), ("helped", True), ("of_module", True)]
)
async def test_a_process_in_which_calls_leave_threads_is_replaced_and_one_with_a_few_helpers_is_not(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, name: str, stays: bool
) -> None:
    module = tasks_module("""
        import asyncio, os, threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        def left(count=9):
            for _ in range(count): threading.Thread(target=threading.Event().wait, daemon=True).start()
            return os.getpid()
        def few(): return left(4)
        def joined():
            thread = threading.Thread(target=str)
            thread.start(), thread.join()
            return os.getpid()
        async def helped(): return await asyncio.to_thread(os.getpid)
        def of_module(): return os.getpid()
    """)
    async with agent():
        processes = []
        for task in (1, 2):
            # Of two names: an async function that is known would share another process.
            await server.start(msgspec.structs.replace(function(task, f"{module}:{name}"), name=str(task)))
            processes.append((await server.result(task)).result)
    assert (processes[0] == processes[1]) is stays


def writing_is_counted(folder: Path) -> bool:
    """Not where the folder lies in memory."""
    before = Path("/proc/self/io").read_text()
    with open(folder / "written", "wb") as file:
        file.write(b"x")
        os.fsync(file.fileno())
    return Path("/proc/self/io").read_text().split("write_bytes:")[1] != before.split("write_bytes:")[1]


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
async def test_what_a_call_used_is_its_own_and_not_that_of_those_before_it(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, tmp_path: Path, isolation: str
) -> None:
    tmp_path.chmod(0o755)  # a sandboxed function has a user number of its own
    module = tasks_module("""
        import os, time
        def eat(mebibytes): eaten = bytearray(mebibytes << 20); time.sleep(0.02)
        def nap(): time.sleep(0.05)
        def write(mebibytes):
            with open(os.environ["HOME"] + "/written", "wb") as file:
                for _ in range(mebibytes): file.write(os.urandom(1 << 20))
                file.flush(); os.fsync(file.fileno())
        def burn(seconds, mebibytes):
            until = time.process_time() + seconds
            while time.process_time() < until: pass
            eat(mebibytes)
    """)
    grant = Resources(cpu_milli=2000, memory_bytes=300 << 20, disk_bytes=100 << 20)

    async def use(task: int, name: str, *args: object) -> wire.Result:
        spec: dict[str, object] = {"function": f"{module}:{name}", "args": list(args), "isolation": isolation}
        await server.start(run_of(task, Kind.FUNCTION, spec), grant=grant)
        return await server.result(task)

    async with agent():
        eaten, napped, burnt = await use(1, "eat", 120), await use(2, "nap"), await use(3, "burn", 0.3, 0)
        written, napped_again = await use(4, "write", 3), await use(5, "nap")
        over = await use(6, "burn", 0.3, 600)
    assert eaten.peak_memory_bytes > 120 << 20
    assert 0 < napped.peak_memory_bytes < 100 << 20
    assert (written.written_bytes >= 3 << 20, napped_again.written_bytes) == (writing_is_counted(tmp_path), 0)
    assert over.failure is not None
    assert over.failure.type == "oom"
    assert burnt.cpu_ms >= 300
    assert 300 <= over.cpu_ms < 300 + 1500  # includes the time to allocate the memory
