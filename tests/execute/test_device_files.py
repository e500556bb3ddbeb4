"""Device files: a sandboxed attempt sees those it was given, and no others; they are given out one by one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rota.execute.machine.device_files import DeviceFiles, check_counts, parse_devices
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.stub_server import StartAgent, StubServer, run_of

CAPACITY = Resources(cpu_milli=4000, memory_bytes=2**30, disk_bytes=2**30, gpus=2, custom={"fpga": 2})
GRANT = Resources(cpu_milli=100, memory_bytes=2**28, disk_bytes=2**26)
LOOK = """
import os
def look():
    return sorted(name for name in os.listdir("/dev") if name.startswith("rota-test-"))
"""


@pytest.fixture
def nodes() -> Iterator[dict[str, str]]:
    """Real devices, as harmless as /dev/null, by the name they stand for."""
    made = {}
    for name in ("gpu0", "gpu1", "gpu", "fpga0", "fpga1"):
        made[name] = f"/dev/rota-test-{os.getpid()}-{name}"
        os.mknod(made[name], 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(made[name], 0o666)
    yield made
    for path in made.values():
        os.unlink(path)


def devices_of(nodes: dict[str, str]) -> DeviceFiles:
    return parse_devices([f"{name}={path}" for name, path in nodes.items()])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
async def test_a_sandboxed_task_sees_and_uses_its_own_devices_and_no_others(
    agent: StartAgent, server: StubServer, nodes: dict[str, str], tasks_module: Callable[[str], str], tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)  # sandboxed functions have user numbers of their own
    text = "for f in /dev/rota-test-*; do echo x > $f && echo ${f##*-}; done; echo ${ROTA_GPUS-} ${ROTA_DEVICES_FPGA-}"
    spec = {"command": ["/bin/sh", "-c", text], "isolation": "sandbox"}
    wants = {
        1: (msgspec.structs.replace(GRANT, gpus=1), b"gpu\ngpu0\n0\n"),
        2: (msgspec.structs.replace(GRANT, gpus=1, custom={"fpga": 1}), b"fpga0\ngpu\ngpu0\n0 0\n"),
        3: (msgspec.structs.replace(GRANT, custom={"fpga": 2}), b"fpga0\nfpga1\n0,1\n"),
    }
    async with agent(capacity=CAPACITY, devices=devices_of(nodes)):
        for task, (grant, _) in wants.items():
            await server.start(run_of(task, Kind.COMMAND, spec), grant=grant)
            assert (await server.result(task)).outcome is Outcome.OK
        await server.start(run_of(4, Kind.COMMAND, spec | {"command": ["ls", "/dev"]}), grant=GRANT)
        await server.result(4)
        # A function's process is used again, but never with another attempt's devices.
        reference = f"{tasks_module(LOOK)}:look"
        called = {"function": reference, "isolation": "sandbox"}
        whole = msgspec.structs.replace(GRANT, gpus=2)
        for task, grant in ((5, whole), (6, GRANT), (7, whole)):
            await server.start(run_of(task, Kind.FUNCTION, called, name=reference), grant=grant)
            await server.result(task)
    assert {task: server.output(task) for task in wants} == {task: shown for task, (_, shown) in wants.items()}
    assert b"rota-test-" not in server.output(4)
    both = sorted(os.path.basename(nodes[name]) for name in ("gpu", "gpu0", "gpu1"))
    seen = [msgspec.json.decode(server.results_of(task)[0].result or b"null") for task in (5, 6, 7)]
    assert seen == [both, [], both]
    exercised("devices")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
async def test_in_a_container_a_task_sees_and_uses_its_own_devices_and_no_others(
    agent: StartAgent, server: StubServer, nodes: dict[str, str], image: str, rootfs: Path
) -> None:
    text = "for f in /dev/rota-test-*; do echo x > $f && echo ${f##*-}; done; echo ${ROTA_GPUS-} ${ROTA_DEVICES_FPGA-}"
    rooms = {
        1: (msgspec.structs.replace(GRANT, gpus=1), b"gpu\ngpu0\n0\n"),
        2: (msgspec.structs.replace(GRANT, gpus=1, custom={"fpga": 2}), b"fpga0\nfpga1\ngpu\ngpu0\n0 0,1\n"),
    }
    async with agent(
        capacity=CAPACITY,
        devices=devices_of(nodes),
        engine="podman",
        roots={"busybox": str(rootfs)},
    ):
        task = 0
        for system in (image, "rootfs:busybox"):
            spec = {"command": ["sh", "-c", text], "image": system, "isolation": "container"}
            for grant, shown in rooms.values():
                task += 1
                await server.start(run_of(task, Kind.COMMAND, spec), grant=grant)
                assert (await server.result(task)).outcome is Outcome.OK, system
                assert server.output(task) == shown, system
            task += 1
            await server.start(run_of(task, Kind.COMMAND, spec | {"command": ["ls", "/dev"]}), grant=GRANT)
            assert (await server.result(task)).outcome is Outcome.OK
            assert b"null" in server.output(task)
            assert b"rota-test-" not in server.output(task), system


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["gpu0"], "'gpu0' is not a device; write gpu0=/dev/nvidia0"),
        (["GPU0=/dev/null"], "is not a device"),
        (["gpu0=/etc/passwd"], "'/etc/passwd' is not a path under /dev"),
        (["gpu0=/dev/../etc/passwd"], "is not a path under /dev"),
        (["gpu0=/dev/no-such"], "/dev/no-such: No such file or directory"),
        (["gpu0=/dev/shm"], "/dev/shm is not a device"),
        (["gpu0=/dev/null", "gpu0=/dev/zero"], "gpu0 is named twice"),
        (["gpu=/dev/null", "gpu=/dev/zero"], "gpu is named twice"),
        (["gpu1=/dev/null"], "there is no gpu0"),
    ],
)
def test_what_names_no_device_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_devices(texts)


def test_as_many_are_offered_as_are_named() -> None:
    named = parse_devices(["gpu0=/dev/null", "gpu=/dev/zero,/dev/full", "fpga0=/dev/null"])
    assert named.counts == {"fpga": 1, "gpu": 1}
    assert named.of((0,), ()) == ("/dev/zero", "/dev/full", "/dev/null")
    check_counts(named, Resources(gpus=1, custom={"fpga": 1}))
    with pytest.raises(ValueError, match="1 of gpu are named, but --capacity says gpu=4"):
        check_counts(named, Resources(gpus=4, custom={"fpga": 1}))
