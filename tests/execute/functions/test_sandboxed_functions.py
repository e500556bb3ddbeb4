"""Sandboxed functions, run by a real agent: which share a process, what they see, what ends them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rota import wire
from rota.execute.functions import child_pool
from rota.execute.linux import cgroups
from rota.execute.machine.mounts import NamedMount
from rota.execute.messages import calls
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.execute.stub_server import StartAgent, StubServer, run_of

WriteModule = Callable[[str], str]

MIB = 1024 * 1024
GRANT = Resources(cpu_milli=200, memory_bytes=200 * MIB)

SOURCE = """
    import array, os, socket, stat, sys, time

    life = os.urandom(8).hex()  # one for each process
    kept = []

    def remember(word): kept.append(word); return [life, kept]
    def alive(): return life
    def leave_files():
        os.makedirs("folder/deep"); open("folder/deep/file", "w").write("x")
        return life
    def nap(seconds): time.sleep(seconds); return life
    def keep(mebibytes): kept.append(bytearray(mebibytes << 20)); return life
    def look(paths, port):
        seen = [path for path in paths if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path))]
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            reached = True
        except OSError:
            reached = False
        processes = [open(f"/proc/{one}/cmdline").read() for one in os.listdir("/proc") if one.isdigit() and one != "1"]
        return {"seen": seen, "reached": reached, "processes": processes, "environment": dict(os.environ),
                "descriptors": descriptors(), "user": os.getuid(), "folder": os.getcwd()}
    def descriptors():
        found = []
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            try: facts = os.fstat(int(name))
            except OSError: continue  # the one that listed them
            found.append([stat.S_IFMT(facts.st_mode), facts.st_dev, facts.st_ino])
        return found
    def channels():
        return [socket.socket(fileno=os.dup(int(name))) for name in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{name}") and stat.S_ISSOCK(os.fstat(int(name)).st_mode)]
    def steal(really):
        if really:
            for channel in channels():
                channel.setblocking(False)
                try:
                    while channel.recv(65536): pass
                except OSError: pass
            time.sleep(60)
    def betray(how):
        for channel in channels():
            if how == "nonsense": channel.send(b"\\0nonsense")
            if how == "nobody's call": channel.send(b"\\0" + bytes([0x95, 0x63, 0x01, 0x00, 0xc2, 0xc2]))
            if how == "closed": channel.shutdown(socket.SHUT_RDWR)
            if how == "descriptors":
                rights = array.array("i", [0] * 10)
                channel.sendmsg([b"\\1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            if how == "a terabyte":
                memory = os.memfd_create("x"); os.ftruncate(memory, 1 << 40)
                rights = array.array("i", [memory])
                channel.sendmsg([b"\\1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _others_may_read(tmp_path: Path) -> None:
    """Sandboxed functions have user numbers of their own: their folder must be readable for others."""
    tmp_path.chmod(0o755)


def sandboxed(task: int, reference: str, *args: object, tenant: int = 1, **more: object) -> wire.Run:
    spec: dict[str, object] = {"function": reference, "args": list(args), "isolation": "sandbox", **more}
    return msgspec.structs.replace(run_of(task, Kind.FUNCTION, spec, name=reference), tenant=tenant)


async def value(server: StubServer, run: wire.Run, grant: Resources = GRANT) -> object:
    await server.start(run, grant=grant)
    result = await server.result(run.task)
    assert result.outcome is Outcome.OK, result.failure
    return json.loads(result.result or b"")


def groups(data: Path) -> Iterator[Path]:
    """The control groups of running units, where memory is limited."""
    for parent in cgroups.existing_parents(data):
        yield from (group for group in Path(parent).glob("unit-*") if list(group.glob("memory.*max*")))


def memory_limits(data: Path) -> set[int]:
    found = set()
    for group in groups(data):
        for name in ("memory.limit_in_bytes", "memory.max"):
            if (group / name).exists():
                found.add(int((group / name).read_text()))
    return found


async def test_a_sandboxed_child_belongs_to_one_tenant_and_stays_warm_for_it(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    remember = f"{module}:remember"
    async with agent():
        first = await value(server, sandboxed(1, remember, "secret", tenant=1))
        other = await value(server, sandboxed(2, remember, "b", tenant=2))
        trusted = await value(server, run_of(3, Kind.FUNCTION, {"function": remember, "args": ["c"]}))
        online = await value(server, sandboxed(4, remember, "d", tenant=1, network=True))
        again = await value(server, sandboxed(5, remember, "e", tenant=1))
    assert isinstance(first, list)
    life = first[0]
    assert again == [life, ["secret", "e"]]
    for one, word in ((other, "b"), (trusted, "c"), (online, "d")):
        assert isinstance(one, list)
        assert one[0] != life
        assert one[1] == [word]


async def test_a_sandboxed_function_sees_nothing_of_the_agent_its_files_its_network_or_other_children(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tasks_module(SOURCE)
    monkeypatch.setenv("ROTA_CANARY", "canary")
    of_home = [str(one) for one in Path.home().iterdir() if not sys.base_prefix.startswith(str(one))]
    paths = [str(tmp_path / "data"), *of_home, "/etc/shadow", "/var/lib", f"/proc/{os.getpid()}/environ"]
    async with agent():
        await value(server, sandboxed(1, f"{module}:alive", tenant=2))  # somebody to be seen
        seen = await value(server, sandboxed(2, f"{module}:look", paths, server.port))
        large = await value(server, sandboxed(3, f"{module}:remember", "x" * 500_000))
    assert isinstance(seen, dict)
    assert seen["seen"] == []
    assert seen["reached"] is False
    assert seen["user"] == 1000
    assert seen["folder"] == "/task"
    assert "canary" not in json.dumps(seen["environment"])
    assert (seen["environment"]["HOME"], seen["environment"]["TMPDIR"]) == ("/task", "/tmp")
    assert len([one for one in seen["processes"] if "rota.execute.child.main" in one]) == 1  # its own
    # /dev/null, its output, its own two folders, and the descriptors that calls.py names: some under two numbers,
    # nothing else.
    ours = [name for name in vars(calls) if name.endswith("_DESCRIPTOR")]
    assert len({tuple(one) for one in seen["descriptors"]}) <= 5 + len(ours)
    assert isinstance(large, list)
    assert large[1] == ["x" * 500_000]


async def test_a_function_that_goes_over_its_memory_ends_alone_with_both_figures(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        await server.start(sandboxed(1, f"{module}:nap", 1.0, tenant=2), grant=GRANT)
        await server.start(
            sandboxed(2, f"{module}:alive"),
            sandboxed(3, f"{module}:keep", 500),
            *(sandboxed(task, f"{module}:alive") for task in range(4, 10)),
            grant=GRANT,
        )
        plain = run_of(10, Kind.FUNCTION, {"function": f"{module}:keep", "args": [500]})
        long = msgspec.structs.replace(sandboxed(11, f"{module}:nap", 60, tenant=3), cap_ms=300)
        await server.start(plain, long, grant=GRANT)
        await server.until(lambda: len(server.results) == 11)
    assert {result.task for result in server.results if result.outcome is not Outcome.OK} == {3, 10, 11}
    assert server.results_of(11)[0].outcome is Outcome.TIMEOUT
    for task in (3, 10):
        result = server.results_of(task)[0]
        assert result.outcome is Outcome.ERROR
        assert result.failure is not None
        assert result.failure.type == "oom"
        assert result.run_us > 1000
        assert "210M granted" in result.failure.message


async def test_going_over_its_processes_names_those_that_were_asked_for(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module("""
        import os, time
        def bomb():
            while True:
                try:
                    if os.fork() == 0: time.sleep(60)
                except OSError: time.sleep(0.01)
    """)
    async with agent():
        runs = [
            sandboxed(task, f"{module}:bomb", processes=20, isolation=how)
            for task, how in ((1, "sandbox"), (2, "none"))
        ]
        await server.start(*runs, grant=GRANT)
        ends = [await server.result(run.task) for run in runs]
    said = "went over its processes: 20 granted, 20 used and more asked for"
    assert [end.failure.message if end.failure else None for end in ends] == [said, said]


async def test_a_childs_limits_follow_the_shape_of_its_calls(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, tmp_path: Path
) -> None:
    module = tasks_module(SOURCE)
    small, large = (Resources(cpu_milli=200, memory_bytes=size * MIB) for size in (150, 400))
    async with agent():
        first = await value(server, sandboxed(1, f"{module}:alive"), small)
        assert memory_limits(tmp_path / "data") == {150 * MIB}
        second = await value(server, sandboxed(2, f"{module}:keep", 200), large)
        assert memory_limits(tmp_path / "data") == {400 * MIB}
        # It now holds more than the smaller shape may have: that one gets a new child.
        third = await value(server, sandboxed(3, f"{module}:alive"), small)
        assert 150 * MIB in memory_limits(tmp_path / "data")
    assert first == second != third


async def test_a_leaking_child_is_replaced_before_its_limit_ends_a_call(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    async with agent():
        runs = [sandboxed(task, f"{module}:keep", 40) for task in range(1, 11)]
        lives = [await value(server, run) for run in runs]
    assert 2 <= len(set(map(str, lives))) <= 9


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
@pytest.mark.parametrize("suffix", ["", "_later"])
async def test_a_call_that_had_too_little_left_by_those_before_it_is_tried_again_in_a_new_process(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, isolation: str, suffix: str
) -> None:
    module = tasks_module("""
        kept = []
        def leak(mebibytes): kept.append(bytearray(mebibytes << 20))
        def use(mebibytes): return len(bytearray(mebibytes << 20)) >> 20
        async def leak_later(mebibytes): leak(mebibytes)
        async def use_later(mebibytes): return use(mebibytes)
    """)

    def run(task: int, name: str, mebibytes: int, attempt: int = 1) -> wire.Run:
        made = sandboxed(task, f"{module}:{name}{suffix}", mebibytes, isolation=isolation)
        return msgspec.structs.replace(made, name="of one name", attempt=attempt)

    async with agent():
        await value(server, run(1, "use", 1))  # where it is async, the next ones share a process
        await value(server, run(2, "leak", 80))
        # Each fits alone; one would not, after the other.
        await server.start(run(3, "use", 140), grant=GRANT)
        innocent = await server.result(3)
        await server.start(run(3, "use", 140, attempt=2), grant=GRANT)
        assert (await server.result(3, 2)).result == b"140"
        await value(server, run(4, "leak", 80))
        await server.start(run(5, "use", 400), grant=GRANT)
        await server.result(5)
        await server.start(run(5, "use", 400, attempt=2), grant=GRANT)
        guilty = await server.result(5, 2)
    assert innocent.failure is not None
    assert (innocent.outcome, innocent.failure.type) == (Outcome.DISRUPTED, "neighbour")
    assert guilty.failure is not None
    assert (guilty.outcome, guilty.failure.type) == (Outcome.ERROR, "oom")


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
async def test_children_load_changed_code_and_are_replaced_when_told_to(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, isolation: str
) -> None:
    module = tasks_module(
        "def answer(): return 1\n" + "import os\nlife = os.urandom(8).hex()\ndef alive(): return life"
    )
    numbers = iter(range(1, 1000))

    async def ask(name: str) -> object:
        return await value(server, sandboxed(next(numbers), f"{module}:{name}", isolation=isolation))

    async with agent():
        assert await ask("answer") == 1
        before = await ask("alive")
        await server.send(wire.Reload(epoch=server.epoch))
        after = await ask("alive")
        assert before != after
        tasks_module("def answer(): return 'changed'")
        while (found := await ask("answer")) == 1:
            await asyncio.sleep(0.1)  # it checks once a second
    assert found == "changed"


async def test_a_child_that_was_taken_over_harms_its_own_call_only(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    ways = ["nonsense", "nobody's call", "closed", "descriptors", "a terabyte"]
    async with agent():
        open_before = len(os.listdir("/proc/self/fd"))
        await server.start(*(sandboxed(task, f"{module}:betray", how) for task, how in enumerate(ways, 1)), grant=GRANT)
        await server.until(lambda: len(server.results) == len(ways))
        await value(server, sandboxed(100, f"{module}:alive"))
        await value(server, sandboxed(101, f"{module}:alive", tenant=2))
        open_after = len(os.listdir("/proc/self/fd"))
    for task in range(1, len(ways) + 1):
        result = server.results_of(task)[0]
        assert result.outcome is Outcome.CRASHED
        assert result.failure is not None
        assert "does not keep to the protocol" in result.failure.message
    assert open_after - open_before < 20  # two idle children, not what was passed along


async def test_a_child_that_reads_ahead_does_not_get_round_its_cap(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule
) -> None:
    module = tasks_module(SOURCE)
    everything = Resources(cpu_milli=2000, memory_bytes=200 * MIB)
    async with agent():
        honest = [sandboxed(task, f"{module}:steal", False) for task in range(1, 60)]  # so short that it is sent ahead
        await server.start(*honest, grant=everything)
        await server.until(lambda: len(server.results) == len(honest))
        thieves = [
            msgspec.structs.replace(sandboxed(task, f"{module}:steal", True), cap_ms=500) for task in range(100, 104)
        ]
        await server.start(*thieves, grant=everything)
        await server.until(lambda: len(server.results) == len(honest) + len(thieves))
        await value(server, sandboxed(200, f"{module}:alive"))
    # Noticed, or too late to steal anything and then over its cap.
    ends = {result.outcome for result in server.results if 100 <= result.task < 200}
    assert ends <= {Outcome.CRASHED, Outcome.TIMEOUT}


async def test_many_tenants_do_not_fill_the_node_with_idle_children(
    agent: StartAgent,
    server: StubServer,
    tasks_module: WriteModule,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = tasks_module(SOURCE)
    monkeypatch.setattr(child_pool, "MOST_IDLE", 2)
    async with agent():
        for tenant in range(1, 6):
            await value(server, sandboxed(tenant, f"{module}:leave_files", tenant=tenant))
        async with asyncio.timeout(20):
            # Children that exited took their leftovers with them.
            while len(list(groups(tmp_path / "data"))) > 2 or len(os.listdir(tmp_path / "data" / "work")) > 2:
                await asyncio.sleep(0.05)


async def test_what_this_node_can_not_sandbox_is_refused(
    agent: StartAgent, server: StubServer, tasks_module: WriteModule, tmp_path: Path
) -> None:
    module = tasks_module(SOURCE)
    private = NamedMount("private", str(tmp_path), "/srv/private", tenants=("acme",))
    async with agent(mounts=(private,)):
        assert server.hellos[-1].labels["rota/mount-private"] == "tenant=acme"
        await server.start(
            sandboxed(1, f"{module}:alive", mounts=["team"]),
            sandboxed(2, f"{module}:alive", isolation="container"),
            sandboxed(3, f"{module}:alive", mounts=["private"], owner="beta"),
            run_of(4, Kind.COMMAND, {"command": ["true"], "mounts": ["private"], "isolation": "sandbox"}),
            sandboxed(5, f"{module}:alive", mounts=["private"], owner="acme"),
            run_of(
                6,
                Kind.COMMAND,
                {"command": ["ls", "/srv/private"], "mounts": ["private"], "isolation": "sandbox", "owner": "acme"},
            ),
            grant=GRANT,
        )
        refused = [await server.result(task) for task in (1, 2, 3, 4)]
        assert [(await server.result(task)).outcome for task in (5, 6)] == [Outcome.OK, Outcome.OK]
        assert b"worktasks.py" in server.output(6)
    others = "the mount private of this node is for other tenants"
    for result, word in zip(refused, ("mount team", "isolation container", others, others), strict=True):
        assert result.outcome is Outcome.REFUSED
        assert result.failure is not None
        assert word in result.failure.message
