"""The pure parts of the agent: which attempt starts, how long it may run without a leader, values as JSON."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.execute.attempts.attempt import Attempt, Phase
from rota.execute.attempts.grants import Grants
from rota.execute.child.context import NotInTask, current
from rota.execute.functions.run_times import UNKNOWN, RunTimes
from rota.execute.machine.capacity import detect_capacity, parse_capacity
from rota.model import strict_json
from rota.model.fence import NEVER, Fence
from rota.model.resources import Resources
from tests.execute.stub_server import command


def attempt(task: int, cpu_milli: int) -> Attempt:
    return Attempt(command(task, "true"), str(cpu_milli).encode(), Resources(cpu_milli=cpu_milli))


def started(grants: Grants) -> list[int]:
    found = []
    while (run := grants.next()) is not None:
        found.append(run.key[0])
    return found


def test_runs_start_in_order_of_arrival_and_smaller_ones_pass_what_does_not_fit() -> None:
    grants = Grants(Resources(cpu_milli=1000))
    for run in (attempt(1, 600), attempt(2, 600), attempt(3, 300), attempt(4, 300), attempt(5, 100)):
        grants.wait(run)
    assert started(grants) == [1, 3, 5]
    grants.release(Resources(cpu_milli=600))
    assert started(grants) == [2]


def test_a_large_run_is_not_passed_over_for_ever() -> None:
    grants = Grants(Resources(cpu_milli=1000))
    for run in (attempt(1, 100), attempt(2, 1000)):
        grants.wait(run)
    assert started(grants) == [1]
    passed = 0
    while passed < 10_000:
        grants.wait(attempt(10 + passed, 100))
        if not started(grants):
            break
        grants.release(Resources(cpu_milli=100))
        passed += 1
    assert passed < 1000
    grants.release(Resources(cpu_milli=100))
    assert started(grants)[0] == 2


def test_withdrawn_runs_are_skipped_and_returned_ones_keep_their_position() -> None:
    grants = Grants(Resources(cpu_milli=1000))
    runs = [attempt(task, 1000) for task in range(1, 5)]
    for run in runs:
        grants.wait(run)
    assert started(grants) == [1]
    runs[1].phase = Phase.ENDED
    behind = grants.peek(runs[0].shape)
    assert behind is runs[2]
    grants.follow(behind)
    grants.put_back([behind])
    grants.release(Resources(cpu_milli=1000))
    assert started(grants) == [3]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1200)), max_size=80))
def test_the_sum_granted_never_exceeds_capacity(steps: list[tuple[bool, int]]) -> None:
    """I13: whatever arrives and ends in whatever order."""
    capacity = Resources(cpu_milli=1000)
    grants = Grants(capacity)
    running: list[Attempt] = []
    for task, (arrives, amount) in enumerate(steps):
        if arrives and amount <= 1000:
            grants.wait(attempt(task, amount))
        elif running:
            grants.release(running.pop(amount % len(running)).grant)
        while (run := grants.next()) is not None:
            running.append(run)
        assert sum(run.grant.cpu_milli for run in running) <= 1000
        assert grants.free.cpu_milli == 1000 - sum(run.grant.cpu_milli for run in running)


def test_the_fence_counts_from_the_sending_of_the_last_acknowledged_heartbeat() -> None:
    fence: Fence[str] = Fence(100.0)
    assert fence.next_at() == NEVER
    fence.add("short", 20_000)
    fence.add("long", 170_000)
    assert fence.next_at() == 119.5
    assert fence.past(119.4) == []
    assert fence.past(119.5) == ["short"]
    fence.trust(110.0)
    fence.trust(105.0)
    assert fence.next_at() == 129.5
    fence.discard("short", 20_000)
    assert fence.next_at() == 279.5


@pytest.mark.parametrize("value", [None, True, 1, 2**70, 1.5, "é", [1, (2, {"a": None})], {"a": []}])
def test_json_values_are_encoded_as_they_are(value: object) -> None:
    assert strict_json.encode(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.inf, "inf"),
        ([{"a": math.nan}], r"\[0\]\['a'\]"),
        ({1: 2}, "key of type int"),
        (object(), "of type object"),
        ({"s": [range(2)]}, "range"),
        (Path("x"), "pathlib.PosixPath"),
        ("\ud800", "not JSON"),
    ],
)
def test_what_is_not_json_is_refused_by_name(value: object, words: str) -> None:
    with pytest.raises(strict_json.NotJson, match=words):
        strict_json.encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(strict_json.NotJson, match="contains itself"):
        strict_json.encode(value)


def test_capacity_is_detected_and_overridden(tmp_path: Path) -> None:
    detected = detect_capacity(tmp_path / "not" / "there")
    assert detected.cpu_milli > 0
    assert detected.memory_bytes > 2**20
    assert (detected.ports, detected.iops, detected.bandwidth_kbit, detected.gpus) == (1000, 0, 0, 0)
    parsed = parse_capacity("cpu=1.5,memory=16G,gpu=1,license=2,iops=5k,bandwidth=1G,ports=10", detected)
    assert (parsed.cpu_milli, parsed.memory_bytes, parsed.gpus) == (1500, 16 * 10**9, 1)
    assert (parsed.iops, parsed.bandwidth_kbit, parsed.ports) == (5000, 1_000_000, 10)
    assert parsed.custom == {"license": 2}
    assert parsed.disk_bytes == detected.disk_bytes


@pytest.mark.parametrize("text", ["cpu", "cpu=", "gpu=x", "license=1.5", "cpu=-1", "iops=fast", "ports=1"])
def test_a_capacity_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|less than nothing"):
        parse_capacity(text, Resources())


def test_parts_of_a_gpu_are_granted_until_it_is_full_and_a_whole_one_only_when_it_is_free() -> None:
    half, whole = Resources(gpu_milli=500), Resources(gpus=1)
    free = Resources(gpus=1).minus(half)
    assert half.fits_in(free)
    assert not whole.fits_in(free)
    assert not Resources(gpu_milli=501).fits_in(free)
    assert not half.fits_in(free.minus(half))
    assert whole.fits_in(free.plus(half))


def test_run_times_are_unknown_until_learned_and_then_follow_slowly() -> None:
    times = RunTimes()
    assert times.mean_us(1, "f") == UNKNOWN
    times.learn(1, "f", 100)
    times.learn(1, "f", 200)
    assert times.mean_us(1, "f") == pytest.approx(120)


def test_a_new_name_is_expected_to_take_what_its_tenants_calls_usually_take() -> None:
    times = RunTimes()
    for name, run_us in (("f-1", 100), ("f-2", 200)):
        times.learn(1, name, run_us)
    assert times.mean_us(1, "f-3") == pytest.approx(120)
    assert times.mean_us(2, "f-3") == UNKNOWN
    times.learn(1, "slow", 10_000_000)
    assert times.mean_us(1, "slow") == 10_000_000
    assert times.mean_us(1, "f-1") == 100


def test_there_is_no_current_task_outside_a_task() -> None:
    with pytest.raises(NotInTask, match="only inside a function"):
        current()
