"""Three ways to start a unit's first process: plain, sandboxed, or as a container's engine.

Plain: `posix_spawn`, the fastest way, for trusted work; its tree joins its groups a little later. Sandboxed: the
process (`confined_exec.py`) enters the unit's control groups, takes its limits, mount view and user number, and becomes
bubblewrap: nothing of the task ever runs outside. An engine is spawned likewise, into groups without limits: the limits
are for its container. A failed spawn names its step.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
from dataclasses import dataclass

from rota.execute.keeper import confined_exec, launch
from rota.execute.linux import process_trees
from rota.execute.linux.cgroup_limits import Leaf
from rota.execute.messages import packets
from rota.execute.sandbox import bubblewrap

FIRST_UID = 2_000_000_000  # above every number of people, services and containers
_UIDS = 1_000_000  # of one agent
_AGENTS = 147  # all numbers stay below 2**31, the most some programs can handle
_SECCOMP, _ARGUMENTS = 9, 8  # descriptors that bubblewrap reads
_KILLED_FIRST = ("/proc/self/oom_score_adj", "500")  # of 1000: before the agent, when there is no memory left
_OPEN_FILES = 65_536


def own_uid(number: int, agent: str) -> int | None:
    """The user number of an isolated unit; None when we may not assign one: then the user namespace alone isolates.

    `agent` is a name that differs between the agents of one machine, so that their units have different numbers too.
    """
    if os.geteuid() != 0:
        return None
    block = int.from_bytes(hashlib.blake2b(agent.encode(), digest_size=4).digest()) % _AGENTS
    return FIRST_UID + block * _UIDS + number % _UIDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Everything a sandboxed spawn needs, prepared before the fork."""

    host: bubblewrap.Host
    sandbox: bubblewrap.Sandbox
    filter: bytes
    uid: int | None
    leaf: Leaf | None
    view: int | None
    most_file_bytes: int  # 0: no limit
    most_processes: int  # 0: no limit, or a group counts them


def spawn(argv: list[str], env: dict[str, str], null: int, descriptors: list[int]) -> int:
    """A plain process: `descriptors` become 1, 2, 3, …; text without a shebang goes to the shell."""
    actions = [(os.POSIX_SPAWN_DUP2, null, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(descriptors, 1)]
    try:
        return _posix_spawn(argv, env, actions)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    return _posix_spawn(launch.through_shell(argv), env, actions)


def _posix_spawn(argv: list[str], env: dict[str, str], actions: list[tuple[int, int, int]]) -> int:
    return os.posix_spawn(
        argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=confined_exec.DEFAULTED, setsigmask=()
    )


def confine(
    how: Confinement, argv: list[str], env: dict[str, str], *, folder: str, null: int, descriptors: list[int]
) -> int:
    """The process, which has become bubblewrap. launch.NotStarted: it has not."""
    step = "bubblewrap"
    handed: list[int] = []
    try:
        sandbox = bubblewrap.arguments(how.host, how.sandbox, folder=folder, seccomp=_SECCOMP)
        command = bubblewrap.command_line(_ARGUMENTS) + argv
        if len(sandbox) + len(command) + 3 * len(env) + 1 > bubblewrap.MOST_WORDS:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        step = "the environment"
        handed.append(readable(bubblewrap.handed(sandbox + bubblewrap.environment_arguments(env))))
        step = "the system-call filter"
        handed.append(readable(how.filter))
        step = confined_exec.STEPS[0]
        return confined_exec.spawn(
            confined_exec.Order(
                program=how.host.bwrap,
                argv=command,
                # bubblewrap gets an environment of ours: the loader would obey the task's. The mark is for the sweep.
                env={process_trees.MARK: process_trees.sign_of(folder)},
                descriptors=[*_numbered(null, descriptors), (handed[0], _ARGUMENTS), (handed[1], _SECCOMP)],
                unified=None if how.leaf is None else how.leaf.unified,
                writes=[*_doors(how.leaf), _KILLED_FIRST],
                limits=_limits(how),
                view=how.view,
                uid=how.uid,
            )
        )
    except confined_exec.SpawnFailed as refusal:
        raise _refused(refusal.step or "bubblewrap", refusal.number, os.strerror(refusal.number), argv[0]) from None
    except (OSError, ValueError) as error:
        number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (0, str(error))
        raise _refused(step, number or 0, why or "", argv[0]) from None
    finally:
        for descriptor in handed:
            os.close(descriptor)


def engine(leaf: Leaf | None, argv: list[str], env: dict[str, str], *, null: int, descriptors: list[int]) -> int:
    """The process of an engine. launch.NotStarted: it could not be spawned."""
    order = confined_exec.Order(
        program=argv[0],
        argv=argv,
        env=env,
        descriptors=_numbered(null, descriptors),
        unified=None if leaf is None else leaf.unified,
        writes=_doors(leaf),
    )
    try:
        return confined_exec.spawn(order)
    except confined_exec.SpawnFailed as refusal:
        why = f"{refusal.step or argv[0]}: {os.strerror(refusal.number)}"
        raise launch.NotStarted("engine-failed", why[:1000]) from None


def _numbered(null: int, descriptors: list[int]) -> list[tuple[int, int]]:
    return [(ours, its) for its, ours in enumerate((null, *descriptors))]


def _doors(leaf: Leaf | None) -> list[tuple[str, str]]:
    # A thread that moves only itself takes no lock; v2 has no such way, only to be spawned inside.
    return [] if leaf is None else [(door, "0") for door in leaf.own_entries()]


def _limits(how: Confinement) -> list[tuple[int, int]]:
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _OPEN_FILES)]
    if how.most_file_bytes:
        limits.append((resource.RLIMIT_FSIZE, how.most_file_bytes))
    if how.most_processes and how.uid is not None:
        limits.append((resource.RLIMIT_NPROC, how.most_processes))
    return limits


def _refused(step: str, number: int, why: str, program: str) -> launch.NotStarted:
    if number == errno.E2BIG:
        return launch.refusal(OSError(number, why), [program])
    return launch.NotStarted("sandbox-failed", f"{step}: {why}"[:1000])


def readable(content: bytes) -> int:
    """A descriptor from which `content` can be read; it lies in memory and has no name that others could open."""
    descriptor = os.memfd_create("handed", os.MFD_CLOEXEC)
    packets.write_all(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
