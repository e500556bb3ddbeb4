"""The nemesis: injects the kinds of faults that a seed has drawn, at random times, and heals them at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rota.simulate.world.kernel import Process
from rota.simulate.world.links import End

if TYPE_CHECKING:
    from rota.simulate.world.agent import Agent, Node
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

STRIKE = 0.004  # probability at a command boundary
FIRES = 0.08  # probability of losing or stalling an operation while that fault is on


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._chance = world.kernel.random
        self._active = True
        self._losing_answers = False
        self._kinds: dict[str, Callable[[], None]] = {
            "server crashes": lambda: self._crash(self._server()),
            "server pauses": lambda: self._pause(self._server(), "", (2.0, 9.0, 11.0, 14.0, 25.0, 50.0)),
            "agent crashes": lambda: self._crash(self._agent()),
            "agent pauses": lambda: self._pause(self._agent(), "the agent ", (3.0, 12.0, 25.0, 50.0)),
            "machines suspended": self._suspend,
            "links cut": self._cut_link,
            "links clogged": self._clog,
            "database restarts": self._restart_database,
            "requests lost": lambda: self._set_for_a_while("lost_requests"),
            "replies lost": lambda: self._set_for_a_while("lost_replies"),
            "statements stall": lambda: self._set_for_a_while("stalls"),
            "database cut off": self._cut_database,
            "take-over lost": lambda: world.lose_take_over(self._chance.choice(world.pools)),
            "frames replayed": self._replay,
            "drains": self._drain,
            "answers lost": self._lose_answers,
            "clocks jump": self._jump_clock,
            "limits change": self._change_limit,
            "rules edited": self._edit_rules,
            "timetable jumps": self._jump_timetable,
        }

    def schedule(self) -> None:
        options = self._world.options
        kinds = [self._kinds[fault] for fault in options.faults if fault in self._kinds]
        at = self._chance.uniform(1, 6)
        while kinds and at < options.seconds:
            self._kernel.at(at, self._do, self._chance.choice(kinds))
            at += self._chance.expovariate(1 / options.fault_seconds)

    def _do(self, fault: Callable[[], None]) -> None:
        if self._active:
            fault()

    def prepare(self, process: Process) -> None:
        """Sets the clocks of a new process, and whether it may be struck at its command boundaries."""
        faults = self._world.options.faults
        if "strikes at boundaries" in faults and self._active:
            process.strike = self._strike
        process.offset = self._chance.uniform(100, 100_000)
        if "clocks wrong" in faults:
            process.rate = self._chance.uniform(0.99, 1.01)
            process.wall_offset = self._chance.choice((0.0, 3600.0, -3600.0, 7200.0, -7200.0))

    def heal(self) -> None:
        self._active = False
        world = self._world
        world.story.tell("nemesis", "heals everything")
        store = world.store
        store.lost_requests = store.lost_replies = store.stalls = 0.0
        store.cut.clear()
        store.come_back()
        self._losing_answers = False
        for node in world.nodes:
            node.cut_until = 0.0
            if node.link is not None:
                node.link.server.clogged_until = node.link.agent.clogged_until = 0.0
            if node.agent is not None:
                node.agent.strike = None
        for server in world.servers:
            if server is not None:
                server.strike = None

    def loses_answer(self) -> bool:
        return self._losing_answers and self._chance.random() < 0.5

    # ---- processes --------------------------------------------------------------------------------------------------

    def _strike(self, process: Process, risk: float) -> None:
        if not self._active or self._chance.random() >= STRIKE * risk:
            return
        if self._chance.random() < 0.6:
            seconds = self._chance.choice((0.5, 5.0, 12.0, 25.0, 50.0))
            self._log(f"pauses {process.name} for {seconds} s between two of its steps")
            process.pause(seconds)
        else:
            self._log(f"kills {process.name} between two of its steps")
            self._world.restart_process(process)

    def stalled(self, process: Process) -> None:
        """May pause or kill a process whose batch hangs in the database."""
        if self._active and self._chance.random() < 0.4:
            self._log(f"stops {process.name} while its batch is under way")
            if self._chance.random() < 0.5:
                process.pause(25.0)
            else:
                self._world.restart_process(process)

    def _server(self) -> Server | None:
        alive = self._world.alive_servers()
        leading = [server for server in alive if server.terms]
        if leading and self._chance.random() < 0.7:
            return self._chance.choice(leading)
        return self._chance.choice(alive) if alive else None

    def _crash(self, process: Process | None) -> None:
        if process is not None:
            self._log(f"kills {process.name}")
            self._world.restart_process(process)

    def _pause(self, process: Process | None, kind: str, lengths: tuple[float, ...]) -> None:
        if process is not None:
            seconds = self._chance.choice(lengths)
            self._log(f"pauses {kind}{process.name} for {seconds} s")
            process.pause(seconds)

    def _node(self) -> Node:
        return self._chance.choice(self._world.nodes)

    def _agent(self) -> Agent | None:
        return self._node().agent

    def _suspend(self) -> None:
        agent = self._agent()
        if agent is not None:
            seconds = self._chance.choice((10.0, 35.0, 60.0))
            self._log(f"suspends the whole machine of {agent.name} for {seconds} s")
            agent.machine.suspend(seconds)

    def _drain(self) -> None:
        agent = self._agent()
        if agent is not None and agent.paused_until <= self._kernel.now:
            self._log(f"drains {agent.name}")
            agent.spawn(agent.wind_down())

    def _jump_clock(self) -> None:
        """Sets a machine's wall clock forwards or backwards."""
        process: Process | None = self._server() if self._chance.random() < 0.6 else self._agent()
        if process is not None:
            process.wall_offset = self._chance.choice((0.0, 7200.0, -7200.0))
            self._log(f"sets the clock of {process.name} {process.wall_offset:+.0f} s from the truth")

    def _jump_timetable(self) -> None:
        """Sets the database's clock for schedules an hour back or forth."""
        timetable = self._world.timetable
        if timetable is not None:
            hours = self._chance.choice((-1, 1))
            self._log(f"sets the clock of schedules {hours:+d} h")
            timetable.jumped += timedelta(hours=hours)
            self._world.sometimes.hit("the clock of schedules jumped")

    # ---- operators --------------------------------------------------------------------------------------------------

    def _change_limit(self) -> None:
        """Changes a tenant's CPU limit or a pool's limit on running tasks; one task always fits."""
        tables, auditor = self._world.store.tables, self._world.auditor
        limited = sorted(tenant for tenant, limits in self._world.options.tenants.items() if limits[1] is not None)
        if limited and self._chance.random() < 0.6:
            tenant, limit = self._chance.choice(limited), self._chance.choice((2000, 2500, 4000, None))
            self._log(f"tenant {tenant} may hold {limit} milli-CPU now")
            weight, _, memory = tables.tenants[tenant]
            tables.tenants[tenant] = (weight, limit, memory)
            tables.change_rules()
            auditor.limit_set(("tenant", tenant), limit)
        elif not self._world.options.flood:
            pool, most = self._chance.choice(self._world.pools), self._chance.choice((2, 4, None))
            self._log(f"pool {pool} may run {most} tasks now")
            tables.pool_rules[pool] = replace(tables.pool_rules[pool], running_tasks=most)
            tables.change_rules(pool)
            auditor.limit_set(("pool", pool), most)
        self._world.sometimes.hit("a limit changed")

    def _edit_rules(self) -> None:
        """Changes a lane's level, whether it is gated, and whether it promotes."""
        tables, lane = self._world.store.tables, self._chance.choice((1, 2, 3))
        edited = replace(
            tables.lanes[lane],
            level=self._chance.choice((1, 1, 2)),
            gated=self._chance.random() < 0.3,
            promotes=self._chance.random() < 0.7,
        )
        self._log(f"lane {lane} has level {edited.level} now, gated {edited.gated}, promotes {edited.promotes}")
        tables.lanes[lane] = edited
        tables.change_rules()
        (self._world.auditor.quiet_lanes.discard if edited.promotes else self._world.auditor.quiet_lanes.add)(lane)

    # ---- links ------------------------------------------------------------------------------------------------------

    def _cut_link(self) -> None:
        node = self._node()
        seconds = self._chance.choice((0.0, 5.0, 15.0, 25.0, 45.0))
        self._log(f"cuts {node.name} off for {seconds} s")
        node.cut_until = self._kernel.now + seconds
        if node.link is not None:
            node.link.cut()

    def _clog(self) -> None:
        """Clogs every node's link in one direction, one after the other, for a while."""
        nodes = list(self._world.nodes)
        self._chance.shuffle(nodes)
        for index, node in enumerate(nodes):
            if node.link is not None:
                end: End = self._chance.choice((node.link.server, node.link.agent))
                self._kernel.after(index * 0.5, self._clog_end, end, self._chance.choice((3.0, 9.0, 14.0, 22.0)))

    def _clog_end(self, end: End, seconds: float) -> None:
        if self._active:
            self._log(f"nothing reaches {end.process.name} for {seconds} s")
            end.clogged_until = max(end.clogged_until, self._kernel.now + seconds)

    def _replay(self) -> None:
        """A proxy sends a frame of an earlier epoch again."""
        for node in self._world.nodes:
            agent = node.agent
            if agent is not None and agent.floor:
                old = [data for epoch, data in node.old_starts if epoch < agent.floor]
                if old:
                    self._log(f"an old order is repeated to {agent.name}")
                    agent.post(agent.receive, self._chance.choice(old))

    # ---- the database -----------------------------------------------------------------------------------------------

    def _restart_database(self) -> None:
        if self._world.store.up:
            self._world.store.restart(self._chance.choice((0.3, 2.0, 6.0, 12.0, 60.0)))

    def _set_for_a_while(self, name: str) -> None:
        setattr(self._world.store, name, FIRES)
        self._kernel.after(self._chance.uniform(2, 15), setattr, self._world.store, name, 0.0)

    def _cut_database(self) -> None:
        server = self._server()
        if server is not None:
            seconds = self._chance.choice((2.0, 9.0, 20.0))
            self._log(f"cuts {server.name} off from the database for {seconds} s")
            self._world.store.cut[server.name] = self._kernel.now + seconds

    def _lose_answers(self) -> None:
        self._losing_answers = True
        self._kernel.after(self._chance.uniform(2, 10), setattr, self, "_losing_answers", False)

    def _log(self, text: str) -> None:
        self._world.story.tell("nemesis", text)
