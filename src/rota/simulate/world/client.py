"""The tenants' clients: they submit, repeat unanswered requests, cancel, pause, edit, and rerun dead letters.

A client without an answer repeats the request, to any server, if its tasks have idempotency keys; without keys it gives
up. The auditor learns every answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.model.catalogue import DEFAULT_LANES
from rota.model.request.edit import Edit
from rota.simulate.world.api import Request
from rota.simulate.world.database.rows import PAUSED

if TYPE_CHECKING:
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

PATIENCE_SECONDS = 8.0
TROUBLES = ("error", "error", "bad result", "out of memory", "hang", "kills its agent")


class Clients:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._chance = world.kernel.random
        self._keys = 0
        self.owned: dict[int, list[int]] = {tenant: [] for tenant in world.options.tenants}
        self.unanswered = 0
        self.last_submit = 0.0

    def schedule(self) -> None:
        """Schedules all submissions and edits over the time of faults."""
        options = self._world.options
        tenants = sorted(options.tenants)
        left = options.tasks
        if options.flood:  # the other tenants come after the flood
            flood = int(left * 0.85)
            left -= flood
            shape = min(options.shapes)
            while flood > 0:
                count = min(flood, 40)
                self._plan(self._chance.uniform(0, 1), tenants[0], count, plain=shape)
                flood -= count
            self._plan(self._chance.uniform(2, 4), tenants[1], 1, plain=shape)
        while left > 0:
            count = min(left, self._chance.choice((1, 1, 1, 2, 4, 8, 12)))
            self._plan(self._chance.uniform(0, options.seconds * 0.8), self._chance.choice(tenants), count)
            left -= count
        shares = ((options.cancels, self._cancel), (options.pauses, self._pause), (options.edits, self._edit))
        edits = [edit for share, edit in shares for _ in range(int(options.tasks * share))]
        edits += [self._cool] * (4 if options.global_locks and options.locks else 0)
        for edit in edits:
            self._kernel.after(self._chance.uniform(1, options.seconds), edit)
        for _ in range(self._chance.choice((0, 2))):
            self._kernel.after(self._chance.uniform(10, options.seconds + 20), self._redrive)

    def _plan(self, at: float, tenant: int, count: int, plain: int | None = None) -> None:
        self.unanswered += 1
        self.last_submit = max(self.last_submit, at)
        self._kernel.after(at, self._submit, tenant, count, plain)

    # ---- submitting -------------------------------------------------------------------------------------------------

    def _submit(self, tenant: int, count: int, plain: int | None) -> None:
        chance, options = self._chance, self._world.options
        pool = chance.choice(options.pools)
        keyed = chance.random() < options.keyed
        keys: list[str | None] = []
        for _ in range(count):
            self._keys += 1
            keys.append(f"k{self._keys}" if keyed else None)
        if plain is not None:
            tasks = [self.fields(options.pools[0], shape=plain) for _ in range(count)]
        else:
            tasks = [self.fields(pool if chance.random() < 0.9 else chance.choice(options.pools)) for _ in range(count)]
        request = Request(tenant, tasks, keys)
        if plain is None:
            self._link(request, tenant)
        self.send(request)

    def _link(self, request: Request, tenant: int) -> None:
        """Adds dependencies: on earlier tasks of the request, and on older tasks."""
        chance, share = self._chance, self._world.options.dependencies
        for index in range(len(request.tasks)):
            if index and chance.random() < share:
                request.siblings[index] = sorted(chance.sample(range(index), min(index, chance.choice((1, 1, 2, 3)))))
            if self.owned[tenant] and chance.random() < share / 2:
                recent = self.owned[tenant][-6:]
                request.parents[index] = sorted(set(chance.sample(recent, min(len(recent), chance.choice((1, 2))))))

    def fields(self, pool: int, shape: int | None = None) -> dict[str, Any]:
        chance, options = self._chance, self._world.options
        attempts = chance.choice((1, 2, 3))
        length = chance.random()
        kind = 1 if length < 0.4 else 2
        seconds = chance.uniform(0.005, 0.04) if kind == 1 else chance.uniform(0.3, 4.0)
        if length > 1 - options.long_share:
            kind, seconds = 3, chance.uniform(10.0, 35.0)
        outcomes = ["ok"]
        if shape is not None:
            kind, seconds = 2, chance.uniform(1.5, 4.0)
        elif chance.random() < options.trouble:
            outcomes = [chance.choice(TROUBLES) for _ in range(chance.choice((1, 1, 2, 4)))] + ["ok"]
            if outcomes[0] == "kills its agent" and chance.random() < 0.5:
                outcomes = ["kills its agent"]
        lane = 1 if shape is not None else chance.choice((0, 1, 1, 1, 3))
        shape_number = shape or chance.choice(sorted(options.shapes))
        locked = shape is None and chance.random() < options.locks
        given = shape is None and chance.random() < options.deadlines
        delayed = shape is None and chance.random() < options.delays
        return {
            "pool": pool,
            "upstream": chance.choice((1, 1, 1, 2, 2, 3)),
            "attempts": attempts,
            "backoff_ms": chance.choice((100, 1000)),
            "backoff_limit_ms": 4000,
            "cap_ms": chance.choice((5_000, 20_000)) if kind < 3 else 60_000,
            "concurrency_key": "lock" if locked else None,
            "concurrency_limit": 2,
            "concurrency_global": locked and chance.random() < options.global_locks,
            "lane": lane,
            "preemptible": shape is None and chance.random() < 0.3,
            "priority": 0 if shape is not None else chance.choice((0, 0, 5)),
            "not_before_us": self._world.store.tables.now_us() + int(chance.uniform(1, 20) * 1e6) if delayed else None,
            "shape": shape_number,
            "run_seconds": seconds,
            "outcomes": outcomes,
            "tolerance_ms": chance.choice((6_000, 15_000, 40_000)) if given else 600_000,
            "tolerance_given": given,
            "expires": given and options.expiry > 0 and chance.random() < options.expiry,
            "work": kind,
        }

    def send(self, request: Request) -> list[bool]:
        """Sends the request; the list says later whether it was answered, or given up without an idempotency key."""
        answered = [False]
        self._send(request, 0, answered)
        return answered

    def _send(self, request: Request, tries: int, answered: list[bool]) -> None:
        if answered[0]:
            return
        server = self._any_server()
        again = request.keys[0] is not None
        if server is None:
            self._kernel.after(1.0, self._send, request, tries, answered)
            return

        def answer(status: str, result: Any) -> None:
            if status != "ok" and (status == "unknown" and again):
                return  # the request is repeated
            if status == "ok":
                if self._world.nemesis.loses_answer():
                    return
                self._acknowledged(request, result)
            if not answered[0]:
                answered[0] = True
                self.unanswered -= 1

        self._kernel.after(0.005, server.post, server.api.submit, request, answer)
        if again and self._chance.random() < self._world.options.duplicates:
            other = self._any_server()
            if other is not None:
                self._kernel.after(self._chance.uniform(0, 0.02), other.post, other.api.submit, request, answer)
        self._kernel.after(PATIENCE_SECONDS, self._lose_patience, request, tries + 1, answered)

    def _lose_patience(self, request: Request, tries: int, answered: list[bool]) -> None:
        if answered[0]:
            return
        if request.keys[0] is None:
            answered[0] = True
            self.unanswered -= 1
            return
        self._send(request, tries, answered)

    def _acknowledged(self, request: Request, ids: list[int]) -> None:
        for key, task in zip(request.keys, ids, strict=True):
            self._world.auditor.acknowledged(request.tenant, key, task)
            if task not in self.owned[request.tenant]:
                self.owned[request.tenant].append(task)

    def _any_server(self) -> Server | None:
        alive = self._world.alive_servers()
        return self._chance.choice(alive) if alive else None

    # ---- edits ------------------------------------------------------------------------------------------------------

    def _choose(self) -> tuple[Server, int, int] | None:
        """A server, a tenant, and one of the tenant's newer tasks."""
        tenant = self._chance.choice(sorted(self.owned))
        server = self._any_server()
        if not self.owned[tenant] or server is None or server.paused_until > self._kernel.now:
            return None
        (task,) = self._chance.sample(self.owned[tenant][-20:], 1)
        return server, tenant, task

    def _cancel(self) -> None:
        chosen = self._choose()
        if chosen is None:
            return
        server, tenant, task = chosen

        def answer(status: str, result: Any) -> None:
            for cancelled in result:
                self._world.auditor.cancel_acknowledged(cancelled)

        self._world.story.tell("client", f"cancels {task}")
        server.spawn(server.api.cancel([task], tenant, answer))

    def _pause(self) -> None:
        """Pauses or holds a task, and later resumes it, repeating that until it is acknowledged."""
        chosen = self._choose()
        if chosen is None:
            return
        server, tenant, task = chosen
        if task % 2:
            self._world.story.tell("client", f"holds {task}")
            server.spawn(server.api.hold(task, tenant, self._held))
        else:
            self._world.story.tell("client", f"pauses {task}")
            server.spawn(server.api.pause(task, tenant))
        self._kernel.after(self._chance.choice((0.0, 0.5, 5.0, 20.0)), self._resume, task, tenant, [False])
        # A slow pause may be carried out after that resume, so resume again after healing.
        healed_at = max(self._kernel.now, self._world.options.seconds)
        self._kernel.at(healed_at + 20.0, self._resume, task, tenant, [False])
        # A paused server may carry out the pause even later.
        self._kernel.at(healed_at + 60.0, self._resume_at_last, task, tenant)

    def _held(self, status: str, result: Any) -> None:
        for task in result:
            self._world.auditor.hold_acknowledged(task)

    def _resume_at_last(self, task: int, tenant: int) -> None:
        row = self._world.store.tables.queue.get(task)
        if row is not None and row.state == PAUSED:
            self._resume(task, tenant, [False])

    def _resume(self, task: int, tenant: int, acknowledged: list[bool]) -> None:
        if acknowledged[0]:
            return

        def answer(status: str, result: Any) -> None:
            acknowledged[0] = True

        server = self._any_server()
        if server is not None:
            self._world.story.tell("client", f"resumes {task}")
            server.spawn(server.api.resume(task, tenant, answer))
        self._kernel.after(3.0, self._resume, task, tenant, acknowledged)

    def _edit(self) -> None:
        """Edits a task by an old reading of it: it may have changed, started or ended since."""
        chance, chosen = self._chance, self._choose()
        if chosen is None:
            return
        server, tenant, task = chosen
        row = self._world.store.tables.queue.get(task)
        change = Edit(
            priority=chance.choice((None, 0, 9)),
            lane=chance.choice((None, *DEFAULT_LANES)),
            tolerance_ms=chance.choice((None, None, 1_000, 60_000)) if self._world.options.deadlines else None,
            pool=chance.choice((None, *((pool, f"pool{pool}") for pool in self._world.options.pools))),
        )
        self._world.story.tell("client", f"edits {task}: {change}")
        version = 0 if row is None else row.version
        sent = chance.choice((0.0, 0.01, 0.2))
        self._kernel.after(sent, server.post, lambda: server.spawn(server.api.edit(task, tenant, change, version)))

    def _cool(self) -> None:
        server = self._any_server()
        if server is None or server.paused_until > self._kernel.now:
            return
        tenant, seconds = self._chance.choice(sorted(self.owned)), self._chance.choice((0.0, 3.0, 12.0))
        self._world.story.tell("client", f"cools the lock of tenant {tenant} down for {seconds} s")
        server.spawn(server.api.cool_key(tenant, "lock", seconds))

    def _redrive(self) -> None:
        dead = sorted(self._world.store.tables.dead_letters)
        if not dead:
            return
        task = self._chance.choice(dead)
        tenant = self._world.store.tables.tasks[task].tenant
        self._world.story.tell("client", f"runs {task} again")
        for server in self._world.alive_servers():
            if server.paused_until <= self._kernel.now:
                server.spawn(server.api.redrive(task, tenant))
