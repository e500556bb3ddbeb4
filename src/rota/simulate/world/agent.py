"""An agent and its node.

Workbench, grants, fence, outbox and the handling of frames are production code; connecting, writing and heartbeats
mirror the loops of `execute/connection.py`. `machine.py` models the processes of tasks.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from rota import wire
from rota.execute.attempts.outbox import Outbox
from rota.execute.attempts.workbench import Workbench
from rota.execute.connection import ControlConnection, Introduction, Stale
from rota.execute.identity import WorkerToken
from rota.execute.machine.ports import Ports
from rota.model.resources import Resources
from rota.simulate.world.kernel import Process, Signal
from rota.simulate.world.links import BROKEN, End, Link
from rota.simulate.world.machine import Machine

if TYPE_CHECKING:
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

OPEN_SECONDS = 5.0
MISSED_HEARTBEATS = 3
FENCE_LOOK_SECONDS = 2.5  # production checks more often; the keeper does not depend on it
WIND_DOWN_SECONDS = 10.0


class Node:
    """A machine, through all boots of its agent."""

    def __init__(self, number: int, pool: int, capacity: Resources) -> None:
        self.number = number
        self.name = f"node{number}"
        self.pool = pool
        self.capacity = capacity
        self.boots = 0
        self.agent: Agent | None = None
        self.link: Link | None = None
        self.cut_until = 0.0  # no connection before this time
        self.old_starts: list[tuple[int, bytes]] = []  # frames a proxy could replay: (epoch, frame)


class Agent(Process):
    def __init__(self, world: World, node: Node) -> None:
        node.boots += 1
        super().__init__(world.kernel, f"{node.name}.{node.boots}")
        self.world = world
        self.node = node
        world.nemesis.prepare(self)  # sets its clock, which trust is counted on
        self.boot = world.kernel.random.getrandbits(62)
        self.outbox = Outbox(self.clock)
        self.outbox.wake = cast(Any, Signal())
        self.machine = Machine(self)
        self.bench = Workbench(
            capacity=node.capacity,
            outbox=self.outbox,
            shipper=cast(Any, SimpleNamespace()),
            on_trust=self.machine.trust,
            frozen_limit_seconds=world.options.frozen_limit_seconds,
            ports=Ports(range(0)),
            clock=self.clock,
        )
        self.bench.set_executors(self.machine, self.machine)
        hello = wire.Hello(
            protocol=wire.PROTOCOL,
            name=node.name,
            boot=self.boot,
            floor=0,
            capacity=node.capacity,
            labels={},
            capabilities=[],
            version="0",
        )
        me = Introduction(servers=("anywhere",), credential=WorkerToken(""), pool=f"pool{node.pool}", hello=hello)
        self.control = ControlConnection(introduction=me, workbench=self.bench, outbox=self.outbox)
        self.epochs: dict[tuple[int, int], tuple[int, int]] = {}  # attempt → epoch of its start, our floor then
        self.floor = 0
        self._missed = 0
        self._gone = Signal()
        self._end: End | None = None
        capacity = (node.capacity.cpu_milli, node.capacity.memory_bytes)
        world.auditor.boot_began(node.name, self.boot, capacity)

    def start(self) -> None:
        self.spawn(self._run())
        self.spawn(self._watch_fence())

    def die(self) -> None:
        if self.alive:
            super().die()
            self.machine.kill_all()
            self.world.auditor.boot_died(self.boot)
            if self._end is not None:
                self._end.link.end_died(self._end)

    async def wind_down(self) -> None:
        """A drain: takes nothing new, hands waiting attempts back, ends running ones, then exits."""
        self.bench.disrupt_all()
        deadline = self.clock() + WIND_DOWN_SECONDS
        while self.clock() < deadline and not (self.bench.empty.is_set() and self.outbox.settled_all.is_set()):
            await self.sleep(0.5)
        self.kernel.after(0.0, self.world.restart_agent, self.node, self.boot)

    # ---- connecting -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        retries = 0
        while True:
            await self.sleep(self.kernel.random.uniform(0.02, min(1.0, 0.05 * 2 ** min(retries, 8))))
            retries += 1
            server = self.world.find_leader(self.node)
            if server is None:
                continue
            await self.sleep(self.world.options.link_latency * 2)
            if self.node.cut_until > self.kernel.now or not server.alive:
                continue
            link = self.node.link = Link(self.kernel, server, self, self.world.options.link_latency)
            if await self._serve(link, server):
                retries = 0

    async def _serve(self, link: Link, server: Server) -> bool:
        """Serves one connection; returns whether the agent was registered."""
        end = self._end = link.agent
        self._gone = gone = Signal()
        frames: list[bytes] = []
        news = Signal()

        def receive(data: bytes) -> None:
            frames.append(data)
            news.set()

        def closed(code: int) -> None:
            gone.set()
            news.set()

        end.on_receive, end.on_close = receive, closed
        server.post(server.connected, link.server, self.node.pool)
        if not await news.limited(OPEN_SECONDS) or not frames:
            link.close(end, BROKEN)
            return False
        welcome = wire.decode_to_agent(frames.pop(0))
        news.clear()
        try:
            assert isinstance(welcome, wire.Welcome)
            self.control.accept(welcome)
        except Stale:
            self.world.sometimes.hit("stale frame refused")
            link.close(end, BROKEN)
            return False
        self.floor = max(self.floor, welcome.epoch)
        self.world.auditor.learned_epoch(self.boot, welcome.epoch)
        self.bench.guard()
        sent_at = self.clock()
        link.send(end, wire.encode(self.control.hello()))
        if not await news.limited(OPEN_SECONDS) or not frames:
            link.close(end, BROKEN)
            return False
        registered = wire.decode_to_agent(frames.pop(0))
        assert isinstance(registered, wire.Registered), registered
        self.bench.guard()
        inventory = self.bench.inventory(registered.expected)
        for task, number in inventory.unknown:
            self.world.auditor.attempt_over(task, number)  # it will never start
        link.send(end, wire.encode(inventory))
        self.bench.trust(sent_at)
        self.outbox.start_over()
        end.on_receive = self.receive
        for data in frames:
            self.receive(data)
        loops = [self.spawn(self._write(link)), self.spawn(self._beat(link, welcome.heartbeat_seconds))]
        await gone.wait()
        for loop in loops:
            loop.stop()
        return True

    # ---- the loops of a connection ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self.bench.guard()
        frame = wire.decode_to_agent(data)
        epoch = getattr(frame, "epoch", None)
        if epoch is not None and epoch < self.floor:
            self.world.sometimes.hit("stale frame refused")
        if isinstance(frame, wire.Start):
            for run in frame.runs:
                self.epochs.setdefault((run.task, run.attempt), (frame.epoch, self.floor))
            self.node.old_starts.append((frame.epoch, data))
        elif isinstance(frame, wire.Alive):
            self._missed = 0
        self.control.obey(frame)

    async def _write(self, link: Link) -> None:
        outbox = self.outbox
        while True:
            await outbox.wake.wait()
            outbox.wake.clear()
            while True:
                self.bench.guard()
                if outbox.take_heartbeat():
                    heartbeat = wire.Heartbeat(
                        sent=self.clock(), attempts=self.bench.attempt_count, frozen=self.bench.frozen_count
                    )
                    link.send(link.agent, wire.encode(heartbeat))
                frame = outbox.take_frame()
                if frame is None:
                    break
                if isinstance(frame, wire.Recalled):
                    for task, number in frame.attempts:
                        self.world.auditor.attempt_over(task, number)  # it will never start
                link.send(link.agent, wire.encode(frame))
                await self.sleep(0.001)

    async def _beat(self, link: Link, seconds: float) -> None:
        self._missed = 0
        while self._missed < MISSED_HEARTBEATS:
            self._missed += 1
            self.outbox.beat()
            await self.sleep(seconds)
            if self._missed > 1 and self.world.epoch_known(self.node) > self.floor:
                break
        link.close(link.agent, BROKEN)
        self._gone.set()

    async def _watch_fence(self) -> None:
        while True:
            due_at = self.bench.guard()
            await self.sleep(min(FENCE_LOOK_SECONDS, max(0.005, due_at - self.clock())))
