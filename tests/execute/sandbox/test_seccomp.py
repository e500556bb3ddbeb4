"""The system-call filter: its program run step by step here, and its numbers against the kernel's own tables.

That the kernel runs it the same way is shown by the hostile tasks.
"""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from rota.execute.sandbox import seccomp

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
NO, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMNS = {"x86_64": 0, "aarch64": 1}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Younger than some headers. All calls since 5.1 have one number on every architecture.
YOUNG = {"open_tree_attr"}
ORDINARY = {
    "x86_64": {
        "read": 0,
        "write": 1,
        "mmap": 9,
        "fork": 57,
        "execve": 59,
        "kill": 62,
        "socketpair": 53,
        "openat": 257,
        "seccomp": 317,
        "getrandom": 318,
        "pidfd_open": 434,
        "landlock_create_ruleset": 444,
    },
    "aarch64": {
        "read": 63,
        "write": 64,
        "mmap": 222,
        "execve": 221,
        "kill": 129,
        "socketpair": 199,
        "openat": 56,
        "seccomp": 277,
        "getrandom": 278,
        "pidfd_open": 434,
        "landlock_create_ruleset": 444,
    },
}
machines = pytest.mark.parametrize("machine", ARCHITECTURES)


def answer(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """The filter's answer to one call, as the kernel would compute it."""
    program = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    words = [argument & 0xFFFFFFFFFFFFFFFF for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, architecture or ARCHITECTURES[machine], 0, *words)
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x45:
                place += if_true if accumulator & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"step {code:x} is none we use")


@machines
def test_every_refused_call_answers_that_it_is_not_permitted(machine: str) -> None:
    numbers = {name: both[COLUMNS[machine]] for name, both in seccomp._REFUSED.items()}
    answers = {name: answer(machine, number) for name, number in numbers.items() if number is not None}
    assert answers == dict.fromkeys(answers, NO)


@machines
def test_ordinary_calls_are_allowed(machine: str) -> None:
    answers = {name: answer(machine, number) for name, number in ORDINARY[machine].items()}
    assert answers == dict.fromkeys(answers, ALLOWED)


@machines
def test_processes_and_threads_may_be_made_and_namespaces_not(machine: str) -> None:
    _, clone, clone3, _, _ = seccomp._MACHINES[machine]
    fork, thread = 17, 0x3D0F00
    assert answer(machine, clone, fork) == answer(machine, clone, thread) == ALLOWED
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, clone, fork | flag) == NO, f"{flag:x}"
    assert answer(machine, clone3, 0) == UNKNOWN, "libc falls back to clone"


@machines
def test_typing_into_a_terminal_is_refused_however_the_request_is_written(machine: str) -> None:
    ioctl = seccomp._MACHINES[machine][3]
    assert answer(machine, ioctl, 0, 0x5413) == ALLOWED
    for request in (0x5412, 0x541C, 0xFFFFFFFF00005412, 0x1_0000_541C):
        assert answer(machine, ioctl, 0, request) == NO, f"{request:x}"


@machines
def test_odd_families_of_sockets_are_refused(machine: str) -> None:
    socket = seccomp._MACHINES[machine][4]
    assert {family: answer(machine, socket, family) for family in (1, 2, 10, 16)} == dict.fromkeys(
        (1, 2, 10, 16), ALLOWED
    )
    assert {family: answer(machine, socket, family) for family in (17, 29, 38, 40, 44)} == dict.fromkeys(
        (17, 29, 38, 40, 44), NO
    )


@machines
def test_a_foreign_instruction_set_ends_the_process(machine: str) -> None:
    assert answer(machine, 0, architecture=0x40000003) == KILLED  # 32-bit x86
    assert answer(machine, 0, architecture=0x40000028) == KILLED  # 32-bit ARM


def test_the_second_set_of_numbers_on_x86_does_not_exist() -> None:
    assert answer("x86_64", 0x40000000) == answer("x86_64", 0x40000000 + 101) == answer("x86_64", -1) == UNKNOWN


def test_a_processor_without_a_table_has_no_filter() -> None:
    with pytest.raises(seccomp.NoFilter, match="riscv64"):
        seccomp.program("riscv64")


@machines
def test_the_numbers_are_the_kernels_own(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    text = header.read_text()
    kernels = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    own = dict(zip(("clone", "clone3", "ioctl", "socket"), seccomp._MACHINES[machine][1:], strict=True))
    for name, both in seccomp._REFUSED.items():
        if (number := both[COLUMNS[machine]]) is not None:
            own[name] = number
    assert set(own) - set(kernels) <= YOUNG
    assert {name: number for name, number in own.items() if kernels.get(name, number) != number} == {}
    absent = [name for name, both in seccomp._REFUSED.items() if both[COLUMNS[machine]] is None]
    assert [name for name in absent if name in kernels] == []
