"""GPUs: saved for tasks that ask for them, shared by fractions, whole as long as possible. And other rules of placement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.decide.messages import AttemptAdopted, AttemptEnded
from rota.model.queue import AuthorisedAttempt
from tests.decide.auditor import audit
from tests.decide.scene import GIGABYTE, Scene


def _devices(scene: Scene) -> dict[int, tuple[int, ...]]:
    return {task: running.devices for task, running in scene.core.state.running.items()}


# ---- kept for GPU work ----------------------------------------------------------------------------------------------


def test_plain_work_goes_where_there_are_no_gpus_however_well_it_would_fit_beside_them() -> None:
    scene = Scene()
    plain = scene.tasks(4, cpus=2)
    scene.worker(cpus=2, gpus=8)
    scene.worker(cpus=64).expects(*plain)
    scene.decide()


def test_plain_work_uses_a_gpu_worker_rather_than_wait() -> None:
    scene = Scene()
    plain = scene.tasks(3, cpus=2)
    scene.worker(cpus=2, gpus=8).expects(plain[1])
    scene.worker(cpus=3).expects(plain[0])
    scene.decide()


def test_plain_work_that_must_use_a_gpu_worker_takes_the_one_whose_gpus_are_taken() -> None:
    scene = Scene()
    training = scene.task(cpus=1, gpus=2)
    used = scene.worker(cpus=8, gpus=2).expects(training)
    scene.decide()
    scene.worker(cpus=8, gpus=2)
    plain = scene.task(cpus=1)
    used.expects(plain)
    scene.decide()


# ---- fractions ------------------------------------------------------------------------------------------------------


def test_fractions_share_a_device() -> None:
    scene = Scene()
    halves = scene.tasks(3, gpus=0.5)
    scene.worker(cpus=8, gpus=1).expects(*halves[:2])
    scene.decide()
    assert _devices(scene) == {halves[0].id: (0,), halves[1].id: (0,)}


def test_no_device_is_given_beyond_itself_though_the_sum_would_do() -> None:
    scene = Scene()
    parts = scene.tasks(4, gpus=0.6)
    scene.worker(cpus=8, gpus=2).expects(*parts[:2])
    scene.decide()  # 0.8 of a device is left, but of no one device
    assert sorted(_devices(scene).values()) == [(0,), (1,)]
    audit(scene.core.state)


def test_a_fraction_goes_where_the_least_is_left_beside_it() -> None:
    scene = Scene()
    first = scene.task(gpus=0.7)
    second = scene.task(gpus=0.5, start_by=4000)
    worker = scene.worker(cpus=8, gpus=3).expects(first, second)
    scene.decide()
    third = scene.task(gpus=0.3)
    worker.expects(third)
    scene.decide()
    assert _devices(scene)[third.id] == _devices(scene)[first.id]


def test_whole_devices_stay_whole_as_long_as_possible() -> None:
    scene = Scene()
    parts = scene.tasks(8, gpus=0.25, cpus=0.5)
    worker = scene.worker(cpus=16, gpus=4).expects(*parts)
    scene.decide()
    whole = scene.task(gpus=2)
    worker.expects(whole)
    scene.decide()
    assert len(set(_devices(scene)[whole.id])) == 2
    assert len({devices for task, devices in _devices(scene).items() if task != whole.id}) == 2


def test_whole_devices_on_another_worker_stay_whole_too() -> None:
    scene = Scene()
    first = scene.task(gpus=0.5)
    scene.order()
    one = scene.worker(cpus=8, gpus=1).expects(first)
    scene.decide()
    scene.worker(cpus=8, gpus=1)
    second = scene.task(gpus=0.5)
    one.expects(second)
    scene.decide()


def test_who_asks_for_whole_devices_has_them_alone() -> None:
    scene = Scene()
    part = scene.task(gpus=0.1, start_by=1)
    whole = scene.task(gpus=1, start_by=2)
    scene.task(gpus=1, start_by=3)
    scene.worker(cpus=8, gpus=2).expects(part, whole)
    scene.decide()
    assert set(_devices(scene)[part.id]).isdisjoint(_devices(scene)[whole.id])


def test_a_device_that_is_given_back_is_whole_again() -> None:
    scene = Scene()
    parts = scene.tasks(2, gpus=0.5)
    whole = scene.task(gpus=1, start_by=4000)
    worker = scene.worker(cpus=8, gpus=1).expects(*parts)
    scene.decide()
    scene.ends(parts[0])
    scene.decide()
    scene.ends(parts[1])
    worker.expects(whole)
    scene.decide()


def test_attempts_of_an_earlier_leader_hold_their_devices() -> None:
    scene = Scene()
    worker = scene.worker(cpus=8, gpus=2)
    whole = scene.task(gpus=1)
    for number in (1000, 1001):
        held = AuthorisedAttempt(number, 1, 1, whole.shape, worker.id, 1, 30_000, 0, None, 1, False)
        scene.apply(AttemptAdopted(held))
    audit(scene.core.state)
    scene.decide()


fractions = st.sampled_from([0, 0.1, 0.25, 0.4, 0.5, 0.7, 1, 2])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    workers=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    steps=st.lists(st.tuples(fractions, st.integers(1, 3), st.booleans()), min_size=1, max_size=50),
)
def test_devices_are_never_given_twice(workers: list[int], steps: list[tuple[float, int, bool]]) -> None:
    """Invariant: whatever starts and ends, the devices each task has and what is left of them add up."""
    scene = Scene()
    for devices in workers:
        scene.worker(cpus=8, gpus=devices)
    for gpus, cpus, ends in steps:
        scene.task(gpus=gpus, cpus=cpus)
        scene.order()
        audit(scene.core.state)
        if ends and scene.core.state.running:
            scene.apply(AttemptEnded(next(iter(scene.core.state.running)), None))
            audit(scene.core.state)


# ---- not where it failed --------------------------------------------------------------------------------------------


def test_a_task_does_not_go_back_to_the_worker_where_it_failed() -> None:
    scene = Scene()
    broken = scene.worker(cpus=1)
    other = scene.worker(cpus=64)
    again = scene.task(avoid=broken)
    other.expects(again)
    scene.decide()


def test_it_goes_back_there_when_there_is_no_other() -> None:
    scene = Scene()
    broken = scene.worker(cpus=1)
    scene.worker(cpus=64, labels={"zone": "b"}).drains()
    again = scene.task(avoid=broken)
    broken.expects(again)
    scene.decide()


def test_others_of_its_kind_go_there_all_the_same() -> None:
    scene = Scene()
    broken = scene.worker(cpus=2)
    other = scene.worker(cpus=3)
    again = scene.task(avoid=broken, start_by=1)
    fresh = scene.tasks(2, start_by=2)
    other.expects(again)
    broken.expects(*fresh)
    scene.decide()


# ---- labels and names -----------------------------------------------------------------------------------------------


def test_a_label_is_stronger_than_saving_gpus() -> None:
    scene = Scene()
    scene.worker(cpus=64)
    task = scene.task(require={"zone": "a"})
    scene.worker(cpus=4, gpus=4, labels={"zone": "a"}).expects(task)
    scene.decide()


def test_labels_that_a_worker_brings_back_changed_count_from_then_on() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4, labels={"zone": "a"})
    task = scene.task(require={"zone": "b"})
    scene.decide()
    scene.rejoin(worker, cpus=4, labels={"zone": "b"})
    worker.expects(task)
    scene.decide()


def test_custom_resources_are_counted_by_name() -> None:
    scene = Scene()
    first, second = scene.tasks(2, license=1)
    tape = scene.task(tape=1)
    worker = scene.worker(cpus=8, license=1, tape=3).expects(first, tape)
    scene.decide()
    assert worker.free.custom == {"license": 0, "tape": 2}
    scene.ends(first)
    worker.expects(second)
    scene.decide()


def test_a_custom_resource_met_after_the_worker_came_is_simply_not_there() -> None:
    scene = Scene()
    scene.worker(cpus=8)
    scene.task(dongle=1)
    scene.decide()
    plain = scene.task()
    scene.worker(cpus=1, dongle=0).expects(plain)
    scene.decide()


@pytest.mark.parametrize("memory", [1, 7])
def test_the_worker_with_the_least_left_over_is_taken(memory: int) -> None:
    scene = Scene()
    for cpus in (16, 12, 9):
        scene.worker(cpus=cpus, memory=8 * GIGABYTE)
    tight = scene.worker(cpus=8, memory=8 * GIGABYTE)
    tight.expects(scene.task(cpus=7, memory=memory * GIGABYTE))
    scene.decide()
