"""The keeper: a small process that starts, reaps and kills everything the agent runs.

It exists so that spawning never blocks the agent's event loop and so that nothing outlives the agent: when the socket
to the agent closes, for whatever reason, every tree is killed and every folder and cgroup removed. It obeys orders
(`keeper_link.py` is the other side), decides nothing about tasks, and enforces only the fence by itself
(`freezing.py`), because the agent may be stopped. It has one thread and must never import the rest of the agent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import deque
from pathlib import Path

from rota.execute.keeper import folder_size, launch, reachable_folders, spare_folders
from rota.execute.keeper.confined_exec import LOW_DESCRIPTORS
from rota.execute.keeper.containers import Containers
from rota.execute.keeper.freezing import Freezing
from rota.execute.keeper.limit_watch import Watch, over_by_counters
from rota.execute.keeper.memory_use import used_memory_bytes
from rota.execute.keeper.orders import SpawnOrder, read_spawn
from rota.execute.keeper.orphans import Orphans
from rota.execute.keeper.relimit import relimit
from rota.execute.keeper.setup import KeeperOptions, Setup, set_up
from rota.execute.keeper.spare_folders import SpareFolders
from rota.execute.keeper.starter import Starter
from rota.execute.keeper.unit import Unit
from rota.execute.linux import cgroups, process_trees, work_folder
from rota.execute.linux.cgroup_limits import MEMORY, PIDS
from rota.execute.messages import packets

CHANNEL_VARIABLE = "ROTA_KEEPER_CHANNEL"  # the environment variable naming the socket's descriptor
_ORDERS_PER_ROUND = 16
_ALL_ORDERS = 10_000  # more than the socket holds
_RETRY_MS = 1
_GROWN_SECONDS = 0.02
_DYING_SECONDS = 0.005
_ADOPTION_ROUNDS = 20
_ENGINE_SECONDS = 3.0  # for an engine's helpers to remove a container that has ended by itself
_BLOCK_BYTES = 512  # the kernel's unit for written blocks, whatever the disk's is
_LITTLE = 16  # one part in so many of a grant of memory
_PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    def __init__(self, channel: socket.socket, work: str, setup: Setup) -> None:
        self._channel = channel
        self._work = work
        self._setup = setup
        self._units: dict[int, Unit] = {}
        self._by_process: dict[int, Unit] = {}
        self._closing: list[Unit] = []
        self._freezing = Freezing(self._join_group)
        limited = setup.trees.parents
        self._watch = Watch(samples_memory=MEMORY not in limited, samples_processes=PIDS not in limited)
        self._reports: list[list[object]] = []
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._containers = Containers(setup)
        self._spare_folders = SpareFolders(spare_folders.folder_of(work))
        self._starter = Starter(work, setup, containers=self._containers, spare=self._spare_folders, null=self._null)
        self._orphans = Orphans(self._by_process)
        self._young: deque[Unit] = deque()  # not yet in a cgroup
        self._own_peak_bytes = process_trees.peak_bytes(os.getpid())

    def run(self) -> None:
        wake = _wake_on_child_exit()
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self._patience_ms())}
            # First, because the machine may have been suspended. But before a unit is frozen, read all the agent's
            # orders: "trust" may wait behind a hundred spawns. It carries its own time, so its delay does no harm.
            if time.monotonic() >= self._freezing.next_at() and not self._obey(_ALL_ORDERS):
                break
            self._freezing.enforce()
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            if self._channel.fileno() in ready and not self._obey():
                break
            self._reap()
            self._close_ended()
            self._adopt_grown()
            self._end_over_limit()
            if not self._report():
                break
        self._end_everything()

    def _patience_ms(self) -> float | None:
        if self._closing:
            return _RETRY_MS
        if self._reports:
            return 20
        now = time.monotonic()
        due_at = min(self._freezing.next_at(), self._watch.due_at)
        if self._young:
            due_at = min(due_at, self._young[0].started_at + _GROWN_SECONDS)
        return None if due_at - now > 3600 else max(0.0, due_at - now) * 1000 + 1

    # ---- orders --------------------------------------------------------------------------------------------

    def _obey(self, most: int = _ORDERS_PER_ROUND) -> bool:
        """Carries out waiting orders, at most `most`. False when the agent is gone."""
        for _ in range(most):
            try:
                packet = packets.receive(self._channel, packets.DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if packet is None:
                return False
            body, descriptors = packet
            try:
                self._carry_out(json.loads(body), descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        return True

    def _carry_out(self, order: list[object], descriptors: list[int]) -> None:
        match order:
            case ["spawn", int(number), dict(spawn)]:
                self._spawn(number, read_spawn(spawn), descriptors)
            case ["term", int(number)]:
                if number in self._units:
                    self._units[number].terminate()
            case ["kill", int(number)]:
                if number in self._units:
                    self._units[number].kill()
            case ["fence", int(number), int(fence_ms)]:
                if number in self._units:
                    self._freezing.change(self._units[number], fence_ms)
            case ["limit", int(number), dict(limits)]:
                self._relimit(number, limits)
            case ["trust", float(sent_at)]:
                self._freezing.trust(sent_at)
            case _:
                # Its first word only: the rest may hold a task's environment.
                raise AssertionError(f"the agent sent an order the keeper does not know: {order[:1]!r:.200}")

    def _spawn(self, number: int, order: SpawnOrder, descriptors: list[int]) -> None:
        unit = Unit(number, order.folder, order.fence_ms)
        try:
            self._starter.start(unit, order, descriptors)
        except launch.NotStarted as refusal:
            self._refuse(unit, refusal)
            return
        if unit.is_plain:
            self._young.append(unit)
        self._units[number] = self._by_process[unit.main] = unit
        self._watch.wake(unit, unit.started_at)
        self._freezing.add(unit)

    def _relimit(self, number: int, limits: dict[str, int]) -> None:
        unit = self._units.get(number)
        if unit is None or unit.ended_at:
            return  # the agent learns of its end instead
        before, disk_bytes = unit.limits, unit.disk_bytes
        self._starter.limit(unit, limits)
        took = unit.leaf is None or relimit(unit.leaf, before, unit.limits)
        if not took:
            unit.limits, unit.disk_bytes = before, disk_bytes
        self._watch.wake(unit, time.monotonic())
        self._reports.append(["limited", number, took])

    def _adopt_grown(self) -> None:
        """Moves plain trees that have run for a little while into groups of their own.

        Entering a group waits for an RCU grace period: milliseconds on a busy machine, several times the cost of a
        short task. Short ones are ended by session and parentage instead: see `_is_empty`.
        """
        now = time.monotonic()
        while self._young and self._young[0].started_at + _GROWN_SECONDS <= now:
            unit = self._young.popleft()
            if unit.number in self._units and not unit.ended_at and unit.leaf is None:
                self._join_group(unit)

    def _join_group(self, unit: Unit) -> None:
        """Repeats until no process of the tree is outside; later forks of a member start inside."""
        if not self._setup.trees.parents:
            return
        leaf = self._setup.trees.leaf(f"unit-{unit.number}")
        unit.peak_bytes = process_trees.peak_bytes(unit.main)  # its usage before, which no group counts
        try:
            leaf.make()
            leaf.limit(unit.limits)
            for _ in range(_ADOPTION_ROUNDS):
                inside = set(cgroups.members(leaf.folders[0]))
                outside = [process for process in self._orphans.tree_of(unit) if process not in inside]
                if not outside:
                    break
                for process in outside:
                    leaf.take_in(process)
        except OSError:
            for folder in leaf.folders:  # not permitted or no space: the tree is watched through /proc
                cgroups.remove(folder)
            return
        unit.leaf = leaf
        granted = unit.limits.memory_bytes
        if granted:  # only now: it may have allocated much while it was being moved
            tree = [unit.main, *process_trees.descendants(unit.main)]
            unit.late = used_memory_bytes(tree, enough=granted) > granted // _LITTLE

    def _end_over_limit(self) -> None:
        now = time.monotonic()
        if now >= self._watch.due_at:
            for unit in self._watch.look(list(self._by_process.values()), now):
                unit.kill()

    def _refuse(self, unit: Unit, refusal: launch.NotStarted) -> None:
        if unit.leaf is not None:
            unit.remove_leaf()
        left = not self._remove_folder(unit)
        self._reports.append(["refused", unit.number, refusal.slug, refusal.message, left])

    def _remove_folder(self, unit: Unit) -> bool:
        """False: the agent must read and remove the folder."""
        if unit.keeps_folder:
            return False
        may_come_back = unit.checkpoint and (unit.is_plain or unit.sole_owner is not None)
        if may_come_back and self._spare_folders.take_back(unit.folder, script=unit.script, owner=unit.sole_owner):
            return True
        return work_folder.remove_quickly(unit.folder, script=unit.script, checkpoint=unit.checkpoint)

    # ---- ends ----------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            unit = self._by_process.pop(process, None)
            if unit is None:
                continue  # an orphan of some task, reparented to us as its subreaper
            if unit.container is not None and process == unit.container.cleaner:
                if status == 0 or not self._clean(unit):
                    self._closing.append(unit)
                continue
            unit.ended_at = time.monotonic()
            if unit.container is None:
                unit.written_bytes = max(unit.written_bytes, usage.ru_oublock * _BLOCK_BYTES)
            cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)
            peak_bytes = self._peak_bytes(unit, usage.ru_maxrss * 1024)
            unit.usage = (status, cpu_us, peak_bytes) if unit.container is None else (status, 0, 0)
            self._closing.append(unit)

    def _peak_bytes(self, unit: Unit, reported: int) -> int:
        """The kernel's figure starts at the keeper's size (not at its `ru_maxrss`: that starts at the agent's)."""
        if reported > self._own_peak_bytes:
            self._own_peak_bytes = process_trees.peak_bytes(os.getpid())  # the keeper may have grown
        return max(unit.peak_bytes, reported if reported > self._own_peak_bytes else 0)

    def _close_ended(self) -> None:
        """Reports a unit's end only once its whole tree is dead and its cgroup gone."""
        if self._closing:
            self._closing = [unit for unit in self._closing if not self._close(unit)]

    def _close(self, unit: Unit) -> bool:
        if unit.leaf is not None:
            if unit.confined and unit.leaf.is_populated():
                # Cheaper than counting and trying to remove. Most are still dying: their first process is gone, and
                # with it the whole namespace.
                if time.monotonic() > unit.ended_at + _DYING_SECONDS:
                    unit.kill()
                return False
            self._read_counters(unit)
        if unit.container is None or not unit.container.cleaner:
            if not self._is_empty(unit):
                return False
            if not unit.is_clean and self._clean(unit):
                return True  # it comes back when that has ended
        if unit.left is None:
            unit.left = not self._remove_folder(unit)
        left = unit.left
        if left and not self._watch.check_last(unit):
            return False
        del self._units[unit.number]
        self._freezing.discard(unit)
        times = (int(unit.started_at * 1e6), int(unit.ended_at * 1e6))
        if left:
            unit.written_bytes = max(unit.written_bytes, folder_size.first_slice(unit.folder))
        end = (left, unit.fenced, *unit.over, unit.written_bytes, unit.granted_processes)
        self._reports.append(["ended", unit.number, *unit.usage, *times, *end])
        return True

    def _read_counters(self, unit: Unit) -> None:
        """Read before the groups are removed, and again whenever that failed: the last figures count."""
        counted = unit.counters()
        if not unit.over[0]:
            unit.over = over_by_counters(unit, counted)
        # The process's own figures miss children that nobody waited for; the group's miss usage from before it was
        # joined.
        status, cpu_us, peak = unit.usage
        unit.usage = (status, max(cpu_us, counted.cpu_us), max(counted.peak_memory_bytes, peak))

    def _clean(self, unit: Unit) -> bool:
        if unit.container is None or not self._containers.clean(unit.container, self._null):
            return False
        self._by_process[unit.container.cleaner] = unit
        return True

    def _is_empty(self, unit: Unit) -> bool:
        if unit.leaf is not None:
            if not unit.remove_leaf():
                if unit.container is None or not unit.is_clean or time.monotonic() > unit.ended_at + _ENGINE_SECONDS:
                    unit.kill()
                return False
            # processes that escaped while a plain tree was moved in are found like those of a short one
            unit.leaf = None
        if unit.confined:
            return True  # with its first process the whole namespace is gone
        return self._orphans.clear(unit)

    def _report(self) -> bool:
        if not self._reports:
            return True
        body = json.dumps(self._reports, separators=(",", ":")).encode()
        try:
            packets.send(self._channel, body, flags=packets.DONTWAIT)
        except BlockingIOError:
            return True  # the agent does not read (it may be stopped); fences must still be enforced
        except OSError:
            return False
        self._reports.clear()
        return True

    def _end_everything(self) -> None:
        parents = (*self._setup.trees.parents.values(), *self._setup.container_groups.parents.values())
        for parent in dict.fromkeys(parents):
            cgroups.sweep(parent)  # also the parent itself: nothing of ours stays in the system
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            left = process_trees.descendants(os.getpid())
            process_trees.signal_all(left, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not left:
                break
            time.sleep(0.001)
        process_trees.kill_marked(self._work, below=True)
        self._containers.end()
        process_trees.kill_marked(process_trees.engine_mark(self._work), below=False)
        work_folder.remove_all_below(self._work)
        work_folder.remove_all_below(spare_folders.folder_of(self._work))
        if self._setup.host is not None:
            reachable_folders.clear(cgroups.parent_name(Path(self._work).parent))


def _wake_on_child_exit() -> int:
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def main() -> None:
    work = sys.argv[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # only the end of the agent ends the keeper
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    channel = socket.socket(fileno=int(os.environ[CHANNEL_VARIABLE]))
    channel.set_inheritable(False)
    while os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) < LOW_DESCRIPTORS:
        pass
    setup = set_up(work, KeeperOptions(**json.loads(sys.argv[2])))
    with contextlib.suppress(OSError):  # the agent has ended meanwhile: `run` notices and cleans up
        packets.send(channel, json.dumps(["ready", setup.facts()]).encode())
    Keeper(channel, work, setup).run()


if __name__ == "__main__":
    main()
