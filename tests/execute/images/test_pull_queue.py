"""Which image is pulled next."""

from __future__ import annotations

from rota.execute.images.pull_queue import (
    AT_ONCE,
    AT_ONCE_OF_TENANT,
    REMEMBERED_SECONDS,
    STALE_SECONDS,
    WAITING_OF_TENANT,
    PullQueue,
)


def running(queue: PullQueue, now: float = 0.0) -> list[str]:
    begun = []
    while (image := queue.next(now)) is not None:
        begun.append(image)
    return begun


def test_a_tenant_and_a_node_pull_so_many_images_at_once() -> None:
    queue = PullQueue()
    for tenant in (1, 2, 3):
        for number in range(5):
            queue.ask(tenant, f"t{tenant}/{number}", 0.0)
    begun = running(queue)
    assert begun == ["t1/0", "t2/0", "t3/0", "t1/1"]
    assert len(begun) == AT_ONCE
    alone = PullQueue()
    for number in range(5):
        alone.ask(1, str(number), 0.0)
    assert running(alone) == ["0", "1"]
    assert AT_ONCE_OF_TENANT == 2


def test_tenants_take_turns_however_many_images_one_of_them_wants() -> None:
    queue = PullQueue()
    for number in range(WAITING_OF_TENANT):
        queue.ask(1, f"flood/{number}", 0.0)
    queue.ask(2, "late", 0.0)
    first = running(queue)
    assert first == ["flood/0", "late", "flood/1"]
    queue.ended("flood/0", failed=True, now=1.0)
    queue.ask(2, "later", 1.0)
    assert running(queue, 1.0) == ["flood/2", "later"]


def test_an_image_is_pulled_once_however_often_it_is_asked_for() -> None:
    queue = PullQueue()
    for tenant in (1, 1, 2):
        queue.ask(tenant, "same", 0.0)
    assert running(queue) == ["same"]
    queue.ask(3, "same", 1.0)
    assert running(queue, 1.0) == []
    queue.ended("same", failed=False, now=2.0)
    assert running(queue, 2.0) == []


def test_an_image_that_nobody_asks_for_any_more_is_not_pulled() -> None:
    queue = PullQueue()
    for image in ("a", "b", "gone", "kept"):
        queue.ask(1, image, 0.0)
    assert running(queue) == ["a", "b"]
    queue.ask(1, "kept", STALE_SECONDS)
    queue.ended("a", failed=False, now=STALE_SECONDS)
    assert running(queue, STALE_SECONDS) == ["kept"]


def test_a_tenant_has_so_many_images_waiting() -> None:
    queue = PullQueue()
    for number in range(10 * WAITING_OF_TENANT):
        queue.ask(1, str(number), 0.0)
    pulled = []
    while begun := running(queue):
        for image in begun:
            pulled.append(image)
            queue.ended(image, failed=False, now=0.0)
    assert pulled == [str(number) for number in range(WAITING_OF_TENANT)]


def test_a_failed_pull_is_remembered_for_a_while() -> None:
    queue = PullQueue()
    queue.ask(1, "bad", 0.0)
    assert running(queue) == ["bad"]
    queue.ended("bad", failed=True, now=10.0)
    assert queue.has_failed("bad", 10.0 + REMEMBERED_SECONDS - 1)
    assert not queue.has_failed("bad", 10.0 + REMEMBERED_SECONDS)
    assert not queue.has_failed("good", 10.0)
