"""Spawns a process that enters its control groups, limits, mount view and user number, then executes its program.

The compiled version (`_confined_exec.c`) shares the keeper's memory until the exec and costs a twentieth of a fork;
without it the process is forked and takes the same steps in Python. Either way it is spawned inside its v2 group where
the kernel can do that, and the caller learns at once which step failed, if one did.

To enter a v2 group later, a process must be moved, and the kernel then waits for an RCU grace period: ten milliseconds,
where a fork takes one. `clone3` avoids that (Linux 5.7), but Python has no function for it. `fork` here is only for
programs of one thread: it leaves out what the C library does for locks of other threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
from dataclasses import dataclass, field

from rota.execute.linux import mount_calls
from rota.execute.linux.cgroup_limits import write

try:
    from rota.execute.keeper import _confined_exec

    is_compiled = hasattr(_confined_exec, "spawn_program")  # false for one that was compiled from an older source
except ImportError:  # there was no compiler at the installation
    is_compiled = False

LOW_DESCRIPTORS = 10  # kept open, so that a received descriptor never collides with a child's 0 to 9
NOT_STARTED = 125
DEFAULTED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
    *(signal.SIGXFSZ, signal.SIGCHLD, signal.SIGQUIT),
)
STEPS = ("the spawn", "its descriptors", "the control groups", "the limits", "the mount view", "the user number", "")
_SPAWN, _DESCRIPTORS, _GROUPS, _LIMITS, _VIEW, _USER, _PROGRAM = range(len(STEPS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the new process becomes."""

    program: str  # a path
    argv: list[str]  # others on the machine can read it
    env: dict[str, str]
    descriptors: list[tuple[int, int]]  # ours, and its number in the new process
    unified: str | None = None  # its v2 group
    writes: list[tuple[str, str]] = field(default_factory=list)  # files and their content: how it enters v1 groups
    limits: list[tuple[int, int]] = field(default_factory=list)  # resource, maximum
    view: int | None = None  # the mount namespace to enter; None: ours
    uid: int | None = None  # None: ours


class SpawnFailed(Exception):
    """The process ended before it executed its program; `step` names the step, "" for the program itself."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__(f"{STEPS[step] or 'the program'}: {os.strerror(number)}")
        self.step = STEPS[step]
        self.number = number


def spawn(order: Order) -> int:
    """Our child process, which has executed its program. SpawnFailed: it has not, and nothing of it is left."""
    group = -1
    if order.unified is not None:
        group = os.open(order.unified, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        process, step, number = _spawn(order, group)
        if group >= 0 and step == _SPAWN and number in NOT_HERE:
            enter = (f"{order.unified}/cgroup.procs", "0")  # takes a lock that others may hold for milliseconds
            process, step, number = _spawn(order, -1, enter)
    finally:
        if group >= 0:
            os.close(group)
    if number:
        raise SpawnFailed(step, number)
    return process


def _spawn(order: Order, group: int, *more: tuple[str, str]) -> tuple[int, int, int]:
    """The process, or 0 with the failed step and the error number."""
    writes = [*order.writes, *more]
    if not is_compiled:
        return _forked(order, group, writes)
    return _confined_exec.spawn_program(
        os.fsencode(order.program),
        [os.fsencode(word) for word in order.argv],
        [os.fsencode(f"{name}={value}") for name, value in order.env.items()],
        order.descriptors,
        [os.fsencode(file) for file, _ in writes],
        [word.encode() for _, word in writes],
        order.limits,
        group,
        -1 if order.view is None else order.view,
        -1 if order.uid is None else order.uid,
    )


def _forked(order: Order, group: int, writes: list[tuple[str, str]]) -> tuple[int, int, int]:
    if any("\0" in word for word in (order.program, *order.argv, *order.env, *order.env.values())):
        raise ValueError("embedded null byte")  # as the compiled version says, before anything is spawned
    read_end, write_end = os.pipe2(os.O_CLOEXEC)  # closed by the exec: the reader then sees the end
    try:
        try:
            process = fork(group)
        except OSError as error:
            return 0, _SPAWN, error.errno or 0
        if process == 0:
            _become(order, writes, write_end)
    finally:
        os.close(write_end)
    with open(read_end, "rb") as pipe:
        failure = pipe.read()
    if not failure:
        return process, _PROGRAM, 0
    os.waitpid(process, 0)
    step, number = failure.split()
    return 0, int(step), int(number)


def _become(order: Order, writes: list[tuple[str, str]], write_end: int) -> None:
    """In the child; never returns. The same steps as in `_confined_exec.c`."""
    step = _DESCRIPTORS
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for ours, its in order.descriptors:
            os.dup2(ours, its)
        step = _GROUPS
        for file, word in writes:
            write(file, word)
        step = _LIMITS
        for which, most in order.limits:
            _, hard = resource.getrlimit(which)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
        step = _VIEW
        if order.view is not None:
            mount_calls.enter(order.view)
        os.chdir("/")
        step = _USER
        if order.uid is not None:
            os.setgroups([])
            os.setresgid(order.uid, order.uid, order.uid)
            os.setresuid(order.uid, order.uid, order.uid)
        step = _PROGRAM
        os.execve(order.program, order.argv, order.env)
    except (OSError, ValueError) as error:  # Python itself refuses some limits
        why = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        with contextlib.suppress(OSError):  # the keeper is gone
            os.write(write_end, f"{step} {why}".encode())
    finally:
        os._exit(NOT_STARTED)


_SYS_CLONE3 = 435  # on every architecture
_CLONE_INTO_CGROUP = 0x2_0000_0000
NOT_HERE = frozenset(
    (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP, errno.EACCES, errno.EBUSY)
)

# PyDLL keeps the interpreter's lock, so parent and child return as from any call.
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
    """The process, 0 in the child. OSError: it could not be made.

    `group`: a descriptor of its v2 group, -1 for none. A group in which a process was ever killed can't be used again.
    """
    if group < 0:
        return os.fork()
    arguments = _Arguments(flags=_CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=group)
    process = int(_syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)))
    if process < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return process
