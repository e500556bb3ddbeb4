"""GPUs: which device an attempt gets, that it is told, and that parts of one never add up to more than it."""

from __future__ import annotations

from collections.abc import Callable

from rota.execute.devices import Devices
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from tests.capabilities import exercised
from tests.execute.stub_server import CAPACITY, StartAgent, StubServer, function, shell

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
        await server.start(shell(1, TELL), room=Resources(cpu_milli=100, gpus=2))
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
        await server.start(*(shell(task, "echo $ROTA_GPUS; sleep 0.3") for task in (1, 2)), room=HALF)
        await server.start(shell(3, "echo $ROTA_GPUS"), room=ONE)
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
        from rota.execute.context import current
        def gpus():
            time.sleep(0.2)
            return list(current().gpus)
        """
    )
    async with agent(capacity=TWO_GPUS):
        await server.start(*(function(task, f"{module}:gpus") for task in (1, 2)), room=ONE)
        results = [await server.result(task) for task in (1, 2)]
    assert sorted(result.result or b"" for result in results) == [b"[0]", b"[1]"]
