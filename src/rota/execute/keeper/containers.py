"""Containers under the keeper: starts them, enforces their limits, removes what is left of them.

The engine's own processes lie in the unit's groups, which have no limits; the container, which the engine makes, lies
in limited groups beside them. So an engine never runs out of the task's memory, and both groups can be killed at once.
A killed engine leaves its container in its records and on its disk; the engine itself is asked to remove it.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from rota.execute.keeper import launch, spawn
from rota.execute.keeper.orders import SpawnOrder
from rota.execute.keeper.setup import Setup
from rota.execute.keeper.unit import Unit, UnitContainer
from rota.execute.linux import process_trees, work_folder
from rota.execute.linux.cgroup_limits import CPU, MEMORY, PIDS
from rota.execute.sandbox import container, engine_calls
from rota.execute.sandbox.bubblewrap import WORK
from rota.execute.sandbox.engine_calls import MOST_TRIES


class Containers:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._engines: dict[str, tuple[container.Engine, str]] = {}  # engines that were used, and for which data folder

    def start(
        self, unit: Unit, order: SpawnOrder, container_spec: container.ContainerSpec, descriptors: list[int]
    ) -> None:
        """`descriptors` become 0, 1 and 2. A failed start is an OSError or launch.NotStarted."""
        own = spawn.own_uid(order.owner_of(unit.number), os.path.dirname(unit.folder))
        launch.make_folder(order, own)
        script = f"{unit.folder}/{work_folder.SCRIPT_NAME}" if unit.script else None
        argv = launch.unresolved(order, WORK, f"{WORK}/{work_folder.SCRIPT_NAME}", lambda _: script)
        unit.container = UnitContainer(container.removal(container_spec.engine, [container_spec.name]))
        self._engines[container_spec.engine.program] = (container_spec.engine, container_spec.data)
        if self._setup.trees.parents:
            unit.leaf = self._setup.trees.leaf(f"unit-{unit.number}")
            unit.leaf.make()
        uid = os.geteuid() if own is None else own
        engine = container.arguments(
            container_spec, self._bounds(unit, unit.container, container_spec), folder=unit.folder, uid=uid
        )
        unit.started_at = time.monotonic()
        variables = spawn.readable(container.variables(order.environment))
        try:
            env = container_spec.engine.env | {process_trees.MARK: unit.folder}
            passed = [*descriptors[1:], variables]
            unit.main = spawn.engine(unit.leaf, engine + argv, env, null=descriptors[0], descriptors=passed)
        finally:
            os.close(variables)

    def _bounds(self, unit: Unit, record: UnitContainer, container_spec: container.ContainerSpec) -> container.Bounds:
        """A limit that one of our groups enforces is not given to the engine as well: it is counted once."""
        limited: set[str] = set()
        if self._setup.container_path and container_spec.engine.kind == container.PODMAN:
            limited = set(self._setup.container_groups.parents)
            record.group = self._setup.container_groups.leaf(f"container-{unit.number}")
            record.group.make()
            record.group.limit(unit.limits)
            record.oom_signal = record.group.oom_signal()
        bounds = container.Bounds(
            parent=f"{self._setup.container_path}/container-{unit.number}" if limited else "",
            memory_bytes=0 if MEMORY in limited else unit.limits.memory_bytes,
            pids=0 if PIDS in limited else unit.limits.pids,
            cpu_milli=0 if CPU in limited else unit.limits.cpu_milli,
            cpu_burst=unit.limits.cpu_burst,
        )
        if bounds.memory_bytes:
            unit.limits = replace(unit.limits, memory_bytes=0)  # the engine enforces it: nothing to watch
        return bounds

    def clean(self, left: UnitContainer, null: int) -> bool:
        """A killed engine leaves its container behind. True: `left.cleaner` is removing it."""
        if left.cleanings == MOST_TRIES:
            return False  # the next agent removes it at its start
        left.cleanings += 1
        engine, _ = self._engines[left.removal[0]]
        try:
            left.cleaner = spawn.spawn(left.removal, engine.env, null, [null, null])
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Everything is dead; removes all containers from the engines' records."""
        for engine, data in self._engines.values():
            engine_calls.remove_all(engine, data)
