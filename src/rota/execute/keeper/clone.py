"""A fork that is born inside a control group.

To enter a v2 group later, a process must be moved, and to move one the kernel waits for an RCU grace period: ten
milliseconds, where the fork takes one. `clone3` has had a way around that since Linux 5.7, but Python has no name for
it. Only for programs of one thread: what the C library does around its own fork, for others that might hold a lock,
is left out. Standard library only: the keeper uses it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal

_SYS_CLONE3 = 435  # on every architecture
_CLONE_INTO_CGROUP = 0x2_0000_0000
NOT_HERE = frozenset(
    (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP, errno.EACCES, errno.EBUSY)
)

# PyDLL keeps the interpreter's lock: parent and child come back as if nothing had happened.
_syscall = ctypes.PyDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


class _Arguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal"),
            *("stack", "stack_size", "tls", "set_tid", "set_tid_size", "cgroup"),
        )
    ]


def fork(group: int) -> int:
    """The process, 0 in the child. OSError: it can't be had.

    `group`: a descriptor of the v2 group it is born in, -1 for none; one in which somebody was ever killed will do no
    more.
    """
    if group < 0:
        return os.fork()
    arguments = _Arguments(flags=_CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=group)
    process = int(_syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)))
    if process < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return process
