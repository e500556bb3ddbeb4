"""One term of a pool's leader. Mirrors `dispatch/leader.py`.

The cycle, settling, the loader, and the decisions of the watch and the sessions are production code; only waiting and
connections are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from rota import wire
from rota.attempt_key import AttemptKeys
from rota.cluster.leases import Lease
from rota.decide import messages
from rota.decide.core import Core
from rota.dispatch.agent_connection import HigherEpochSeen, Refused, check_hello, listen, register, welcome
from rota.dispatch.concurrency_keys import follow_keys
from rota.dispatch.cycle import run_cycle
from rota.dispatch.leader import adopt
from rota.dispatch.loader import Loader
from rota.dispatch.news import News
from rota.dispatch.operator_rules import learn_rules, restore_shares
from rota.dispatch.pool import PoolState, Wakes
from rota.dispatch.session import Session
from rota.dispatch.settling import run_settling
from rota.dispatch.watch import TIMER_SECONDS, Watch, measure_clock
from rota.settle.settlement import NotLeader
from rota.simulate.world.auditor import Auditor
from rota.simulate.world.database.connection import Fenced, Lost
from rota.simulate.world.kernel import Fiber, Signal
from rota.simulate.world.links import End
from rota.store import queue

if TYPE_CHECKING:
    from rota.simulate.world.server import Server

HANDSHAKE_SECONDS = 10.0
LEAST_SLEEP = 0.008  # fewer events: one pause of the loops instead of four


class WatchedCore(Core):
    """The core; the auditor sees every event and every decision."""

    def __init__(self, auditor: Auditor, term: tuple[int, int], now_us: Callable[[], int]) -> None:
        super().__init__()
        self._now_us = now_us
        self._auditor = auditor
        self._term = term

    def apply(self, event: messages.Event, now_us: int) -> None:
        super().apply(event, now_us)
        auditor, term = self._auditor, self._term
        match event:
            case messages.TasksReady():
                auditor.learned_ready(term, [task.id for task in event.tasks])
                for task in event.tasks:
                    auditor.check_promoted(task.id, task.version, task.lane, self._now_us())
            case messages.TasksGone():
                auditor.learned_gone(term, event.tasks)
            case messages.AttemptAdopted():
                auditor.learned_gone(term, [event.attempt.task])
            case messages.StartRefused():
                auditor.learned_refused(term, event.task)
            case messages.PlaceRefused():
                auditor.learned_refused(term, event.task.id)
                auditor.learned_ready(term, [event.task.id])
                if (event.task.tenant, event.task.concurrency_key) in self.state.cooled:
                    auditor.learned_cooled()
            case messages.AttemptEnded():
                auditor.learned_ended(term, event.task)
            case messages.PolicyKnown():
                auditor.learned_paused(term, ("pool", term[0]), paused=event.policy.paused)
            case messages.TenantKnown():
                auditor.learned_paused(term, ("tenant", event.tenant), paused=event.paused)
            case messages.NodeJoined():
                auditor.learned_joined(term, event.node, (event.capacity.cpu_milli, event.capacity.memory_bytes))
                self._note_nodes()
            case messages.NodeOpened() | messages.NodeClosed() | messages.NodeLeft():
                self._note_nodes()

    def _note_nodes(self) -> None:
        """The auditor learns whether a big task of the stream could run on any open node."""
        auditor = self._auditor
        cpu, _ = auditor.shapes.get(auditor.stream_shapes[1], (0, 0))
        auditor.big_fits = any(node.open and node.capacity.cpu_milli >= cpu for node in self.state.nodes.values())
        auditor.disturbed(self._now_us())

    def plan(self, now_us: int, at_most: int) -> Any:
        decisions = super().plan(now_us, at_most)
        for decision in decisions:
            if isinstance(decision, messages.Start):
                self._auditor.planned(self._term, decision.task.id, decision.node, decision.behind)
        return decisions


class Term:
    def __init__(self, server: Server, pool_id: int, lease: Lease) -> None:
        world = server.world
        core = WatchedCore(world.auditor, (pool_id, lease.epoch), world.store.tables.now_us)
        self._server = server
        self._world = world
        self._fibers: list[Fiber] = []
        self._adopted: set[tuple[int, int]] = set()
        self.is_ready = False
        self.is_over = False
        options = world.options
        self.pool = PoolState(
            id=pool_id,
            name=f"pool{pool_id}",
            lease=lease,
            settings=world.settings,
            core=core,
            loader=Loader(
                core, pool_id, ready_limit=options.ready_limit, least_share=options.least_share, clock=server.clock
            ),
            database_identity="world",
            attempt_keys=AttemptKeys("world"),
            on_ended=lambda ended: None,
            on_other_pools=server.hint_poll,
            clock=server.clock,
            sleep=cast(Any, lambda seconds: server.sleep(max(seconds, LEAST_SLEEP))),
            wakes=Wakes(cycle=cast(Any, Signal()), settle=cast(Any, Signal()), poll=cast(Any, Signal())),
        )
        self.news = News(self.pool)

    # ---- from restoring to stepping down ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Restores, then runs the loops. When one of them ends, all end."""
        server, pool = self._server, self.pool
        fence = (pool.id, pool.lease.epoch, pool.lease.holder)
        try:
            await self._restore()
        except Lost:
            self.end()
            return
        self.is_ready = True
        starting, settling = Fenced(server.store, server, fence), Fenced(server.store, server, fence)
        self._spawn(run_cycle(pool, cast(Any, starting)))
        self._spawn(run_settling(pool, cast(Any, settling)))
        self._spawn(self._watch())
        self._spawn(self._until_over())
        pool.wakes.cycle.set()

    def _spawn(self, loop: Coroutine[Any, Any, None]) -> None:
        self._fibers.append(self._server.spawn(self._guarded(loop)))

    async def _guarded(self, loop: Coroutine[Any, Any, None]) -> None:
        try:
            await loop
        except (Lost, NotLeader) as error:
            self._world.story.tell(self._server.name, f"its term of pool {self.pool.id} failed: {error!r}")
        self.end()

    def end(self) -> None:
        """Steps down and drops all state; the rows have everything that matters."""
        if self.is_over:
            return
        self.is_over = True
        self.is_ready = False
        self.pool.lease.end()
        self._world.story.tell(self._server.name, f"steps down from pool {self.pool.id}")
        for session in list(self.pool.sessions.values()):
            session.close(wire.CLOSE_NOT_LEADER, "another node leads this pool now")
        self._server.term_ended(self)
        for fiber in self._fibers:
            fiber.stop()

    async def _restore(self) -> None:
        pool = self.pool
        for number, shape in self._world.shapes.items():
            pool.core.apply(messages.ShapeKnown(number, shape), 0)
        connection = self._server.connect()
        await measure_clock(pool, connection)
        await learn_rules(pool, connection)
        await follow_keys(pool, connection)
        held = await queue.load_running(connection, pool.id)
        self._adopted = {(attempt.task, attempt.attempt) for attempt in held}
        adopt(pool, held)
        await pool.loader.poll(connection, pool.now_us())
        await restore_shares(pool, connection)
        self._world.story.tell(self._server.name, f"leads pool {pool.id} in epoch …{pool.lease.epoch % 10**9}")

    async def _until_over(self) -> None:
        while self.pool.lease.valid():
            await self._server.sleep(self._world.settings.timings.renew_seconds / 2)

    async def _watch(self) -> None:
        pool, watch = self.pool, Watch(self.pool)
        while True:
            await self._pause()
            before = [a for a in pool.attempts.values() if not a.reported and (a.task, a.attempt) in self._adopted]
            watch.check_nodes()
            if any(attempt.reported for attempt in before):
                self._world.sometimes.hit("new leader waited the full grace")
            dependents: list[int] = []
            with suppress(Lost):  # the next poll finds it all again
                dependents = await watch.read(self._server.connect())
            watch.wake(dependents)

    async def _pause(self) -> None:
        pool = self.pool
        poll_at = pool.clock() + pool.settings.timings.poll_seconds
        while not pool.wakes.poll_hinted and (now := pool.clock()) < poll_at:
            timer = pool.loader.next_timer_at
            if timer is not None and timer <= now:
                pool.wakes.cycle.set()
                timer = now + 10 * TIMER_SECONDS
            pool.wakes.poll.clear()
            await cast(Signal, pool.wakes.poll).limited(min(poll_at, timer or poll_at) - now)
        pool.wakes.poll_hinted = False

    # ---- agents -----------------------------------------------------------------------------------------------------

    async def serve(self, end: End) -> None:
        """A control connection, as in `serve_agent`: handshake, registration, then frames both ways."""
        pool, server = self.pool, self._server
        arrived: list[bytes] = []
        news = Signal()

        def receive(data: bytes) -> None:
            arrived.append(data)
            news.set()

        end.on_receive = receive
        end.link.send(end, wire.encode(welcome(pool)))
        if not await news.limited(HANDSHAKE_SECONDS):
            end.link.close(end, wire.CLOSE_BAD_PROTOCOL)
            return
        try:
            hello = check_hello(pool, wire.decode_to_server(arrived[0]))
            database = SimpleNamespace(engine=lambda: nullcontext(server.connect()))
            session = await register(pool, cast(Any, database), cast(Any, None), hello)
        except HigherEpochSeen as error:
            server.reacquire_above(pool.id, error.epoch)
            end.link.close(end, wire.CLOSE_NOT_LEADER)
            return
        except Refused as refusal:
            end.link.close(end, refusal.code)
            return
        except Lost:
            end.link.close(end, 1011)
            return
        self._note_adoption(session)
        self._overhear(session)
        session.wake = cast(Any, Signal())
        session.wake.set()
        end.on_receive = lambda data: self._listen(session, data)
        end.on_close = lambda code: self._left(session)
        if end.closed:
            self._left(session)
        for data in arrived[1:]:
            self._listen(session, data)
        await self._write(session, end)

    def _note_adoption(self, session: Session) -> None:
        if any(
            attempt.boot == session.boot and not attempt.reported and (attempt.task, attempt.attempt) in self._adopted
            for attempt in self.pool.attempts.values()
        ):
            self._world.sometimes.hit("adoption after failover")

    def _overhear(self, session: Session) -> None:
        """Reports every acknowledged heartbeat to the auditor."""
        send = session.send

        def overheard(frame: wire.Frame) -> None:
            if isinstance(frame, wire.Alive):
                now_us = self._world.store.tables.now_us()
                self._world.auditor.heartbeat_acknowledged(self._server.name, self.pool.id, frame.epoch, now_us)
            send(frame)

        cast(Any, session).send = overheard

    def _listen(self, session: Session, data: bytes) -> None:
        if not self.is_over:
            listen(self.pool, session, wire.decode_to_server(data))

    def _left(self, session: Session) -> None:
        session.closed.set()
        self.pool.leave(session)
        session.wake.set()

    async def _write(self, session: Session, end: End) -> None:
        while session.goodbye is None and not end.closed:
            await session.wake.wait()
            session.wake.clear()
            for data in session.take():
                end.link.send(end, data)
        if session.goodbye is not None:
            end.link.close(end, session.goodbye[0])
        self._left(session)
