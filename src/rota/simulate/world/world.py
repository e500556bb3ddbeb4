"""The world of one seed: builds the database, servers, nodes, clients, nemesis and auditor; restarts dead processes."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from random import Random

from rota.settings import Settings, Timings
from rota.simulate.world.agent import Agent, Node
from rota.simulate.world.auditor import Auditor
from rota.simulate.world.client import Clients
from rota.simulate.world.database.connection import Store
from rota.simulate.world.database.rows import Lease
from rota.simulate.world.database.statements.schedules import Schedules
from rota.simulate.world.database.tables import Tables
from rota.simulate.world.kernel import Kernel, Process, Story
from rota.simulate.world.nemesis import Nemesis
from rota.simulate.world.operators import Operators
from rota.simulate.world.options import draw
from rota.simulate.world.server import Server
from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.stream import BIG_SHAPE, SMALL_SHAPE, Stream, stream_shapes
from rota.simulate.world.task_record import Violation
from rota.simulate.world.timekeeper import Timekeeper
from rota.simulate.world.timetable import Owners, draw_timetable

STEADY_AFTER_SECONDS = 25.0  # after healing: by then every pool has a leader and keeps it
WATCHED_SECONDS = 37.0  # after healing: watched at least this long, even when all work is done
TICK_SECONDS = 8.0  # after healing: by then a schedule's instant has become a run or a skip
PATIENCE_SECONDS = 130.0  # after healing: no change for this long means something is stuck


class World:
    def __init__(self, seed: int, *, keep_story: bool = False) -> None:
        self.kernel = kernel = Kernel(seed)
        self.options = draw(kernel.random)
        self.settings = Settings(database="", timings=Timings(poll_seconds=self.options.poll_seconds))
        self.shapes = self.options.shapes | stream_shapes(self.options)
        self.pools = self.options.pools
        self.sometimes = Sometimes()
        self.story = Story(lambda: kernel.now, keep=keep_story)
        demands = {number: (s.resources.cpu_milli, s.resources.memory_bytes) for number, s in self.shapes.items()}
        self.auditor = Auditor(self.sometimes, demands)
        self.auditor.stream_shapes = (SMALL_SHAPE, BIG_SHAPE)
        tables = Tables(self.auditor, self.sometimes, lambda: Store.clock_us(kernel))
        self.store = Store(kernel, tables, self.sometimes, self.story)
        tables.tenants = dict(self.options.tenants)
        for tenant, limits in self.options.tenants.items():
            if limits[1] is not None:
                self.auditor.limit_set(("tenant", tenant), limits[1])
        self.nemesis = Nemesis(self)
        self.store.on_stall = self.nemesis.stalled
        self.nodes = [Node(number, pool, capacity) for number, (pool, capacity) in enumerate(self.options.nodes, 1)]
        self._incarnations = [0] * self.options.servers
        self.servers: list[Server | None] = [None] * self.options.servers
        self.clients = Clients(self)
        self.operators = Operators(self)
        self.stream = None if self.options.stream is None else Stream(self, self.options.stream)
        drawn = draw_timetable(Random(kernel.random.getrandbits(64)))
        self.timetable = None if drawn is None else drawn[0]
        self.timekeeper = Timekeeper(self.sometimes)
        if drawn is not None:
            self.timekeeper.schedules = drawn[1]
            tables.know(Schedules(tables, drawn[0], self.timekeeper, self.timetable_now))
        self.task_ids, self.commit_ids = count(1), count(1)
        self._healed = False

    def run(self) -> None:
        """Runs with faults, then heals. Raises Violation at the event that broke an invariant."""
        self.story.tell("world", self.options.describe())
        for number in range(len(self.servers)):
            self._start_server(number)
        for node in self.nodes:
            self._start_agent(node)
        self.clients.schedule()
        self.operators.schedule()
        if self.stream is not None:
            self.stream.schedule()
        self.nemesis.schedule()
        if self.timetable is not None:
            Owners(self).schedule()
        kernel = self.kernel
        kernel.run(self.options.seconds)
        self._healed = True
        self.nemesis.heal()
        processes: list[Process | None] = [*self.servers, *(node.agent for node in self.nodes)]
        healed_at = max([kernel.now, *(process.paused_until for process in processes if process is not None)])
        steady_at = healed_at + STEADY_AFTER_SECONDS
        kernel.at(steady_at, self._expect_steady)
        enough_at = steady_at + WATCHED_SECONDS - STEADY_AFTER_SECONDS
        kernel.run(enough_at)
        while not self._at_rest():
            before = self.auditor.changes
            kernel.run(kernel.now + PATIENCE_SECONDS, self._at_rest)
            if self.auditor.changes == before and not self._at_rest():
                break
        self.auditor.check_rest()
        if self.timetable is not None:
            held = {one.id: one.next_at for one in self.timetable.rows.values() if one.paused and one.next_at}
            self.timekeeper.check(
                self.timetable_now() - timedelta(seconds=TICK_SECONDS * self.timetable.speed), paused_from=held
            )

    def end(self) -> None:
        """Ends all processes."""
        for process in (*self.servers, *(node.agent for node in self.nodes)):
            if process is not None:
                Process.die(process)

    def _at_rest(self) -> bool:
        return self.auditor.unfinished == 0 and self.clients.unanswered == 0

    def _expect_steady(self) -> None:
        self.auditor.steady_since_us = self.store.tables.now_us()
        for pool in self.pools:
            if not any(server is not None and server.leads(pool) for server in self.servers):
                raise Violation(
                    "I24", f"pool {pool} has no leader {STEADY_AFTER_SECONDS:.0f} s after everything healed"
                )

    def timetable_now(self) -> datetime:
        """The time on the database's clock for schedules."""
        assert self.timetable is not None, "this world has schedules"
        return self.timetable.now(self.kernel.now)

    # ---- starting and restarting processes --------------------------------------------------------------------------

    def _start_server(self, number: int) -> None:
        self._incarnations[number] += 1
        server = self.servers[number] = Server(self, number, self._incarnations[number])
        server.start()

    def restart_server(self, server: Server) -> None:
        if server.alive:
            server.die()
            self.servers[server.number] = None
            wait = 0.5 if self._healed else self.kernel.random.choice((0.1, 1.0, 5.0, 15.0))
            self.kernel.after(wait, self._start_server, server.number)

    def _start_agent(self, node: Node) -> None:
        agent = node.agent = Agent(self, node)
        agent.start()

    def restart_agent(self, node: Node, boot: int) -> None:
        if node.agent is not None and node.agent.boot == boot:
            node.agent.die()
            node.agent = None
            wait = 0.5 if self._healed else self.kernel.random.choice((0.2, 2.0, 12.0, 40.0))
            self.kernel.after(wait, self._start_agent, node)

    def restart_process(self, process: Process) -> None:
        if isinstance(process, Server):
            self.restart_server(process)
        elif isinstance(process, Agent):
            self.restart_agent(process.node, process.boot)

    # ---- who leads --------------------------------------------------------------------------------------------------

    def alive_servers(self) -> list[Server]:
        return [server for server in self.servers if server is not None and server.alive]

    def find_leader(self, node: Node) -> Server | None:
        """The answer of any server to an agent: the holder of the lease, according to the rows."""
        lease = self.store.tables.leases.get(node.pool)
        if lease is None or node.cut_until > self.kernel.now:
            return None
        return next((server for server in self.alive_servers() if server.holder == lease.holder), None)

    def epoch_known(self, node: Node) -> int:
        lease = self.store.tables.leases.get(node.pool)
        return 0 if lease is None or node.cut_until > self.kernel.now else lease.epoch

    # ---- a fail-over that lost the newest take-over, and nothing else -----------------------------------------------

    def lose_take_over(self, pool: int) -> None:
        """Only while nothing was written in the new epoch, so that only the lease row is lost."""
        lease: Lease | None = self.store.tables.leases.get(pool)
        before = self.auditor.before_take_over(pool)
        if lease is None or before is None or not self.store.up:
            return
        self.story.tell("database", f"fails over and forgets epoch …{lease.epoch % 10**9} of pool {pool}")
        self.store.restart(0.5)
        lease.epoch, lease.holder, lease.expires_us = before, None, 0
        self.auditor.lease_reverted(pool, before)
