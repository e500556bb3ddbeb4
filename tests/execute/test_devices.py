"""GPUs: which device an attempt gets, how it learns of it, and that parts of one never add up to more than it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.execute.attempts.grants import Devices
from rota.execute.machine.device_files import parse_devices
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from tests.capabilities import exercised
from tests.execute.stub_server import CAPACITY, SMALL, StartAgent, StubServer, function, run_of, shell

TWO_GPUS = Resources(cpu_milli=2000, memory_bytes=2**30, disk_bytes=2**30, gpus=2)
ONE = Resources(cpu_milli=100, gpus=1)
HALF = Resources(cpu_milli=100, gpu_milli=500)
TELL = "echo ${ROTA_GPUS-none} ${CUDA_VISIBLE_DEVICES-unset}"


def test_fractions_are_packed_so_that_whole_devices_stay_whole() -> None:
    devices = Devices(3)
    assert devices.take(0, 500) == (0,)
    assert devices.take(0, 300) == (0,)
    assert devices.take(0, 300) == (1,)
    assert devices.take(0, 200) == (0,)
    assert devices.take(2, 0) is None
    assert devices.take(1, 0) == (2,)
    devices.give_back((1,), 300)
    assert devices.take(1, 0) == (1,)
    assert devices.take(0, 1) is None


def test_a_whole_device_comes_back_whole() -> None:
    devices = Devices(2)
    assert devices.take(2, 0) == (0, 1)
    devices.give_back((0, 1), 0)
    assert devices.take(2, 0) == (0, 1)


async def test_a_task_is_told_its_devices_and_one_that_asked_for_none_sees_none(
    agent: StartAgent, server: StubServer
) -> None:
    async with agent(capacity=TWO_GPUS):
        await server.start(shell(1, TELL), grant=Resources(cpu_milli=100, gpus=2))
        await server.result(1)
        await server.start(shell(2, TELL))
        await server.result(2)
    assert server.output(1) == b"0,1 0,1\n"
    assert server.output(2) == b"none\n"  # CUDA_VISIBLE_DEVICES is set, and empty
    exercised("devices")


async def test_a_node_without_gpus_says_nothing_about_them(agent: StartAgent, server: StubServer) -> None:
    async with agent(capacity=CAPACITY):
        await server.start(shell(1, TELL))
        await server.result(1)
    assert server.output(1) == b"none unset\n"


async def test_halves_share_a_device_and_a_whole_one_waits_until_it_is_free(
    agent: StartAgent, server: StubServer
) -> None:
    one_gpu = Resources(cpu_milli=2000, memory_bytes=2**30, disk_bytes=2**30, gpus=1)
    async with agent(capacity=one_gpu):
        await server.start(*(shell(task, "echo $ROTA_GPUS; sleep 0.3") for task in (1, 2)), grant=HALF)
        await server.start(shell(3, "echo $ROTA_GPUS"), grant=ONE)
        for task in (1, 2, 3):
            assert (await server.result(task)).outcome is Outcome.OK
    assert [server.output(task) for task in (1, 2, 3)] == [b"0\n"] * 3
    assert [result.task for result in server.results][-1] == 3


async def test_functions_learn_their_devices_from_the_context(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(
        """
        import time
        from rota.execute.child.context import current
        def gpus():
            time.sleep(0.2)
            return list(current().gpus)
        """
    )
    async with agent(capacity=TWO_GPUS):
        await server.start(*(function(task, f"{module}:gpus") for task in (1, 2)), grant=ONE)
        results = [await server.result(task) for task in (1, 2)]
    assert sorted(result.result or b"" for result in results) == [b"[0]", b"[1]"]


@pytest.mark.parametrize("isolation", ["none", "sandbox"])
async def test_functions_get_their_devices_as_commands_do_from_the_start_of_their_process_on(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str], tmp_path: Path, isolation: str
) -> None:
    tmp_path.chmod(0o755)  # a sandboxed function has a user number of its own
    module = tasks_module(
        """
        import os
        life = os.urandom(8).hex()
        at_start = dict(os.environ)
        def tell():
            names = ("ROTA_GPUS", "CUDA_VISIBLE_DEVICES")
            assert [at_start.get(name) for name in names] == [os.environ.get(name) for name in names]
            return [life, *(os.environ.get(name) for name in names)]
        """
    )

    async def told(task: int, grant: Resources, **more: object) -> list[str | None]:
        spec: dict[str, object] = {"function": f"{module}:tell", "isolation": isolation, **more}
        await server.start(run_of(task, Kind.FUNCTION, spec), grant=grant)
        result = await server.result(task)
        assert result.outcome is Outcome.OK, result.failure
        found: list[str | None] = json.loads(result.result or b"")
        return found

    async with agent(capacity=TWO_GPUS):
        none = await told(1, SMALL)
        first = await told(2, ONE)
        both = await told(3, Resources(cpu_milli=100, gpus=2))
        again = await told(4, Resources(cpu_milli=100, gpus=2))
        chosen = await told(5, ONE, env={"CUDA_VISIBLE_DEVICES": "0,1", "WORD": "x"})
        assert await told(6, SMALL) == none
    assert [one[1:] for one in (none, first, both, chosen)] == [[None, ""], ["0", "0"], ["0,1", "0,1"], ["0", "0"]]
    assert both == again
    assert len({one[0] for one in (none, first, both, chosen)}) == 4


async def test_an_idle_process_lets_go_of_devices_that_others_are_given(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module("import os\ndef process(): return os.getpid()\n")
    async with agent(capacity=TWO_GPUS):
        await server.start(function(1, f"{module}:process"), grant=ONE)
        warm = int((await server.result(1)).result or b"")
        await server.start(shell(2, f"while kill -0 {warm}; do sleep 0.01; done"), grant=ONE)
        assert (await server.result(2)).outcome is Outcome.OK


async def test_functions_find_devices_of_other_kinds_in_their_context_and_environment(
    agent: StartAgent, server: StubServer, tasks_module: Callable[[str], str]
) -> None:
    module = tasks_module(
        """
        import os
        from rota.execute.child.context import current
        def tell(): return [dict(current().devices), os.environ.get("ROTA_DEVICES_FPGA")]
        """
    )
    devices = parse_devices(["fpga0=/dev/null", "fpga1=/dev/zero"])
    capacity = Resources(cpu_milli=2000, memory_bytes=2**30, disk_bytes=2**30, custom={"fpga": 2})
    async with agent(capacity=capacity, devices=devices):
        await server.start(function(1, f"{module}:tell"), grant=Resources(cpu_milli=100, custom={"fpga": 2}))
        await server.start(function(2, f"{module}:tell"))
        results = [json.loads((await server.result(task)).result or b"") for task in (1, 2)]
    assert results == [[{"fpga": [0, 1]}, "0,1"], [{}, None]]
