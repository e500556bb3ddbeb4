"""Where warm children come from and go to: births, the idle ones, their limits, their leaving.

A child is born for one company (`company.py`) and never serves another. Idle ones are kept for a while, the longest
idle going first when there are too many, so that no number of tenants fills the node. One that is taken for calls of
another shape gets that shape's limits first. Behind walls an idle child is put on short rations: what is left running
in it costs nobody anything. Who runs what is the runner's business (`solo.py`, `chorus.py`).
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

from rota.execute.attempts.attempt import Held
from rota.execute.attempts.sharing import NOBODYS, Company, limits_of
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.packages import SEEN_AT, Packages, Unpacked
from rota.execute.keeper_link import End, KeeperLink, Lost, Spawn, UnitLimits, Walls
from rota.execute.linux import work_folder
from rota.execute.linux.process_trees import MARK
from rota.execute.logs.capture import Flow
from rota.execute.machine.device_files import GPU, Assigned, DeviceFiles, variables
from rota.execute.machine.device_files import NONE as NO_DEVICES
from rota.execute.machine.mounts import NamedMount, named
from rota.execute.messages.calls import PACKAGE_VARIABLE
from rota.execute.processes.spawn_order import BadSpec, gpu_environment
from rota.execute.sandbox.bubblewrap import WORK
from rota.model.isolation import Isolation

log = structlog.get_logger()

MOST_IDLE = 16  # of all companies together
_IDLE_SECONDS = 30.0
_RATION_AFTER_SECONDS = 1.0
_RATION_CPU_MILLI = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cradle:
    """What every birth on this node has in common."""

    work: str
    environment: dict[str, str]
    imports: tuple[str, ...]  # modules every child loads before its first call
    directory: str  # where functions are imported from
    mounts: Mapping[str, NamedMount]
    shown: tuple[tuple[str, str, bool], ...] = ()  # what children behind walls see beside their named mounts
    path: tuple[str, ...] = ()  # where they import from
    devices: DeviceFiles = NO_DEVICES
    packages: Packages | None = None  # code that calls bring along; None: there is none


class Owner(Protocol):
    def child_born(self, child: WarmChild) -> None: ...

    def child_over(self, child: WarmChild, end: End) -> None: ...

    def child_limited(self, child: WarmChild, *, took: bool) -> None: ...


class Nursery:
    def __init__(
        self,
        *,
        owner: Owner,
        link: KeeperLink,
        flow: Flow,
        cradle: Cradle,
        kill_grace_seconds: float,
        keep_idle: int,
        module: str = "rota.execute.child.main",
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._link = link
        self._flow = flow
        self._cradle = cradle
        self._module = module  # the program of its children
        self._kill_grace_seconds = kill_grace_seconds
        self._keep_idle = keep_idle
        self._idle: list[WarmChild] = []  # the longest idle first
        self._born = 0
        self._removals: set[asyncio.Task[None]] = set()
        self.children: dict[WarmChild, str] = {}  # and their folders

    # ---- taking and giving back --------------------------------------------------------------------------------

    def take(self, held: Held, *, is_new: bool = False) -> WarmChild:
        """An idle child of its company, else (or when it is to be so) a new one.

        While `limit_orders` is not 0 the child gets its limits: nothing may be put into it yet. BadSpec: this node has
        no child for it.
        """
        limits = limits_of(held.room, held.terms)
        company = self._company(held)
        self.give_up_devices(held, but=company)
        child = None if is_new else self._find(company, limits)
        if child is None:
            return self.bear(company, limits, held.fence_ms)
        self._idle.remove(child)
        if child.fence_ms != held.fence_ms:
            child.fence_ms = held.fence_ms
            self._link.set_fence(child.number, held.fence_ms)
        if child.limits != limits:
            self._limit(child, limits)
        return child

    def _company(self, held: Held) -> Company:
        """A call that was given devices shares a child with those that were given the same; behind walls, with none."""
        company = held.terms.company
        if not (held.gpus or held.devices):
            return company
        files = () if company.isolation == Isolation.NONE else self._cradle.devices.of(held.gpus, held.devices)
        return msgspec.structs.replace(company, devices=files, gpus=held.gpus, assigned=held.devices)

    def give_up_devices(self, held: Held, *, but: Company | None = None) -> None:
        """Idle children that were born for devices which are another's now go at once: they hold the memory of them."""
        if not (held.gpus or held.devices):
            return
        wanted = _numbered(held.gpus, held.devices)
        for child in self._idle.copy():
            company = child.company
            if company != but and not wanted.isdisjoint(_numbered(company.gpus, company.assigned)):
                self._idle.remove(child)
                child.is_leaving = True
                self._link.kill(child.number)

    def rest(self, child: WarmChild) -> None:
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
        """Its whole tree is dead. What it left in its folder goes too: it may be much, and is nobody's any more."""
        if child.kill_timer is not None:
            child.kill_timer.cancel()
        folder = self.children.pop(child)
        if child.company.package and self._cradle.packages is not None:
            self._cradle.packages.released(child.company)
        if not isinstance(end, Lost) and end.folder_left:
            removal = self._loop.create_task(_remove(folder), name="remove a child's folder")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)
        if child in self._idle:
            self._idle.remove(child)

    def reload(self, company: Company | None = None) -> None:
        """Every child there is, or every one of a company, finishes what it has and leaves; new ones come next."""
        for child in self.children:
            if company is None or child.company == company:
                child.is_outdated = True
        for child in [idle for idle in self._idle if idle.is_outdated]:
            self._idle.remove(child)
            self.dismiss(child)

    def look_after_idle(self, now: float) -> bool:
        """Lets go and puts on rations; True while there will be more to do."""
        while len(self._idle) > self._keep_idle and now - self._idle[0].idle_since > _IDLE_SECONDS:
            self.dismiss(self._idle.pop(0))
        lavish = False
        for child in self._idle:
            if child.company.isolation != Isolation.NONE and child.limits.cpu_milli != _RATION_CPU_MILLI:
                if now - child.idle_since > _RATION_AFTER_SECONDS:
                    self._limit(child, msgspec.structs.replace(child.limits, cpu_milli=_RATION_CPU_MILLI))
                else:
                    lavish = True
        return lavish or len(self._idle) > self._keep_idle

    def _find(self, company: Company, limits: UnitLimits) -> WarmChild | None:
        found = None
        for child in reversed(self._idle):
            if child.company == company:
                if child.limits == limits:
                    return child
                found = found or child
        if found is None and company == Company(tenant=company.tenant):
            found = next((child for child in self._idle if child.company == NOBODYS), None)
            if found is not None:
                found.company = company
        return found

    # ---- limits ------------------------------------------------------------------------------------------------

    def ready(self, child: WarmChild) -> None:
        """It has loaded what it preloads; only now is it held to its share of CPU."""
        if child.limits != _at_first(child.limits):
            self._link.limit(child.number, child.limits, lambda took: None)

    def _limit(self, child: WarmChild, limits: UnitLimits) -> None:
        child.limits = limits
        child.limit_orders += 1
        self._link.limit(child.number, limits, lambda took: self._answered(child, took=took))

    def _answered(self, child: WarmChild, *, took: bool) -> None:
        child.limit_orders -= 1
        if not child.limit_orders:
            self._owner.child_limited(child, took=took)

    # ---- births ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """This agent ends, and its keeper with everything that lives: our ends of it are put away."""
        for child in self.children:
            if child.kill_timer is not None:
                child.kill_timer.cancel()
            self._loop.remove_reader(child.descriptor())
            child.close()
        self.children.clear()
        self._idle.clear()

    def bear(self, company: Company, limits: UnitLimits, fence_ms: int) -> WarmChild:
        if company.isolation == Isolation.NONE:
            walls = None
        elif company.isolation == Isolation.SANDBOX:
            walls = self._walls(company)
        else:
            raise BadSpec(f"functions can't run with isolation {company.isolation}; say sandbox")
        package = self._package(company)
        self._born += 1
        program = self._module.rpartition(".")[2]
        folder = f"{self._cradle.work}/child-{program}-{os.getpid()}-{self._born}"
        at_first = _at_first(limits)
        what = (
            self._plain(company, folder, fence_ms, at_first, package)
            if walls is None
            else self._behind(company, walls, folder, fence_ms, at_first, package)
        )
        if self._cradle.packages is not None and package is not None:
            self._cradle.packages.taken(company)
        child = WarmChild(self._owner, self._flow, self._loop, company)
        child.fence_ms = fence_ms
        child.limits = limits
        child.front_since = self._loop.time()
        child.number = self._link.spawn(child, what, child.end)
        self.children[child] = folder
        self._owner.child_born(child)
        return child

    def _package(self, company: Company) -> Unpacked | None:
        if not company.package:
            return None
        packages = self._cradle.packages
        found = packages.find(company) if packages is not None else None
        if found is None:
            raise BadSpec(f"the package {company.package} is not on this node")
        return found

    def _preloaded(self, package: Unpacked | None) -> tuple[str, ...]:
        """What operators preload is of the node's own code; where there is a package, that may be another."""
        return self._cradle.imports if package is None else ()

    def _plain(
        self, company: Company, folder: str, fence_ms: int, limits: UnitLimits, package: Unpacked | None
    ) -> Spawn:
        own = {} if package is None else {PACKAGE_VARIABLE: package.folder + package.inside}
        return Spawn(
            program=sys.executable,
            arguments=["-m", self._module, *self._preloaded(package)],
            env=self._cradle.environment | {"HOME": folder, "TMPDIR": folder, MARK: folder} | own | _told(company),
            folder=folder,
            fence_ms=fence_ms,
            cwd=self._cradle.directory,
            limits=limits,
        )

    def _behind(
        self, company: Company, walls: Walls, folder: str, fence_ms: int, limits: UnitLimits, package: Unpacked | None
    ) -> Spawn:
        own = {"HOME": WORK, "TMPDIR": "/tmp", MARK: WORK, "PYTHONPATH": ":".join(self._cradle.path)}
        if package is not None:
            walls = msgspec.structs.replace(walls, mounts=(*walls.mounts, (package.folder, SEEN_AT, False)))
            own[PACKAGE_VARIABLE] = SEEN_AT + package.inside
        return Spawn(
            program=sys.executable,
            # -P: what a function leaves in its folder is not imported in the place of what others mean.
            arguments=["-P", "-m", self._module, *self._preloaded(package)],
            env=self._cradle.environment | own | _told(company),
            folder=folder,
            fence_ms=fence_ms,
            limits=limits,
            walls=walls,
        )

    def _walls(self, company: Company) -> Walls:
        try:
            wanted = named(self._cradle.mounts, company.mounts, company.owner)
        except ValueError as error:
            raise BadSpec(str(error)) from None
        mounts = [(mount.source, mount.target, mount.writable) for mount in wanted]
        return Walls(network=company.network, mounts=(*self._cradle.shown, *mounts), devices=company.devices)


def _numbered(gpus: tuple[int, ...], others: Assigned) -> set[tuple[str, int]]:
    return {(kind, number) for kind, numbers in ((GPU, gpus), *others) for number in numbers}


def _told(company: Company) -> dict[str, str]:
    """From its birth on: libraries look at such variables once."""
    return (gpu_environment(company.gpus) if company.gpus else {}) | variables(company.assigned)


def _at_first(limits: UnitLimits) -> UnitLimits:
    """Loading Python on a tenth of a CPU would take seconds of somebody's waiting time: `ready` does the rest."""
    return msgspec.structs.replace(limits, cpu_milli=0, disk_bytes=0)


async def _remove(folder: str) -> None:
    if not await asyncio.to_thread(work_folder.remove, folder):
        log.error("the folder of a function's process could not be removed", folder=folder)
