"""Starts a unit: makes its folder, limits and groups, then spawns it plain, sandboxed, or as a container's engine.

Every failure is a `launch.NotStarted`; the caller removes what was made until then.
"""

from __future__ import annotations

import contextlib
import os
import time

from rota.execute.keeper import launch, spawn
from rota.execute.keeper.containers import Containers
from rota.execute.keeper.orders import SpawnOrder
from rota.execute.keeper.setup import Setup
from rota.execute.keeper.spare_folders import SpareFolders
from rota.execute.keeper.unit import Unit
from rota.execute.linux import work_folder
from rota.execute.linux.cgroup_limits import CPU, PIDS, Limits
from rota.execute.sandbox import bubblewrap, path_lookup

_NICE = 10  # nice value
_TOLERATED_PROCESSES = 16  # processes above the grant that the kernel still allows where only the watch counts them


class Starter:
    def __init__(self, work: str, setup: Setup, *, containers: Containers, spare: SpareFolders, null: int) -> None:
        self._work = work
        self._setup = setup
        self._containers = containers
        self._spare_folders = spare
        self._null = null

    def start(self, unit: Unit, order: SpawnOrder, descriptors: list[int]) -> None:
        try:
            unit.script = order.script is not None or order.is_upload
            unit.checkpoint = order.checkpoint
            unit.keeps_folder = order.keeps_folder
            self.limit(unit, order.limits)
            if order.container_spec is not None:
                self._containers.start(unit, order, order.container_spec, [self._null, *descriptors])
            elif order.sandbox is None:
                self._start_plainly(unit, order, descriptors)
            else:
                self._start_confined(unit, order, order.sandbox, descriptors)
        except (OSError, ValueError) as error:
            raise launch.refusal(error, [order.program]) from None
        if CPU not in self._setup.trees.parents:
            # Nothing limits its CPU: at least the keeper and the agent, which end it, come first.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, unit.main, _NICE)

    def limit(self, unit: Unit, limits: dict[str, int]) -> None:
        unit.disk_bytes = limits["disk_bytes"]
        unit.limits = Limits(
            memory_bytes=limits["memory_bytes"],
            pids=limits["pids"],
            cpu_milli=limits["cpu_milli"],
            cpu_burst=bool(limits["cpu_burst"]),
            iops=limits["iops"],
            device=self._setup.device,
        )

    def _start_plainly(self, unit: Unit, order: SpawnOrder, descriptors: list[int]) -> None:
        unit.is_plain = True
        launch.make_folder(order, None, self._spare_folders)
        argv = launch.argv_of(order, unit.folder, f"{unit.folder}/{work_folder.SCRIPT_NAME}")
        os.chdir(order.cwd or unit.folder)
        unit.started_at = time.monotonic()
        unit.main = spawn.spawn(argv, order.environment, self._null, descriptors)

    def _start_confined(
        self, unit: Unit, order: SpawnOrder, sandbox: bubblewrap.Sandbox, descriptors: list[int]
    ) -> None:
        host = self._setup.host
        if host is None:
            raise launch.NotStarted("no-sandbox", f"this node has no sandbox: {self._setup.why_no_sandbox}")
        unit.confined = True
        uid = spawn.own_uid(order.owner_of(unit.number), self._work)
        launch.make_folder(order, uid, self._spare_folders)
        if not (sandbox.mounts or sandbox.network or sandbox.devices):
            unit.sole_owner = uid  # nobody outside can have a descriptor of its folder

        def locate(path: str) -> str | None:
            return path_lookup.outside(host, sandbox, path, folder=unit.folder)

        system = launch.IN_ROOT if sandbox.root else launch.ON_NODE
        argv = launch.argv_of(
            order, bubblewrap.WORK, f"{bubblewrap.WORK}/{work_folder.SCRIPT_NAME}", locate, system=system
        )
        if self._setup.trees.parents:
            unit.leaf = self._setup.trees.leaf(f"unit-{unit.number}")
            unit.leaf.make()
            unit.leaf.limit(unit.limits)
        counted = PIDS in self._setup.trees.parents
        how = spawn.Confinement(
            host=host,
            sandbox=sandbox,
            filter=self._setup.filter,
            uid=uid,
            leaf=unit.leaf,
            view=self._setup.view,
            most_file_bytes=unit.disk_bytes,
            most_processes=unit.limits.pids + _TOLERATED_PROCESSES if unit.limits.pids and not counted else 0,
        )
        unit.started_at = time.monotonic()
        unit.main = spawn.confine(
            how, argv, order.environment, folder=unit.folder, null=self._null, descriptors=descriptors
        )
