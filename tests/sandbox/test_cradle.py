"""The cradle: what is born from it is a child of whoever asked, in its group; its own death costs one birth."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.execute import cgroups, controllers, cradle
from rota.execute.cradle import Order
from rota.execute.cradle_link import CradleLink

WORDS = st.text(st.characters(exclude_characters="\0"), max_size=20).filter(
    lambda word: (
        not any("\ud800" <= letter < "\udc80" or letter > "\udcff" for letter in word if "\ud800" <= letter <= "\udfff")
    )
)


@pytest.fixture
def group() -> Iterator[str]:
    mounted, _ = controllers.mounts_of(Path("/proc/self/mountinfo").read_text())
    assert mounted is not None, "this machine has no v2 tree"
    folder = f"{mounted}/rota-cradle-test-{os.getpid()}"
    os.mkdir(folder)
    yield folder
    assert cgroups.sweep(folder)


@pytest.fixture
def link() -> Iterator[CradleLink]:
    link = CradleLink()
    yield link
    with contextlib.suppress(ProcessLookupError):
        if link.process:
            os.kill(link.process, signal.SIGKILL)
            os.waitpid(link.process, 0)


def _order(*argv: str, group: str = "") -> Order:
    return Order(uid=-1, file_bytes=0, processes=0, mark="ROTA_WORKDIR=/x", unified=group, tasks=[], argv=list(argv))


@contextlib.contextmanager
def _descriptors() -> Iterator[tuple[list[int], int]]:
    """What a birth is handed, and where its trouble can be read."""
    trouble, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        yield [null, tell, null, null, null, null], trouble
    finally:
        for descriptor in (trouble, tell, null):
            os.close(descriptor)


@given(st.integers(-1, 2**31), st.lists(WORDS, max_size=3), st.lists(WORDS, min_size=1, max_size=5))
def test_an_order_arrives_as_it_was_given(uid: int, tasks: list[str], argv: list[str]) -> None:
    order = Order(uid=uid, file_bytes=1, processes=2, mark="a=b", unified="/g", tasks=tasks, argv=argv)
    read = cradle.decode(order.encode())
    assert [getattr(read, name) for name in Order.__slots__] == [getattr(order, name) for name in Order.__slots__]


def test_what_is_born_is_our_own_child_and_in_its_group(link: CradleLink, group: str) -> None:
    with _descriptors() as (descriptors, _):
        process = link.bear(_order("/bin/sleep", "60", group=group), descriptors)
    assert process is not None
    assert str(process) in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert cgroups.members(group) == [process]
    os.kill(process, signal.SIGKILL)
    assert os.waitpid(process, 0)[0] == process


def test_a_birth_that_fails_says_at_which_step(link: CradleLink) -> None:
    with _descriptors() as (descriptors, trouble):
        process = link.bear(_order("/no/such/program"), descriptors)
        assert process is not None
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == cradle.NOT_STARTED
        assert os.read(trouble, 4096) == b"2\0bubblewrap\0No such file or directory"


def test_a_cradle_that_died_is_replaced(link: CradleLink, group: str) -> None:
    with _descriptors() as (descriptors, _):
        first = link.bear(_order("/bin/true"), descriptors)
        assert first is not None
        os.waitpid(first, 0)
        died = link.process
        os.kill(died, signal.SIGKILL)
        with pytest.raises(OSError, match="does not answer"):
            while True:  # its socket may take an order or two that nobody reads
                link.bear(_order("/bin/true", group=group), descriptors)
        assert link.process == 0
        with pytest.raises(ChildProcessError):
            os.waitpid(died, 0)  # nobody needs to, any more: it was dead before its group was cleared
        second = link.bear(_order("/bin/true"), descriptors)
    assert second is not None
    assert link.process not in (0, died)
    assert os.waitpid(second, 0) == (second, 0)


def test_a_cradle_that_was_reaped_is_replaced_without_a_word(link: CradleLink) -> None:
    with _descriptors() as (descriptors, _):
        os.waitpid(link.bear(_order("/bin/true"), descriptors) or 0, 0)
        died = link.process
        os.kill(died, signal.SIGKILL)
        os.waitpid(died, 0)
        link.ended(died)
        again = link.bear(_order("/bin/true"), descriptors)
    assert again is not None
    assert os.waitpid(again, 0) == (again, 0)


def test_the_cradle_leaves_when_nobody_can_ask_it_any_more(link: CradleLink) -> None:
    with _descriptors() as (descriptors, _):
        os.waitpid(link.bear(_order("/bin/true"), descriptors) or 0, 0)
    process, link.process = link.process, 0
    link.ended(0)
    assert os.waitpid(process, 0) == (process, 0)
