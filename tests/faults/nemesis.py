"""The nemesis: kills one process after the other at seeded random moments, and starts each again a while later.

In between it puts a server or an agent to sleep, sometimes for longer than a lease or a grace.

It plays the part of the operator's supervisor too: whatever has ended, killed or not, is started again when its time
has come. It runs in the test's own thread, because PostgreSQL is tied to the thread that started it.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable

from rota.store.embedded import EmbeddedError
from tests.faults.scene import Scene, children_of, eventually, keeper_of, kill
from tests.harness.cluster import Process
from tests.harness.postgres import TestPostgres

VICTIMS = {"server": 4, "worker": 4, "child": 4, "keeper": 2, "postgres": 2}
SLEEP_EVERY_SECONDS = 6.0
TICK_SECONDS = 0.02


class Nemesis:
    def __init__(self, scene: Scene, postgres: TestPostgres, *, seed: int, pause_seconds: tuple[float, float]) -> None:
        self._scene = scene
        self._postgres = postgres
        self._random = random.Random(seed)
        self._pause_seconds = pause_seconds
        self._due: dict[str, float] = {}  # name of what is down → when to start it again
        self._asleep: dict[str, float] = {}  # name of what is paused → when to let it go on
        self.kills: Counter[str] = Counter()
        self.story: list[str] = []

    def run(self, *, kills: int, until: Callable[[], bool]) -> None:
        """At least so many kills, and on until the workload is through. Then everything is up again."""
        began = time.monotonic()
        next_kill = began + self._random.uniform(*self._pause_seconds)
        next_sleep = began + self._random.uniform(2, 2 * SLEEP_EVERY_SECONDS)
        while self.kills.total() < kills or not until():
            now = time.monotonic()
            if now >= next_kill:
                self._strike(now - began)
                next_kill = now + self._random.uniform(*self._pause_seconds)
            if now >= next_sleep:
                self._put_to_sleep(now - began)
                next_sleep = now + self._random.uniform(2, 2 * SLEEP_EVERY_SECONDS)
            self._wake_who_slept_enough(now)
            self._start_what_is_due(now)
            time.sleep(TICK_SECONDS)
        self.heal()

    def heal(self) -> None:
        """No more faults: everything is started, and stays."""
        self._due = {}
        self._wake_who_slept_enough(float("inf"))
        if self._postgres.server.poll() is not None:
            start_postgres(self._postgres)

        def all_up() -> bool:
            self._start_what_is_due(time.monotonic())
            return all(process.running for process in self._processes())

        eventually(all_up, seconds=30, what="every process runs again")

    # ---- killing ----------------------------------------------------------------------------------------------

    def _strike(self, at: float) -> None:
        kind = self._random.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        name = getattr(self, f"_kill_{kind}")()
        if name is None:  # nobody of that kind lives just now
            name = self._kill_server() or self._kill_worker()
            kind = "server"
        if name is not None:
            self.kills[kind] += 1
            self.story.append(f"{at:7.2f} s kill {name}")

    def _kill_server(self) -> str | None:
        return self._kill_one(self._scene.cluster.servers)

    def _kill_worker(self) -> str | None:
        return self._kill_one(self._scene.cluster.workers)

    def _kill_one(self, processes: list[Process]) -> str | None:
        running = [process for process in processes if process.running]
        if not running:
            return None
        victim = self._random.choice(running)
        victim.kill()
        self._later(victim.name)
        return victim.name

    def _kill_child(self) -> str | None:
        folder = self._scene.cluster.folder
        found = [pid for worker in self._scene.cluster.workers for pid in children_of(worker, folder)]
        if not found:
            return None
        victim = self._random.choice(sorted(found))
        return f"child {victim}" if kill(victim) else None

    def _kill_keeper(self) -> str | None:
        running = [worker for worker in self._scene.cluster.workers if worker.running]
        if not running:
            return None
        worker = self._random.choice(running)
        keeper = keeper_of(worker, self._scene.cluster.folder)
        return f"keeper of {worker.name}" if keeper is not None and kill(keeper) else None

    def _kill_postgres(self) -> str | None:
        pid = self._postgres.server.pid
        if pid is None or self._postgres.server.poll() is not None or not kill(pid):
            return None
        eventually(lambda: self._postgres.server.poll() is not None, seconds=10, what="PostgreSQL is dead")
        self._later("postgres")
        return "postgres"

    # ---- sleeping ---------------------------------------------------------------------------------------------

    def _put_to_sleep(self, at: float) -> None:
        """A lease is 2 s and a grace 6 s at this scale: some sleep through neither, some through both."""
        awake = [process for process in self._processes() if process.running and process.name not in self._asleep]
        if awake:
            sleeper = self._random.choice(awake)
            seconds = self._random.uniform(0.5, 4.0) if self._random.random() < 0.7 else self._random.uniform(5.0, 8.0)
            sleeper.pause()
            self._asleep[sleeper.name] = time.monotonic() + seconds
            self.story.append(f"{at:7.2f} s pause {sleeper.name} for {seconds:.1f} s")

    def _wake_who_slept_enough(self, now: float) -> None:
        for process in self._processes():
            if process.name in self._asleep and now >= self._asleep[process.name]:
                del self._asleep[process.name]
                process.resume()

    # ---- starting again ---------------------------------------------------------------------------------------

    def _later(self, name: str) -> None:
        """Mostly soon; now and then only after a worker's attempts have been given up (6 s at this scale)."""
        long = name.startswith("node") and self._random.random() < 0.15
        wait = self._random.uniform(6.5, 8.0) if long else self._random.uniform(0.0, 1.5)
        self._due[name] = time.monotonic() + wait

    def _start_what_is_due(self, now: float) -> None:
        if self._postgres.server.poll() is not None and now >= self._due.get("postgres", 0.0):
            start_postgres(self._postgres)
        for process in self._processes():
            if not process.running and now >= self._due.get(process.name, 0.0):
                self._due[process.name] = now + 0.5  # one that dies at once is not started in a frenzy
                self._asleep.pop(process.name, None)  # it was killed in its sleep
                start_without_waiting(process)

    def _processes(self) -> list[Process]:
        return [*self._scene.cluster.servers, *self._scene.cluster.workers]


def start_without_waiting(process: Process) -> None:
    """The pipe on which it says that it is ready stays open, else saying so would be its end."""
    descriptor = getattr(process, "_ready", None)
    process.start(wait=False)
    if descriptor is not None:
        os.close(descriptor)  # its last life's


def start_postgres(postgres: TestPostgres) -> None:
    """After a kill -9 the old backends may still be on their way out, and hold the shared memory."""

    def start() -> bool:
        try:
            postgres.server.start()
        except EmbeddedError:
            return False
        return True

    eventually(start, seconds=30, what="PostgreSQL starts again")
