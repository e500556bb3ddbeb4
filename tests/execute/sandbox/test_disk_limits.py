"""What a task's folder may hold: bytes and files, found soon enough, whatever the task was granted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.execute.attempts.attempt import over_limit
from rota.execute.attempts.sharing import SCRATCH_BYTES, limits_of
from rota.execute.keeper import folder_size, limit_watch
from rota.execute.keeper.limit_watch import DISK, FILES, Watch
from rota.execute.keeper.unit import Unit
from rota.model.attempt import Outcome
from rota.model.isolation import Isolation
from rota.model.resources import Resources
from tests.execute.sandbox.test_limits import CAPACITY, MIB, confined, plain
from tests.execute.stub_server import StartAgent, StubServer

SOON = 0.006  # seconds: long before the first check


def unit_with(folder: Path, disk_bytes: int) -> Unit:
    unit = Unit(1, str(folder), 0)
    unit.disk_bytes, unit.main = disk_bytes, os.getpid()
    return unit


# ---- bytes ----------------------------------------------------------------------------------------------------------


def test_a_small_grant_that_is_exceeded_at_once_is_noticed_before_the_first_check(tmp_path: Path) -> None:
    """A check every 100 ms lets a task write fifty megabytes more."""
    unit, watch = unit_with(tmp_path, 4 * MIB), Watch(samples_memory=False)
    watch.wake(unit, 0.0)
    assert watch.due_at < SOON
    assert list(watch.look([unit], SOON)) == []
    (tmp_path / "large").write_bytes(os.urandom(6 * MIB))
    assert watch.due_at < 2 * SOON
    assert list(watch.look([unit], 2 * SOON)) == [unit]
    assert (unit.over[0], unit.over[1] >= 6 * MIB) == (DISK, True)


def test_a_folder_near_its_limit_is_counted_again_only_if_the_disk_has_lost_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Unit] = []

    def slices(unit: Unit, most_entries: int) -> Iterator[int]:
        counted.append(unit)
        yield 0

    free = 1000 * MIB
    monkeypatch.setattr(folder_size, "slices", slices)
    monkeypatch.setattr(folder_size, "free_bytes", lambda folder: free)
    unit, watch = unit_with(tmp_path, 10 * MIB), Watch(samples_memory=False)
    watch.wake(unit, 0.0)
    for moment in (0.01, 0.02, 0.03):
        assert list(watch.look([unit], moment)) == []
    assert counted == []
    free -= 4 * MIB
    assert list(watch.look([unit], 0.04)) == []
    assert counted == []
    free -= 1 * MIB
    assert list(watch.look([unit], 0.05)) == []
    assert counted == [unit]


def test_a_grant_that_can_not_be_used_up_before_the_next_check_costs_no_further_look(tmp_path: Path) -> None:
    unit, watch = unit_with(tmp_path, 10**9), Watch(samples_memory=False)
    watch.wake(unit, 0.0)
    assert watch.due_at == 0.1
    assert list(watch.look([unit], 0.1)) == []
    assert watch.due_at >= 0.2


def test_a_unit_that_has_ended_is_no_longer_looked_at(tmp_path: Path) -> None:
    unit, watch = unit_with(tmp_path, MIB), Watch(samples_memory=False)
    watch.wake(unit, 0.0)
    unit.ended_at = 0.01
    assert list(watch.look([], 0.2)) == []
    assert watch.due_at == float("inf")


# ---- a grant of nothing -----------------------------------------------------------------------------------------------


def test_an_isolated_task_without_disk_space_is_limited_and_a_trusted_one_is_not() -> None:
    grant = Resources(cpu_milli=1000, memory_bytes=MIB)
    limited = {isolation: limits_of(grant, 0, isolation).disk_bytes for isolation in Isolation}
    assert limited == {"none": 0, "sandbox": SCRATCH_BYTES, "container": SCRATCH_BYTES}
    assert limits_of(Resources(disk_bytes=5), 0, Isolation.SANDBOX).disk_bytes == 5


@pytest.mark.parametrize(
    "text",
    [
        "open('large', 'wb').write(bytes(50 << 20))\n",
        "for number in range(50):\n    open(f'{number}', 'wb').write(bytes(1 << 20))\n",
    ],
    ids=["one file", "many files"],
)
async def test_a_sandboxed_task_without_disk_space_can_not_fill_the_disk(
    agent: StartAgent, server: StubServer, text: str
) -> None:
    async with agent(capacity=CAPACITY):
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB)
        await server.start(confined(1, text), confined(2, "open('small', 'wb').write(bytes(1 << 20))\n"), grant=grant)
        over, within = await server.result(1), await server.result(2)
    assert over.failure is not None
    assert over.failure.message.startswith("went over its disk space: none but 2M for small files granted, ")
    assert within.outcome is Outcome.OK


async def test_a_trusted_task_without_disk_space_is_not_limited(agent: StartAgent, server: StubServer) -> None:
    async with agent(capacity=CAPACITY):
        grant = Resources(cpu_milli=1000, memory_bytes=64 * MIB)
        await server.start(plain(1, "open('large', 'wb').write(bytes(5 << 20))\n"), grant=grant)
        assert (await server.result(1)).outcome is Outcome.OK  # an operator trusts its tenant


# ---- files ------------------------------------------------------------------------------------------------------------


def test_names_are_counted_first_so_that_too_many_files_are_found_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million sizes take four seconds, a twentieth of the time at most: the task's cap came before."""
    monkeypatch.setattr(folder_size, "MANY_ENTRIES", 20)
    monkeypatch.setattr(folder_size, "_ENTRIES_PER_SLICE", 10)
    monkeypatch.setattr(folder_size, "_NAMES_PER_SLICE", 100)
    (tmp_path / "inner").mkdir()
    for number in range(600):
        (tmp_path / "inner" / str(number)).touch()
    slices = list(folder_size.folder_slices(str(tmp_path), 500))
    assert slices[-1] is None
    assert len(slices) <= 8
    counted = list(folder_size.folder_slices(str(tmp_path), 601))
    assert None not in counted
    assert len(counted) > 60


def test_a_folder_with_many_files_gets_more_of_the_time_and_long_counts_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = 0.0

    def cpu_time() -> float:
        nonlocal used
        used += 0.05  # each check takes so long
        return used

    def endless(unit: Unit, most_entries: int) -> Iterator[int]:
        while True:
            slices.append(unit)
            yield 0

    slices: list[Unit] = []
    monkeypatch.setattr(limit_watch.time, "process_time", cpu_time)
    monkeypatch.setattr(folder_size, "slices", endless)
    units = [unit_with(tmp_path, 10**9) for _ in range(3)]
    watch = Watch(samples_memory=False)
    for unit in units:
        watch.wake(unit, 0.0)
    assert list(watch.look(units, 1.0)) == []
    assert watch.due_at == pytest.approx(1.2)
    slices.clear()
    for moment in (2.0, 3.0, 4.0):
        assert list(watch.look(units, moment)) == []
    assert [slices.count(unit) for unit in units] == [8, 8, 8]
    assert len({id(unit) for unit in slices[:8]}) == 1


def test_a_folder_with_more_files_than_allowed_is_over_its_limit_whatever_was_granted(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    unit = unit_with(tmp_path, limits_of(Resources(), 0, Isolation.SANDBOX).disk_bytes)
    watch = Watch(samples_memory=False, most_entries=20)
    watch.wake(unit, 0.0)
    assert list(watch.look([unit], 1.0)) == [unit]
    assert unit.over == (FILES, 20)


# ---- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "said"), [(8, "8 granted, 8 used and more asked for"), (11, "8 granted, 11 used")], ids=["refused", "seen"]
)
def test_the_process_limit_says_how_many_were_granted_and_used(used: int, said: str) -> None:
    failure = over_limit(Resources(), "pids-limit", used, processes=8)
    assert failure.message == f"went over its processes: {said}"
