"""The cradle: a very small process from which confined work is born, as a child of the keeper and in its groups.

A fork copies the tables of all the memory a process has, and each page it writes to afterwards; the keeper has three
times as much as this one, and forking itself cost it half of all it did for a short sandboxed task. The cradle gets an
order and descriptors, clones itself and tells the number; the newborn enters its groups, takes its limits and user
number and becomes bubblewrap. One that fails on the way says at which step over a pipe of its own. The cradle leaves
when the keeper's end of its socket is closed. Standard library only, and as little of that as there can be.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys

from rota.execute import clone, packets

LOW_DESCRIPTORS = 10  # kept occupied, so that a received descriptor never collides with a child's 0 to 9
SECCOMP_DESCRIPTOR = 9
ENVIRONMENT_DESCRIPTOR = 8
NOT_STARTED = 125
DEFAULTED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGCHLD,
    signal.SIGQUIT,
)
_FIRST_TO_GO = b"500"  # of 1000: when the whole machine is out of memory, a stranger's task goes before the agent
_OPEN_FILES = 65_536


class Order:
    """What a newborn has to become. `tasks` are the files through which it enters its v1 groups."""

    __slots__ = ("argv", "file_bytes", "mark", "processes", "tasks", "uid", "unified")

    def __init__(self, *, uid: int, file_bytes: int, processes: int, mark: str, unified: str, tasks: list[str],
                 argv: list[str]) -> None:  # fmt: skip
        self.uid = uid  # -1: ours
        self.file_bytes = file_bytes  # the largest file it may write; 0: nobody said
        self.processes = processes  # 0: nobody said, or a group counts them
        self.mark = mark  # name=value: bubblewrap's own environment is ours alone, the loader would obey the task's
        self.unified = unified  # its v2 group, "" for none
        self.tasks = tasks
        self.argv = argv

    def encode(self) -> bytes:
        head = [str(self.uid), str(self.file_bytes), str(self.processes), self.mark, self.unified, str(len(self.tasks))]
        return "\0".join([*head, *self.tasks, *self.argv]).encode("utf-8", "surrogateescape")


def decode(order: bytes) -> Order:
    uid, file_bytes, processes, mark, unified, count, *rest = order.decode("utf-8", "surrogateescape").split("\0")
    return Order(
        uid=int(uid), file_bytes=int(file_bytes), processes=int(processes), mark=mark, unified=unified,
        tasks=rest[: int(count)], argv=rest[int(count) :],
    )  # fmt: skip


def become(order: Order, descriptors: list[int], *, is_inside: bool) -> None:
    """In the newborn; never returns. `descriptors`: nothing, where to tell, environment, filter, then its 1, 2, 3, …"""
    null, tell, environment, filter_, *outputs = descriptors
    step = "its descriptors"
    try:
        start_afresh(null, outputs)
        os.dup2(environment, ENVIRONMENT_DESCRIPTOR)
        os.dup2(filter_, SECCOMP_DESCRIPTOR)
        step = "the control groups"
        # A thread that moves itself alone takes no lock; in v2 there is no such way, only to be born inside.
        for path in order.tasks:
            _write(path, b"0")
        if order.unified and not is_inside:
            _write(f"{order.unified}/cgroup.procs", b"0")
        step = "the limits"
        _write("/proc/self/oom_score_adj", _FIRST_TO_GO)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
        if order.file_bytes:
            _lower(resource.RLIMIT_FSIZE, order.file_bytes)
        if order.processes and order.uid >= 0:
            _lower(resource.RLIMIT_NPROC, order.processes)
        step = "the user's number"
        os.chdir("/")
        if order.uid >= 0:
            os.setgroups([])
            os.setresgid(order.uid, order.uid, order.uid)
            os.setresuid(order.uid, order.uid, order.uid)
        step = "bubblewrap"
        name, _, value = order.mark.partition("=")
        os.execve(order.argv[0], order.argv, {name: value})
    except (OSError, ValueError) as error:
        tell_trouble(tell, step, error)
    finally:
        os._exit(NOT_STARTED)


def start_afresh(null: int, outputs: list[int]) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(null, 0)
    for target, source in enumerate(outputs, 1):
        os.dup2(source, target)


def tell_trouble(tell: int, step: str, error: OSError | ValueError) -> None:
    number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (0, str(error))
    os.write(tell, f"{number}\0{step}\0{why}".encode()[:4000])


def _write(path: str, value: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value)
    finally:
        os.close(descriptor)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def serve(channel: socket.socket) -> None:
    """An order a packet; the answer is the newborn's number, or minus the number of the error."""
    while (packet := packets.receive(channel)) is not None:
        body, descriptors = packet
        order = decode(body)
        try:
            process = clone.clone(order.unified or None, as_sibling=True)
        except OSError as error:
            process = -(error.errno or 1)
        if process == 0:
            become(order, descriptors, is_inside=True)
        for descriptor in descriptors:
            os.close(descriptor)
        packets.send(channel, str(process).encode())


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # only the end of the keeper ends it
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    while os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) < LOW_DESCRIPTORS:
        pass
    serve(channel)
