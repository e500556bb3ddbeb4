"""The pool of warm child processes: spawns them, keeps idle ones, changes their limits, dismisses them.

A child is spawned for one process key (`attempts/sharing.py`) and never serves another. Idle children are kept for a
while, and the longest idle goes first when there are too many, so that no number of tenants fills the node. A child
that is taken for calls of another shape gets that shape's limits first. An idle sandboxed child is limited to 1 % CPU,
so leftover threads cost nothing. `sequential.py` and `concurrent.py` decide which calls run where.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from rota import tls
from rota.execute.attempts.attempt import Attempt
from rota.execute.attempts.sharing import UNOWNED, ProcessKey, limits_of
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.packages import SEEN_AT, Packages, Unpacked
from rota.execute.functions.questions import QuestionServer
from rota.execute.functions.replies import BadReply
from rota.execute.keeper_link import End, KeeperLink, Lost, SandboxSpec, Spawn, UnitLimits
from rota.execute.linux import work_folder
from rota.execute.linux.process_trees import MARK
from rota.execute.logs.pipes import Flow
from rota.execute.machine.device_files import GPU, Assigned, DeviceFiles, variables
from rota.execute.machine.device_files import NONE as NO_DEVICES
from rota.execute.machine.mounts import NamedMount, named
from rota.execute.messages.calls import PACKAGE_VARIABLE
from rota.execute.processes.spawn_order import BadSpec, gpu_environment, socket_folder
from rota.execute.sandbox.bubblewrap import WORK
from rota.execute.server_sockets import SEEN_AT as SERVER_SEEN_AT
from rota.execute.server_sockets import ServerSockets
from rota.model.isolation import Isolation

log = structlog.get_logger()

MOST_IDLE = 16  # of all process keys together
_IDLE_SECONDS = 30.0
_THROTTLE_AFTER_SECONDS = 1.0
_IDLE_CPU_MILLI = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """The settings that all children of this node share."""

    work: str
    environment: dict[str, str]
    imports: tuple[str, ...]  # modules every child loads before its first call
    directory: str  # where functions are imported from
    mounts: Mapping[str, NamedMount]
    visible: tuple[tuple[str, str, bool], ...] = ()  # what sandboxed children see besides their named mounts
    path: tuple[str, ...] = ()  # where sandboxed children import from
    devices: DeviceFiles = NO_DEVICES
    packages: Packages | None = None  # code that comes with calls; None: there is none
    servers: tuple[str, ...] = ()  # addresses for calls that may submit
    server_sockets: ServerSockets | None = None  # for those that see no network; None: they can't submit


class Owner(Protocol):
    def child_readable(self, child: WarmChild) -> None: ...

    def child_over(self, child: WarmChild, end: End) -> None: ...

    def child_limited(self, child: WarmChild, *, took: bool) -> None: ...


class ChildPool:
    def __init__(
        self,
        *,
        owner: Owner,
        link: KeeperLink,
        flow: Flow,
        child_settings: ChildSettings,
        questions: QuestionServer | None,
        kill_grace_seconds: float,
        keep_idle: int,
        module: str,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._link = link
        self._flow = flow
        self._child_settings = child_settings
        self._questions = questions
        self._module = module  # the program of its children
        self._kill_grace_seconds = kill_grace_seconds
        self._keep_idle = keep_idle
        self._idle: list[WarmChild] = []  # the longest idle first
        self._spawned = 0
        self._removals: set[asyncio.Task[None]] = set()
        self.children: dict[WarmChild, str] = {}  # with their folders

    # ---- taking and giving back --------------------------------------------------------------------------------

    def take(self, attempt: Attempt, *, is_new: bool = False) -> WarmChild:
        """An idle child with the attempt's process key, else (or with `is_new`) a new one.

        While `limit_orders` is not 0 the child's limits are being changed: send it no call yet. BadSpec: this node has
        no child for it.
        """
        terms = attempt.terms
        limits = limits_of(attempt.grant, terms.processes, terms.process_key.isolation, cpu_burst=terms.cpu_burst)
        process_key = self._process_key(attempt)
        self.give_up_devices(attempt, but=process_key)
        child = None if is_new else self._find(process_key, limits)
        if child is None:
            return self.spawn(process_key, limits, attempt.fence_ms)
        self._idle.remove(child)
        if child.fence_ms != attempt.fence_ms:
            child.fence_ms = attempt.fence_ms
            self._link.set_fence(child.number, attempt.fence_ms)
        if child.limits != limits:
            self._limit(child, limits)
        return child

    def _process_key(self, attempt: Attempt) -> ProcessKey:
        """Calls with devices share a child only with calls that have the same devices; sandboxed, with none."""
        process_key = attempt.terms.process_key
        if not (attempt.gpus or attempt.devices):
            return process_key
        devices = self._child_settings.devices
        files = () if process_key.isolation == Isolation.NONE else devices.of(attempt.gpus, attempt.devices)
        return msgspec.structs.replace(process_key, devices=files, gpus=attempt.gpus, assigned=attempt.devices)

    def give_up_devices(self, attempt: Attempt, *, but: ProcessKey | None = None) -> None:
        """Kills idle children that hold memory of devices which now belong to another attempt."""
        if not (attempt.gpus or attempt.devices):
            return
        numbers = _numbered(attempt.gpus, attempt.devices)
        for child in self._idle.copy():
            process_key = child.process_key
            if process_key != but and not numbers.isdisjoint(_numbered(process_key.gpus, process_key.assigned)):
                self._idle.remove(child)
                child.is_leaving = True
                self._link.kill(child.number)

    def park(self, child: WarmChild) -> None:
        if child.is_outdated:
            self.dismiss(child)
            return
        child.idle_since = self._loop.time()
        self._idle.append(child)
        if len(self._idle) > MOST_IDLE:
            self.dismiss(self._idle.pop(0))

    def dismiss_idle(self) -> None:
        for child in self._idle:
            self.dismiss(child)
        self._idle.clear()

    def dismiss(self, child: WarmChild) -> None:
        child.dismiss()
        child.kill_timer = self._loop.call_later(self._kill_grace_seconds, self._link.kill, child.number)

    def gone(self, child: WarmChild, end: End) -> None:
        """The child's whole tree is dead: removes its folder too."""
        if child.kill_timer is not None:
            child.kill_timer.cancel()
        folder = self.children.pop(child)
        if child.process_key.may_submit and self._child_settings.server_sockets is not None:
            self._child_settings.server_sockets.close(socket_folder(folder))
        if child.process_key.package and self._child_settings.packages is not None:
            self._child_settings.packages.released(child.process_key)
        if not isinstance(end, Lost) and end.folder_left:
            removal = self._loop.create_task(_remove(folder), name="remove a child's folder")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)
        if child in self._idle:
            self._idle.remove(child)
        if self._questions is not None:
            self._questions.close(child.questions)
        child.close()

    def reload(self, process_key: ProcessKey | None = None) -> None:
        """Every child, or every one with a process key, finishes its calls and exits; new ones replace them."""
        for child in self.children:
            if process_key is None or child.process_key == process_key:
                child.is_outdated = True
        for child in [idle for idle in self._idle if idle.is_outdated]:
            self._idle.remove(child)
            self.dismiss(child)

    def trim_idle(self, now: float) -> bool:
        """Dismisses and throttles idle children; True while there will be more to do."""
        while len(self._idle) > self._keep_idle and now - self._idle[0].idle_since > _IDLE_SECONDS:
            self.dismiss(self._idle.pop(0))
        unthrottled = False
        for child in self._idle:
            throttled = msgspec.structs.replace(child.limits, cpu_milli=_IDLE_CPU_MILLI, cpu_burst=False)
            if child.process_key.isolation != Isolation.NONE and child.limits != throttled:
                if now - child.idle_since > _THROTTLE_AFTER_SECONDS:
                    self._limit(child, throttled)
                else:
                    unthrottled = True
        return unthrottled or len(self._idle) > self._keep_idle

    def _find(self, process_key: ProcessKey, limits: UnitLimits) -> WarmChild | None:
        fallback = None
        for child in reversed(self._idle):
            if child.process_key == process_key:
                if child.limits == limits:
                    return child
                fallback = fallback or child
        if fallback is None and process_key == ProcessKey(tenant=process_key.tenant):
            fallback = next((child for child in self._idle if child.process_key == UNOWNED), None)
            if fallback is not None:
                fallback.process_key = process_key
        return fallback

    # ---- limits ------------------------------------------------------------------------------------------------

    def started(self, child: WarmChild, failure: tuple[str, str, str] | None) -> None:
        """The child has loaded its modules, or failed to; only now is it limited to its share of CPU."""
        if child.is_ready or child.failure is not None:
            raise BadReply("it reports twice that it is ready")
        child.is_ready = failure is None
        child.failure = failure
        if failure is not None:
            child.is_leaving = True
        elif child.limits != _at_first(child.limits):
            self._link.limit(child.number, child.limits, lambda took: None)

    def break_off(self, child: WarmChild, why: str) -> None:
        """The child broke the protocol: kills it and reads no more replies."""
        log.warning("a function's process broke the protocol and is ended", why=why, tenant=child.process_key.tenant)
        child.broken = why
        child.is_leaving = True
        self._loop.remove_reader(child.descriptor())
        self._link.kill(child.number)

    def _limit(self, child: WarmChild, limits: UnitLimits) -> None:
        child.limits = limits
        child.limit_orders += 1
        self._link.limit(child.number, limits, lambda took: self._answered(child, took=took))

    def _answered(self, child: WarmChild, *, took: bool) -> None:
        child.limit_orders -= 1
        if not child.limit_orders:
            self._owner.child_limited(child, took=took)

    # ---- spawning ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The agent ends, and its keeper with every child: closes our ends of their sockets."""
        for child in self.children:
            if child.kill_timer is not None:
                child.kill_timer.cancel()
            self._loop.remove_reader(child.descriptor())
            child.close()
        self.children.clear()
        self._idle.clear()

    def spawn(self, process_key: ProcessKey, limits: UnitLimits, fence_ms: int) -> WarmChild:
        if process_key.isolation not in (Isolation.NONE, Isolation.SANDBOX):
            raise BadSpec(f"functions can't run with isolation {process_key.isolation}; use sandbox")
        package = self._package(process_key)
        self._spawned += 1
        program = self._module.rpartition(".")[2]
        folder = f"{self._child_settings.work}/child-{program}-{os.getpid()}-{self._spawned}"
        sandbox = None if process_key.isolation == Isolation.NONE else self._sandbox(process_key, package, folder)
        order = Spawn(
            program=sys.executable,
            arguments=self._arguments(package, is_sandboxed=sandbox is not None),
            env=self._environment(process_key, folder if sandbox is None else WORK, package),
            folder=folder,
            fence_ms=fence_ms,
            cwd=self._child_settings.directory if sandbox is None else None,
            limits=_at_first(limits),
            sandbox=sandbox,
        )
        if self._child_settings.packages is not None and package is not None:
            self._child_settings.packages.taken(process_key)
        child = WarmChild(self._owner, self._flow, self._loop, process_key, self._child_settings.servers)
        child.fence_ms = fence_ms
        child.limits = limits
        child.front_since = self._loop.time()
        child.number = self._link.spawn(child, order, child.end)
        self.children[child] = folder
        self._loop.add_reader(child.descriptor(), self._owner.child_readable, child)
        if self._questions is not None:
            self._questions.open(child.questions, child.attempt_of)
        return child

    def _package(self, process_key: ProcessKey) -> Unpacked | None:
        if not process_key.package:
            return None
        packages = self._child_settings.packages
        unpacked = packages.find(process_key) if packages is not None else None
        if unpacked is None:
            raise BadSpec(f"the package {process_key.package} is not on this node")
        return unpacked

    def _arguments(self, package: Unpacked | None, *, is_sandboxed: bool) -> list[str]:
        """Operators preload modules of the node's own code; a package may have others of the same name."""
        preloaded = self._child_settings.imports if package is None else ()
        # -P: a file that a function leaves in its folder is not imported instead of a module.
        return [*(["-P"] if is_sandboxed else []), "-m", self._module, *preloaded]

    def _environment(self, process_key: ProcessKey, home: str, package: Unpacked | None) -> dict[str, str]:
        own = {"HOME": home, "TMPDIR": home, MARK: home}
        if home == WORK:
            own |= {"TMPDIR": "/tmp", "PYTHONPATH": ":".join(self._child_settings.path)}
        if package is not None:
            own[PACKAGE_VARIABLE] = (SEEN_AT if home == WORK else package.folder) + package.inside
        trust = tls.for_tasks(self._child_settings.servers)
        return self._child_settings.environment | trust | own | _device_environment(process_key)

    def _sandbox(self, process_key: ProcessKey, package: Unpacked | None, folder: str) -> SandboxSpec:
        try:
            requested = named(self._child_settings.mounts, process_key.mounts, process_key.owner)
        except ValueError as error:
            raise BadSpec(str(error)) from None
        mounts = [(mount.source, mount.target, mount.writable) for mount in requested]
        mounts += [] if package is None else [(package.folder, SEEN_AT, False)]
        mounts += [(self._server_socket(folder), SERVER_SEEN_AT, False)] if process_key.may_submit else []
        return SandboxSpec(
            network=process_key.network, mounts=(*self._child_settings.visible, *mounts), devices=process_key.devices
        )

    def _server_socket(self, folder: str) -> str:
        """Opens the socket of a new child; it is closed when the child is gone."""
        sockets = self._child_settings.server_sockets
        if sockets is None:
            raise BadSpec("this node's sandboxed functions can't submit")
        try:
            sockets.open(socket_folder(folder))
        except OSError as error:
            raise BadSpec(f"this node can make no socket for what the function submits: {error.strerror}") from None
        return socket_folder(folder)


def _numbered(gpus: tuple[int, ...], others: Assigned) -> set[tuple[str, int]]:
    return {(kind, number) for kind, numbers in ((GPU, gpus), *others) for number in numbers}


def _device_environment(process_key: ProcessKey) -> dict[str, str]:
    """Set when the process is spawned: libraries read such variables once."""
    return (gpu_environment(process_key.gpus) if process_key.gpus else {}) | variables(process_key.assigned)


def _at_first(limits: UnitLimits) -> UnitLimits:
    """Loading Python on a tenth of a CPU would take seconds: `started` sets the other limits."""
    return msgspec.structs.replace(limits, cpu_milli=0, disk_bytes=0)


async def _remove(folder: str) -> None:
    if not await asyncio.to_thread(work_folder.remove, folder):
        log.error("the folder of a function's process could not be removed", folder=folder)
