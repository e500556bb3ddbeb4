"""Container tasks on a real engine: what they see, how they end, and that nothing of them is left.

Needs podman, runc and a static busybox, which `make test` installs. One agent serves most tests of this file: proving
an engine takes a second or two.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from rota import wire
from rota.execute.agent import AgentOptions, run_agent
from rota.execute.images.node_images import PullRules
from rota.execute.images.registries import Registries
from rota.execute.linux import cgroups
from rota.execute.machine.mounts import NamedMount
from rota.execute.processes import engine
from rota.model.attempt import Input, Outcome
from rota.model.resources import Resources
from rota.model.secret import Secret
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.containers.images import IMAGE, podman
from tests.execute.stub_server import CAPACITY, TOKEN, StubServer, run_of
from tests.execute.test_agent_survival import carrying, keeper_among, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GRANT = Resources(cpu_milli=500, memory_bytes=64 * 2**20)
PROGRAM = """
import asyncio, sys, pathlib
from rota.execute.agent import AgentOptions, run_agent
from rota.model.resources import Resources
url, token, data = sys.argv[1:]
options = AgentOptions(servers=(url,), token=token, pool="default", name="node-1", data=pathlib.Path(data),
                       capacity=Resources(cpu_milli=2000, memory_bytes=2**30), kill_grace_seconds=0.3, engine="podman")
asyncio.run(run_agent(options, asyncio.Event()))
"""


class Node:
    """A server and an agent with an engine; a test chooses what to run in a container."""

    def __init__(self, server: StubServer, data: Path, *, slow: str = "", closed: str = "") -> None:
        self.server = server
        self.data = data
        self.slow = slow  # a registry that never answers
        self.closed = closed  # a registry that can't be reached
        self._tasks = 0

    async def begin(
        self,
        *argv: str,
        grant: Resources = GRANT,
        cap_ms: int = 60_000,
        secrets: tuple[Secret, ...] = (),
        inputs: tuple[Input, ...] = (),
        **spec: object,
    ) -> int:
        whole: dict[str, object] = {"image": IMAGE, "isolation": "container", **spec}
        if argv:
            whole["command"] = list(argv)
        self._tasks += 1
        run = run_of(self._tasks, Kind.COMMAND if argv else Kind.SCRIPT, whole, cap_ms=cap_ms)
        await self.server.start(msgspec.structs.replace(run, secrets=secrets, inputs=inputs), grant=grant)
        return self._tasks

    async def attempt(self, task: int, number: int, *, image: str, until: Outcome | None = None) -> wire.Result:
        """Sends a further attempt, as the leader does after an attempt was given back; again until it ends so."""
        while True:
            spec = {"image": image, "isolation": "container", "command": ["true"]}
            run = msgspec.structs.replace(run_of(task, Kind.COMMAND, spec), attempt=number)
            await self.server.start(run, grant=GRANT)
            result = await self.server.result(task, number)
            if until is None or result.outcome is until:
                return result
            number += 1

    async def printing(self, task: int, words: bytes) -> None:
        await self.server.until(lambda: words in self.server.output(task))

    async def run(self, *argv: str, **options: object) -> tuple[Outcome, int | None, str]:
        task = await self.begin(*argv, **options)  # type: ignore[arg-type]
        result = await self.server.result(task)
        return result.outcome, result.exit_code, self.server.output(task).decode()

    async def failure(self, *argv: str, **options: object) -> tuple[Outcome, str, str]:
        result = await self.server.result(await self.begin(*argv, **options))  # type: ignore[arg-type]
        assert result.failure is not None
        return result.outcome, result.failure.type, result.failure.message

    def left(self) -> list[str]:
        """What a container may leave: its record in the engine, its groups, its folder, its processes."""
        name = cgroups.parent_name(self.data)
        groups: list[str] = []
        for parent in cgroups.existing_parents(self.data):
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                groups += [str(path) for path in Path(parent).iterdir() if path.is_dir()]
        listed = podman("ps", "--all", "--quiet", "--filter", f"label=rota.data={name}").split()
        return [*groups, *listed, *os.listdir(self.data / "work"), *processes_of(name)]


def processes_of(name: str) -> list[str]:
    """conmon and other helpers that have the container's name among their arguments; its own processes are in its
    groups.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"\0{name}-".encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(image: str, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    (folder / "team").mkdir()
    (folder / "team" / "note").write_text("from the team\n")
    async with (
        StubServer() as server,
        await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as never_answers,
    ):
        slow, closed = f"127.0.0.1:{never_answers.sockets[0].getsockname()[1]}", "127.0.0.1:9"
        options = AgentOptions(
            servers=(server.url,),
            token=TOKEN,
            pool="default",
            name="node-1",
            data=folder / "data",
            capacity=CAPACITY,
            kill_grace_seconds=1.0,
            engine="auto",
            pulls=PullRules(registries=Registries(listed=(slow, closed), private=True)),
            roots={"busybox": str(rootfs)},
            mounts=(NamedMount("team", f"{folder}/team", "/srv/team"),),
        )
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run_agent(options, stop, ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        waiting.cancel()
        if running.done():
            running.result()
        yield Node(server, options.data, slow=slow, closed=closed)
        stop.set()
        await running
        assert cgroups.existing_parents(options.data) == []


async def test_a_node_says_that_it_runs_containers_only_after_it_ran_one(node: Node) -> None:
    hello = node.server.hellos[0]
    assert {"rota/container", "rota/rootfs-busybox", "rota/sandbox"} <= set(hello.labels)
    assert "container-podman" in hello.capabilities


async def test_a_container_runs_its_own_system_in_the_attempts_folder(node: Node) -> None:
    script = (
        "cat /etc/who; pwd; touch mine && ls mine; touch /etc/x || echo read-only; id -u; ls /sys/class/net; echo $0 $1"
    )
    outcome, code, output = await node.run(script=script, args=["word"])
    assert (outcome, code) == (Outcome.OK, 0)
    *lines, uid, interface, words = output.replace("touch: /etc/x: Read-only file system\n", "").splitlines()
    assert lines == ["a system of its own", "/task", "mine", "read-only"]
    assert (int(uid) >= 2_000_000_000, interface, words) == (True, "lo", "/task/.rota-script word")
    told = "echo $ROTA_RESULT_7; echo '{\"a\": 1}' > $ROTA_RESULT"
    task = await node.begin("sh", "-c", told, inputs=(Input(7, "before", b'{"b":\n2}'),))
    result = await node.server.result(task)
    assert (json.loads(result.result or b""), node.server.output(task)) == ({"a": 1}, b'{"b": 2}\n')
    networked = (await node.run("ls", "/sys/class/net", network=True))[2]
    assert sorted(networked.split()) == sorted(os.listdir("/sys/class/net"))
    shared = await node.run("sh", "-c", "cat /srv/team/note; touch /srv/team/x", mounts=["team"])
    assert (shared[1], shared[2].splitlines()[0]) == (1, "from the team")
    assert node.left() == []
    exercised("container")


async def test_variables_and_secrets_reach_a_container_and_no_command_line(node: Node) -> None:
    text = "a 'b' \"c\" # $d = ü"
    task = await node.begin(
        "sh",
        "-c",
        'echo "$TEXT|$HOME|$ROTA_TASK_ID"; echo ${#KEY} letters; sleep 60',
        env={"TEXT": text, "CONTAINERS_CONF": "/task/mine", "PATH": "/bin"},
        secrets=(Secret("KEY", "hidden-7"),),
    )
    await node.printing(task, b"letters\n")
    assert node.server.output(task).decode() == f"{text}|/task|{task}\n8 letters\n"
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert [line for line in lines if b"letters" in line]
    assert not [line for line in lines if b"hidden-7" in line or text.encode() in line]
    await node.server.stop(task)
    assert (await node.server.result(task)).outcome is Outcome.CANCELLED
    refused = await node.failure("true", secrets=(Secret("KEY", "two\nlines"),))
    assert refused[:2] == (Outcome.REFUSED, "bad-spec")
    assert "KEY" in refused[2]
    assert "two" not in refused[2]


async def test_exit_codes_are_the_tasks_own_and_the_engines_are_explained(node: Node) -> None:
    results = await asyncio.gather(
        node.failure("sh", "-c", "exit 7"),
        node.failure("sh", "-c", "exit 127"),
        node.failure("sh", "-c", "kill -SEGV $$"),
        node.failure("nothing-like-it"),
        node.failure("/etc/who"),
        node.failure("true", image="localhost/no-such:1"),
    )
    assert [result[:2] for result in results] == [
        (Outcome.ERROR, "exit-code"),
        (Outcome.ERROR, "exit-code"),
        (Outcome.ERROR, "signal"),
        (Outcome.ERROR, "no-such-program"),
        (Outcome.ERROR, "not-executable"),
        (Outcome.REFUSED, "image-unavailable"),
    ]
    assert [result[2] for result in results[:3]] == [
        "exited with code 7",
        "exited with code 127",
        "died of SIGSEGV",
    ]
    assert "nothing-like-it" in results[3][2]
    assert "localhost/no-such:1" in results[5][2]
    assert node.left() == []


async def test_a_container_over_its_memory_is_told_so_with_granted_and_used(node: Node) -> None:
    grant = Resources(cpu_milli=1000, memory_bytes=32 * 2**20)
    result = await node.server.result(await node.begin("sh", "-c", "tail /dev/zero", grant=grant))
    assert result.failure is not None
    assert (result.outcome, result.failure.type) == (Outcome.ERROR, "oom")
    assert "33.6M granted" in result.failure.message
    assert 24 * 2**20 <= result.peak_memory_bytes <= 32 * 2**20
    # One of several processes dies and the others go on: the kernel reports it all the same.
    outcome, slug, _ = await node.failure("sh", "-c", "tail /dev/zero; echo survived; sleep 60", grant=grant)
    assert (outcome, slug) == (Outcome.ERROR, "oom")
    assert node.left() == []


async def test_a_cancelled_container_gets_sigterm_first_and_one_that_ignores_it_is_killed(node: Node) -> None:
    polite = await node.begin("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    deaf = await node.begin(
        "sh", "-c", "trap '' TERM; (trap '' TERM; sleep 600) & echo up; while :; do sleep 0.1; done"
    )
    await node.printing(polite, b"up")
    await node.printing(deaf, b"up")
    await node.server.stop(polite, deaf)
    assert (await node.server.result(polite)).outcome is Outcome.CANCELLED
    assert node.server.output(polite) == b"up\nbye\n"
    assert (await node.server.result(deaf)).outcome is Outcome.CANCELLED
    assert node.left() == []


async def test_tasks_that_wait_for_an_image_hold_nothing_and_come_back_later(node: Node) -> None:
    """The registry never answers: the node stays free for everybody, and nobody waits for a pull to end."""
    whole = msgspec.structs.replace(CAPACITY, memory_bytes=64 * 2**20)
    waiting = [await node.begin("true", image=f"{node.slow}/slow:1", grant=whole) for _ in range(6)]
    results = [await node.server.result(task) for task in waiting]
    assert {(result.outcome, result.retry_in_ms) for result in results} == {(Outcome.RECALLED, 1000)}
    assert results[0].failure is not None
    assert results[0].failure.message == f"was given back while image {node.slow}/slow:1 is pulled to its node"
    assert await node.run("cat", "/etc/who", grant=whole) == (Outcome.OK, 0, "a system of its own\n")
    assert (await node.attempt(waiting[0], 4, image=f"{node.slow}/slow:1")).retry_in_ms == 8000


async def test_an_image_that_can_not_be_had_fails_alike_whatever_the_reason(node: Node) -> None:
    """A tenant can't tell open ports from closed ones, nor which hosts there are."""
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        images = ["127.0.0.1:1/t/1", f"127.0.0.1:{port}/t/1", "169.254.169.254/t/1", "no-such.invalid/t/1"]
        failures = await asyncio.gather(*(node.failure("true", image=image) for image in images))
        listed = await node.begin("true", image=f"{node.closed}/t/1")
        assert (await node.server.result(listed)).outcome is Outcome.RECALLED
        gone = await node.attempt(listed, 2, image=f"{node.closed}/t/1", until=Outcome.REFUSED)
    assert gone.failure is not None
    failures.append((gone.outcome, gone.failure.type, gone.failure.message))
    sentences = {
        message.replace(image, "IMAGE")
        for image, (_, _, message) in zip([*images, f"{node.closed}/t/1"], failures, strict=True)
    }
    assert {failure[:2] for failure in failures} == {(Outcome.REFUSED, "image-unavailable")}
    assert len(sentences) == 1, sentences


async def test_an_image_that_was_removed_meanwhile_is_looked_for_again(node: Node) -> None:
    podman("tag", IMAGE, "localhost/rota-passing:1")
    assert (await node.run("id", image="localhost/rota-passing:1"))[0] is Outcome.OK
    podman("untag", IMAGE, "localhost/rota-passing:1")
    failures = [await node.failure("id", image="localhost/rota-passing:1") for _ in range(2)]
    assert [failure[:2] for failure in failures] == [
        (Outcome.REFUSED, "engine-failed"),
        (Outcome.REFUSED, "image-unavailable"),
    ]


async def test_a_cap_ends_a_container_and_so_do_a_full_folder_and_too_many_processes(node: Node) -> None:
    grant = Resources(cpu_milli=500, memory_bytes=64 * 2**20, disk_bytes=2**20)
    capped, full, crowded = await asyncio.gather(
        node.failure("sleep", "600", cap_ms=2000),
        node.failure("sh", "-c", "head -c 4000000 /dev/zero > big; sleep 600", grant=grant),
        node.failure("sh", "-c", "(while :; do sleep 600 & done); sleep 600", processes=20),
    )
    assert capped[:2] == (Outcome.TIMEOUT, "timeout")
    assert full[:2] == (Outcome.ERROR, "disk-limit")
    assert crowded[:2] == (Outcome.ERROR, "pids-limit")
    assert node.left() == []


async def test_a_named_root_is_a_container_without_an_engine(node: Node) -> None:
    outcome, code, output = await node.run(
        "sh", "-c", "cat /etc/who; pwd; id -u; touch mine; touch /etc/x || exit 3", image="rootfs:busybox"
    )
    assert (outcome, code) == (Outcome.ERROR, 3)
    assert output.splitlines()[:3] == ["a system of its own", "/task", "1000"]
    script = "cat /etc/who /srv/team/note"
    outcome, _, output = await node.run(script=script, image="rootfs:busybox", mounts=["team"])
    assert (outcome, output) == (Outcome.OK, "a system of its own\nfrom the team\n")
    assert [await node.failure(program, image="rootfs:busybox") for program in ("none", "/bin/none", "/etc/who")] == [
        (Outcome.REFUSED, "no-such-program", f"there is no program none in the image's PATH ({PATH})"),
        (Outcome.REFUSED, "no-such-program", "there is no program /bin/none in the image"),
        (Outcome.REFUSED, "not-executable", "/etc/who may not be executed"),
    ]
    assert await node.failure("true", image="rootfs:other") == (
        Outcome.REFUSED,
        "bad-spec",
        "this node has no root other",
    )
    assert node.left() == []


@contextlib.asynccontextmanager
async def agent_process(server: StubServer, data: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, server.url, TOKEN, str(data))
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_nothing_is_left_of_containers_when_their_agent_is_killed(image: str, tmp_path: Path) -> None:
    async with StubServer() as server:
        node = Node(server, tmp_path / "data")
        async with agent_process(server, node.data) as process:
            await node.printing(await node.begin("sh", "-c", "echo up; sleep 600"), b"up")
            assert len(node.left()) > 3
            process.kill()
            await process.wait()
            await until(lambda: node.left() == [])
            assert cgroups.existing_parents(node.data) == []


async def test_a_new_agent_sweeps_the_containers_of_a_dead_agent_and_a_dead_keeper(image: str, tmp_path: Path) -> None:
    async with StubServer() as server:
        node = Node(server, tmp_path / "data")
        async with agent_process(server, node.data) as process:
            await node.printing(await node.begin("sh", "-c", "echo up; sleep 600"), b"up")
            keeper = keeper_among(carrying(node.data))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for victim in (process.pid, keeper):
                    os.kill(victim, number)
            await process.wait()
            assert node.left()
        greeted = len(server.inventories)
        async with agent_process(server, node.data) as process:
            await server.until(lambda: len(server.inventories) > greeted)
            assert node.left() == []


async def test_without_a_proof_a_node_runs_no_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'Error: no space left' >&2\nexit 125\n")
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with StubServer() as server:
        options = AgentOptions(
            servers=(server.url,),
            token=TOKEN,
            pool="default",
            name="node-1",
            data=tmp_path / "data",
            capacity=CAPACITY,
            engine="auto",
            use_sandbox=False,
        )
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run_agent(options, stop, ready.set))
        async with asyncio.timeout(30):
            await ready.wait()
        assert "rota/container" not in server.hellos[0].labels
        assert engine.candidates("none", os.environ) == []
        run = run_of(1, Kind.COMMAND, {"command": ["true"], "image": IMAGE, "isolation": "container"})
        await server.start(run)
        result = await server.result(1)
        assert result.failure is not None
        assert (result.outcome, result.failure.message) == (Outcome.REFUSED, "this node runs no containers")
        stop.set()
        await running
