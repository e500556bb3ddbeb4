"""How a unit's first process comes to be: spawned plainly, born confined, or as a container's engine.

Plainly: `posix_spawn`, the fastest way there is, for trusted work; its tree joins its groups a little later.
Confined: a fork of the keeper enters the unit's control groups, or is born in them, takes its limits and its own user
number, and becomes bubblewrap, so that nothing of the task ever runs outside. A fork can fail halfway; it then says why
over a pipe that nobody else can write to, and the keeper reads it when the process is reaped. An engine is forked
likewise, into groups that have no limits: those are for the container it makes. Standard library only.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import signal
from dataclasses import dataclass

from rota.execute import clone, launch, sandbox, trees
from rota.execute.controllers import Leaf, write

FIRST_UID = 2_000_000_000  # above every number that people, services and containers are given
_UIDS = 1_000_000  # of one agent
_AGENTS = 147  # all of it stays below two to the power of 31, where some programs stop to count
_SECCOMP_DESCRIPTOR = 9
_ENVIRONMENT_DESCRIPTOR = 8
_FIRST_TO_GO = 500  # of 1000: when the whole machine is out of memory, a stranger's task goes before the agent
_OPEN_FILES = 65_536
_NOT_STARTED = 125
_DEFAULTED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGCHLD,
    signal.SIGQUIT,
)


def own_uid(number: int, agent: str) -> int | None:
    """The user number of a confined unit; None when we may not give one and the user namespace alone must do.

    `agent` is a name that differs between the agents of one machine, so that their units have different numbers too.
    """
    if os.geteuid() != 0:
        return None
    block = int.from_bytes(hashlib.blake2b(agent.encode(), digest_size=4).digest()) % _AGENTS
    return FIRST_UID + block * _UIDS + number % _UIDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Everything a confined birth needs, worked out before the fork."""

    host: sandbox.Host
    walls: sandbox.Sandbox
    filter: bytes
    uid: int | None
    leaf: Leaf | None
    most_file_bytes: int  # 0: nobody said
    most_processes: int  # 0: nobody said, or a group counts them


def spawn(argv: list[str], env: dict[str, str], null: int, descriptors: list[int]) -> int:
    """A plain process: `descriptors` become 1, 2, 3, …; text without a shebang goes to the shell."""
    actions = [(os.POSIX_SPAWN_DUP2, null, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(descriptors, 1)]
    for attempt in (argv, launch.through_shell(argv)):
        try:
            return os.posix_spawn(
                attempt[0],
                attempt,
                env,
                file_actions=actions,
                setsid=True,
                setsigdef=_DEFAULTED,
                setsigmask=(),
            )
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
    raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), argv[0])


def confine(
    how: Confinement, argv: list[str], env: dict[str, str], *, folder: str, null: int, descriptors: list[int]
) -> tuple[int, int]:
    """The process, and the descriptor its trouble can be read from once it has ended.

    What can be worked out before the fork is: a forked child pays for every page of ours that it touches.
    """
    step = "bubblewrap"
    handed: list[int] = []
    try:
        walls = sandbox.arguments(
            how.host, how.walls, folder=folder, seccomp=_SECCOMP_DESCRIPTOR, environment=_ENVIRONMENT_DESCRIPTOR
        )
        if len(walls) + len(argv) + 3 * len(env) + 1 > sandbox.MOST_WORDS:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        words = walls + argv
        step = "the environment"
        handed.append(_readable(sandbox.told(env)))
        step = "the system-call filter"
        handed.append(_readable(how.filter))
        process, is_inside, trouble, tell = _fork(how.leaf)
    except (OSError, ValueError) as error:
        for descriptor in handed:
            os.close(descriptor)
        raise launch.NotStarted(*_told(step, error, argv)) from None
    if process != 0:
        for descriptor in handed:
            os.close(descriptor)
        return process, trouble
    step = "its descriptors"
    try:
        _begin(null, descriptors)
        os.dup2(handed[0], _ENVIRONMENT_DESCRIPTOR)
        os.dup2(handed[1], _SECCOMP_DESCRIPTOR)
        step = "the control groups"
        if how.leaf is not None:
            how.leaf.enter(is_in_unified=is_inside)
        step = "the limits"
        _limit(how)
        step = "the user's number"
        os.chdir("/")
        if how.uid is not None:
            os.setgroups([])
            os.setresgid(how.uid, how.uid, how.uid)
            os.setresuid(how.uid, how.uid, how.uid)
        step = "bubblewrap"
        # Its own environment is ours alone: the loader would obey the task's, out here. The mark is for the sweep.
        os.execve(words[0], words, {trees.MARK: folder})
    except (OSError, ValueError) as error:
        os.write(tell, json.dumps(_told(step, error, argv)).encode())
    finally:
        os._exit(_NOT_STARTED)


def engine(
    leaf: Leaf | None, argv: list[str], env: dict[str, str], *, null: int, descriptors: list[int]
) -> tuple[int, int]:
    """The process of an engine and where its trouble is told, as with `confine`."""
    process, is_inside, trouble, tell = _fork(leaf)
    if process != 0:
        return process, trouble
    step = "its descriptors"
    try:
        _begin(null, descriptors)
        step = "the control groups"
        if leaf is not None:
            leaf.enter(is_in_unified=is_inside)
        os.chdir("/")
        step = argv[0]
        os.execve(argv[0], argv, env)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(tell, json.dumps(["engine-failed", f"{step}: {why}"]).encode())
    finally:
        os._exit(_NOT_STARTED)


def _fork(leaf: Leaf | None) -> tuple[int, bool, int, int]:
    """The process, 0 in the child; whether it is in its v2 group already; where its trouble is read, and, in the child
    only, where it is told.
    """
    trouble, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process, is_inside = clone.fork_into(leaf.unified if leaf is not None else None)
    except OSError:
        os.close(trouble)
        os.close(tell)
        raise
    if process != 0:
        os.close(tell)
    return process, is_inside, trouble, tell


def _begin(null: int, descriptors: list[int]) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(null, 0)
    for target, source in enumerate(descriptors, 1):
        os.dup2(source, target)


def _readable(content: bytes) -> int:
    """A descriptor from which `content` can be read; it lies in memory and has no name that others could open."""
    descriptor = os.memfd_create("handed", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _told(step: str, error: OSError | ValueError, argv: list[str]) -> tuple[str, str]:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        refusal = launch.refusal(error, argv)
        return refusal.slug, refusal.message[:1000]
    why = error.strerror if isinstance(error, OSError) else str(error)
    return "sandbox-failed", f"{step}: {why}"[:1000]


def trouble_of(descriptor: int) -> tuple[str, str] | None:
    """Why a confined birth failed, None if it did not. Only once its process has ended."""
    try:
        told = os.read(descriptor, 4096)
    except BlockingIOError:
        return None  # a child of it holds the other end: it got as far as to have children
    finally:
        os.close(descriptor)
    if not told:
        return None
    slug, message = json.loads(told)
    return slug, message


def _limit(how: Confinement) -> None:
    write("/proc/self/oom_score_adj", str(_FIRST_TO_GO))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if how.most_file_bytes:
        _lower(resource.RLIMIT_FSIZE, how.most_file_bytes)
    if how.most_processes and how.uid is not None:
        _lower(resource.RLIMIT_NPROC, how.most_processes)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))
