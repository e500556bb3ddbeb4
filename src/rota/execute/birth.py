"""How a unit's first process comes to be: spawned plainly, born confined, or as a container's engine.

Plainly: `posix_spawn`, the fastest way there is, for trusted work; its tree joins its groups a little later.
Confined: born from the cradle, or forked from the keeper where that can't be, it enters the unit's control groups,
takes its limits and its own user number, and becomes bubblewrap: nothing of the task ever runs outside. A birth can
fail halfway; it then says why over a pipe that nobody else can write to, and the keeper reads it when the process is
reaped. An engine is forked likewise, into groups that have no limits: those are for the container it makes. Standard
library only.
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass

from rota.execute import clone, cradle, launch, sandbox, trees
from rota.execute.controllers import Leaf
from rota.execute.cradle_link import CradleLink

FIRST_UID = 2_000_000_000  # above every number that people, services and containers are given
_UIDS = 1_000_000  # of one agent
_AGENTS = 147  # all of it stays below two to the power of 31, where some programs stop to count


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
                setsigdef=cradle.DEFAULTED,
                setsigmask=(),
            )
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
    raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), argv[0])


def confine(
    how: Confinement,
    argv: list[str],
    env: dict[str, str],
    *,
    folder: str,
    null: int,
    descriptors: list[int],
    link: CradleLink,
) -> tuple[int, int]:
    """The process, and the descriptor its trouble can be read from once it has ended."""
    step = "bubblewrap"
    handed: list[int] = []
    try:
        walls = sandbox.arguments(
            how.host,
            how.walls,
            folder=folder,
            seccomp=cradle.SECCOMP_DESCRIPTOR,
            environment=cradle.ENVIRONMENT_DESCRIPTOR,
        )
        if len(walls) + len(argv) + 3 * len(env) + 1 > sandbox.MOST_WORDS:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        order = cradle.Order(
            uid=-1 if how.uid is None else how.uid,
            file_bytes=how.most_file_bytes,
            processes=how.most_processes,
            mark=f"{trees.MARK}={folder}",  # for the sweep
            unified=(how.leaf.unified or "") if how.leaf is not None else "",
            tasks=how.leaf.own_doors() if how.leaf is not None else [],
            argv=walls + argv,
        )
        step = "the environment"
        handed.append(_readable(sandbox.told(env)))
        step = "the system-call filter"
        handed.append(_readable(how.filter))
        step = "the birth"
        trouble, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        handed.append(tell)
        try:
            process = _born(order, [null, tell, *handed[:2], *descriptors], link)
        except OSError:
            os.close(trouble)
            raise
    except (OSError, ValueError) as error:
        number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (0, str(error))
        raise launch.NotStarted(*_told(step, number or 0, why or "", argv[0])) from None
    finally:
        for descriptor in handed:
            os.close(descriptor)
    return process, trouble


def _born(order: cradle.Order, descriptors: list[int], link: CradleLink) -> int:
    process = link.bear(order, descriptors)
    if process is None:
        process, is_inside = clone.fork_into(order.unified or None)
        if process == 0:
            cradle.become(order, descriptors, is_inside=is_inside)
    return process


def engine(
    leaf: Leaf | None, argv: list[str], env: dict[str, str], *, null: int, descriptors: list[int]
) -> tuple[int, int]:
    """The process of an engine and where its trouble is told, as with `confine`."""
    trouble, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process, is_inside = clone.fork_into(leaf.unified if leaf is not None else None)
    except OSError:
        os.close(trouble)
        os.close(tell)
        raise
    if process != 0:
        os.close(tell)
        return process, trouble
    step = "its descriptors"
    try:
        cradle.start_afresh(null, descriptors)
        step = "the control groups"
        if leaf is not None:
            leaf.enter(is_in_unified=is_inside)
        os.chdir("/")
        step = argv[0]
        os.execve(argv[0], argv, env)
    except (OSError, ValueError) as error:
        cradle.tell_trouble(tell, step, error)
    finally:
        os._exit(cradle.NOT_STARTED)


def _readable(content: bytes) -> int:
    """A descriptor from which `content` can be read; it lies in memory and has no name that others could open."""
    descriptor = os.memfd_create("handed", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def trouble_of(descriptor: int, program: str, *, is_engine: bool) -> tuple[str, str] | None:
    """Why a birth failed, None if it did not. Only once its process has ended."""
    try:
        told = os.read(descriptor, 4096)
    except BlockingIOError:
        return None  # a child of it holds the other end: it got as far as to have children
    finally:
        os.close(descriptor)
    if not told:
        return None
    number, step, why = told.decode("utf-8", "replace").split("\0", 2)
    return ("engine-failed", f"{step}: {why}"[:1000]) if is_engine else _told(step, int(number), why, program)


def _told(step: str, number: int, why: str, program: str) -> tuple[str, str]:
    if number == errno.E2BIG:
        refusal = launch.refusal(OSError(number, why), [program])
        return refusal.slug, refusal.message[:1000]
    return "sandbox-failed", f"{step}: {why}"[:1000]
