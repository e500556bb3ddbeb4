"""The sandbox's system-call filter: a small BPF program that refuses calls no task needs.

A list of refusals, not of permissions: users bring any program, and a new libc must not break them. Refused are calls
through which kernels were broken and ways out of the sandbox: namespaces, mounts, modules, tracing, keys, BPF,
io_uring, raw packets, typing into a terminal. Refused calls return EPERM (`clone3` ENOSYS, so that libc falls back to
`clone`, whose flags can be checked); a foreign instruction set ends the process.
"""

from __future__ import annotations

import errno
import platform
import struct

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL = 0x80000000

_LD = 0x20  # load a word of seccomp_data
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_RET = 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in seccomp_data

_NAMESPACES = 0x7E020080  # every CLONE_NEW… flag that `clone` takes
_REFUSED_FAMILIES = (17, 29, 38, 40, 44)  # packet, CAN, kernel crypto, VM sockets, XDP
_REFUSED_IOCTLS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into a terminal

# name: (x86-64, 64-bit ARM); None where it does not exist
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
_MACHINES: dict[str, tuple[int, int, int, int, int]] = {
    # audit number of the architecture, then the numbers of clone, clone3, ioctl and socket
    "x86_64": (0xC000003E, 56, 435, 16, 41),
    "aarch64": (0xC00000B7, 220, 435, 29, 198),
}
_X32_CALLS = 0x40000000  # on x86-64: a second set of numbers for the same calls


class NoFilter(RuntimeError):
    """There is no filter for this processor, and so no sandbox."""


def program(machine: str | None = None) -> bytes:
    """The filter as the kernel reads it, for this machine unless another one is named."""
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise NoFilter(f"there is no system-call filter for {name} machines; there are for {', '.join(_MACHINES)}")
    architecture, clone, clone3, ioctl, socket = _MACHINES[name]
    column = list(_MACHINES).index(name)
    refused = sorted(number for numbers in _REFUSED.values() if (number := numbers[column]) is not None)
    filter_ = [
        _step(_LD, _ARCH),
        _step(_JEQ, architecture, 1, 0),
        _step(_RET, _KILL),
        _step(_LD, _NUMBER),
    ]
    if name == "x86_64":
        filter_ += [_step(_JGE, _X32_CALLS, 0, 1), _step(_RET, _refuse(errno.ENOSYS))]
    filter_ += _when(clone, _argument(0, _step(_JSET, _NAMESPACES, 0, 1), _step(_RET, _refuse(errno.EPERM))))
    filter_ += [_step(_JEQ, clone3, 0, 1), _step(_RET, _refuse(errno.ENOSYS))]
    filter_ += _when(ioctl, _any_of(1, _REFUSED_IOCTLS))
    filter_ += _when(socket, _any_of(0, _REFUSED_FAMILIES))
    for number in refused:
        filter_ += [_step(_JEQ, number, 0, 1), _step(_RET, _refuse(errno.EPERM))]
    filter_.append(_step(_RET, _ALLOW))
    return b"".join(filter_)


def _when(number: int, steps: list[bytes]) -> list[bytes]:
    """The steps for one call; with another number they are skipped. Every path ends with a return."""
    return [_step(_JEQ, number, 0, len(steps)), *steps]


def _argument(index: int, *steps: bytes) -> list[bytes]:
    return [_step(_LD, _ARGUMENTS + 8 * index), *steps, _step(_RET, _ALLOW)]


def _any_of(index: int, values: tuple[int, ...]) -> list[bytes]:
    steps: list[bytes] = []
    for value in values:
        steps += [_step(_JEQ, value, 0, 1), _step(_RET, _refuse(errno.EPERM))]
    return _argument(index, *steps)


def _refuse(number: int) -> int:
    return _ERRNO | number


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
