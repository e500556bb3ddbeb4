"""Runs commands, scripts and files as processes, through the keeper.

Built for many short ones: the pipes of a process are first read when it ends, or when it has run for a little while;
there is one timer per process, for its cap, and no thread. The keeper reports an end only when the whole tree is dead;
the work folder is removed before the result is reported.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial

import msgspec
import structlog

from rota.execute.attempts.attempt import Attempt, Finish, cancel_at_cap, stopped
from rota.execute.attempts.frozen import until_thawed
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.files.checkpoint import Checkpoints, owner_of
from rota.execute.files.collect import Collector
from rota.execute.files.prepare import Preparer
from rota.execute.files.save_requests import CheckpointWatch
from rota.execute.images.node_images import Images
from rota.execute.keeper_link import KeeperLink, Spawn
from rota.execute.linux import work_folder
from rota.execute.logs.pipes import Flow, OutputPipes
from rota.execute.messages.masking import mask_text, patterns_of
from rota.execute.messages.spec import RunSpec
from rota.execute.processes.ends import (
    not_prepared,
    why_of,
    with_result,
    without_image,
)
from rota.execute.processes.process_unit import ProcessUnit
from rota.execute.processes.spawn_order import NOTHING, BadSpec, Offer, named_by, socket_in, spawn_of, spec_of
from rota.execute.server_sockets import ServerSockets
from rota.model.attempt import Outcome
from rota.wire import Failure

log = structlog.get_logger()

WATCH_AFTER_SECONDS = 0.01
_STDERR = 2
_NOTHING_FOLLOWS = frozenset({Outcome.OK, Outcome.CANCELLED, Outcome.BAD_RESULT})  # no attempt follows these

OnFinish = Callable[[Attempt, Finish], None]


class ProcessRunner:
    def __init__(
        self,
        *,
        link: KeeperLink,
        flow: Flow,
        work: str,
        node: str,
        environment: dict[str, str],
        kill_grace_seconds: float,
        on_finish: OnFinish,
        guard: Callable[[], float],
        preparer: Preparer,
        collector: Collector,
        checkpoints: Checkpoints,
        has_gpus: bool = False,
        offer: Offer = NOTHING,
        full_disk: FullDisk,
        server_sockets: ServerSockets,
        servers: tuple[str, ...],
    ) -> None:
        self.full_disk = full_disk
        self._server_sockets = server_sockets
        self._servers = servers
        self._has_gpus = has_gpus
        self.offer = offer
        self.images: Images | None = None  # None: no containers on this node
        self.loop = asyncio.get_running_loop()
        self.link = link
        self.flow = flow
        self.kill_grace_seconds = kill_grace_seconds
        self.on_finish = on_finish
        self.guard = guard  # notices that attempts are frozen; this process may have been stopped since
        self._preparer = preparer
        self._collector = collector
        self._checkpoints = checkpoints
        self.saves = CheckpointWatch(checkpoints=checkpoints, folders=self.folders, tell=self._tell)
        self.log_limit_bytes = 0
        self.result_limit_bytes = 0
        self._work = work
        self._node = node
        self._environment = environment
        self._units: dict[Attempt, ProcessUnit] = {}
        self._young: deque[tuple[float, ProcessUnit]] = deque()
        self._watch_timer: asyncio.TimerHandle | None = None
        self._searches: dict[Attempt, asyncio.Task[None]] = {}  # attempts whose image is looked for
        self._background: set[asyncio.Task[None]] = set()
        # Tasks that run for an attempt before its process starts or after it has ended: `stop` cancels them.
        self._awaited: dict[Attempt, asyncio.Task[object]] = {}

    def start(self, attempt: Attempt) -> None:
        try:
            spec = spec_of(attempt.run)
            order = spawn_of(
                attempt.run,
                spec,
                work=self._work,
                node=self._node,
                environment=self._environment,
                ports=attempt.ports,
                gpus=attempt.gpus if self._has_gpus else None,
                devices=attempt.devices,
                grant=attempt.grant,
                offer=self.offer,
                servers=self._servers,
            )
        except BadSpec as error:
            failure = Failure("bad-spec", str(error))
            self.on_finish(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=failure))
            return
        container_spec, images = order.container_spec, self.images
        if container_spec is None or images is None:
            self._begin(attempt, spec, order)
        elif container_spec.image in images.known:
            self._begin(attempt, spec, named_by(order, images.known[container_spec.image]))
        else:
            search = self._find_then_begin(attempt, spec, order, container_spec.image, images)
            self._searches[attempt] = self.loop.create_task(search, name="find an image")
            cancel_at_cap(attempt, self._searches[attempt], self.loop.time())

    async def _find_then_begin(self, attempt: Attempt, spec: RunSpec, order: Spawn, image: str, images: Images) -> None:
        """An attempt whose image must be pulled is given back at once: it holds no resources while it waits."""
        try:
            is_here = await images.find(image)
            await until_thawed(attempt)
        except asyncio.CancelledError:
            outcome = attempt.stopping or Outcome.DISRUPTED
            self.on_finish(attempt, Finish(outcome=outcome, run_us=0, failure=stopped(attempt, outcome)))
            return
        finally:
            del self._searches[attempt]
        if is_here:
            self._begin(attempt, spec, named_by(order, images.known[image]))
        else:
            self.on_finish(attempt, without_image(attempt, image, is_pulled=images.want(attempt.run.tenant, image)))

    def _begin(self, attempt: Attempt, spec: RunSpec, order: Spawn) -> None:
        if spec.needs_preparation or attempt.run.attempt > 1:  # an earlier attempt may have kept a checkpoint
            preparing = self.loop.create_task(self._preparer.prepare(attempt, spec, order), name="bring files along")
            self._awaited[attempt] = preparing
            self._in_background(self._launch_when_prepared(attempt, spec, order.folder, preparing), "wait for files")
        else:
            self._launch(attempt, order, spec.outputs, self.loop.time())

    async def _launch_when_prepared(
        self, attempt: Attempt, spec: RunSpec, folder: str, preparing: asyncio.Task[Spawn]
    ) -> None:
        """Fetching files is part of the execution: the attempt holds its grant and its cap runs."""
        began_at = self.loop.time()
        cancel_at_cap(attempt, preparing, began_at)
        await asyncio.wait({preparing})
        del self._awaited[attempt]
        finish = not_prepared(attempt, preparing, run_us=int((self.loop.time() - began_at) * 1e6))
        if finish is None:
            self._launch(attempt, preparing.result(), spec.outputs, began_at)
            return
        if finish.outcome is Outcome.REFUSED and attempt.grant.disk_bytes and self.full_disk.is_full():
            finish = self.full_disk.blame(attempt, finish, innocent=True)  # before its folder is removed
        await self._remove(folder)
        self._checkpoints.forget(attempt)
        self.on_finish(attempt, finish)

    def _launch(self, attempt: Attempt, order: Spawn, outputs: list[str], began_at: float) -> None:
        own_socket = socket_in(order) if attempt.run.may_submit else ""
        try:
            if own_socket:
                self._server_sockets.open(own_socket)
            out_read, out_write = os.pipe2(os.O_CLOEXEC)
            err_read, err_write = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            self._server_sockets.close(own_socket)
            failure = Failure("no-descriptors", f"the agent can make no pipe or socket: {error.strerror}")
            if order.prepared:
                self._in_background(self._remove(order.folder), "remove a work folder")
            self.on_finish(attempt, Finish(outcome=Outcome.REFUSED, run_us=0, failure=failure))
            return
        os.set_blocking(out_read, False)
        os.set_blocking(err_read, False)
        pipes = OutputPipes(self.loop, self.flow, out_read, err_read)
        unit = ProcessUnit(self, attempt, pipes, order, outputs, own_socket)
        self._units[attempt] = unit
        unit.begin(self.link.spawn(unit, order, [out_write, err_write]), began_at)
        self._young.append((self.loop.time() + WATCH_AFTER_SECONDS, unit))
        if self._watch_timer is None:
            self._watch_timer = self.loop.call_later(WATCH_AFTER_SECONDS, self._watch_grown)

    def stop(self, attempt: Attempt) -> None:
        """TERM to the whole tree, KILL after the grace. `attempt.stopping` has the reason."""
        self._give_up(attempt)
        unit = self._units.get(attempt)
        if unit is not None:
            unit.stop()
        elif attempt in self._searches:
            self._searches[attempt].cancel()

    def kill(self, attempt: Attempt) -> None:
        self._give_up(attempt)
        unit = self._units.get(attempt)
        if attempt in self._searches:
            self._searches[attempt].cancel()
        if unit is not None:
            self.link.kill(unit.number)

    def _give_up(self, attempt: Attempt) -> None:
        awaited = self._awaited.get(attempt)
        if awaited is not None:
            awaited.cancel()

    def recap(self, attempt: Attempt) -> None:
        """The cap has changed; it counts from the start as before."""
        unit = self._units.get(attempt)
        if unit is not None:
            unit.recap()

    def freeze(self, attempt: Attempt) -> None:
        """The keeper freezes its processes; the cap stops counting. A process that is not launched yet waits."""
        unit = self._units.get(attempt)
        if unit is not None:
            unit.freeze()

    thaw = recap  # the cap counts on

    def folders(self) -> list[tuple[Attempt, str]]:
        """Work folders of processes that have run for a while."""
        return [(unit.attempt, unit.folder) for unit in self._units.values() if unit.is_grown]

    def over(self, unit: ProcessUnit, finish: Finish, *, folder_left: bool) -> None:
        was_emptied = (
            finish.outcome not in _NOTHING_FOLLOWS and unit.has_ended and self._checkpoints.has_kept(unit.attempt)
        )
        if folder_left or was_emptied or (unit.outputs and finish.outcome is Outcome.OK):
            self._in_background(self._remove_then_finish(unit, finish), "remove a work folder")
        else:
            self._finished(unit, finish)

    def _in_background(self, work: Coroutine[None, None, None], name: str) -> None:
        task = self.loop.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _remove_then_finish(self, unit: ProcessUnit, finish: Finish) -> None:
        if finish.outcome is Outcome.OK:  # a folder that is already gone held no result
            finish = await asyncio.to_thread(with_result, unit.attempt, finish, unit.folder, self.result_limit_bytes)
        await self.saves.end(unit.attempt)
        if finish.outcome is Outcome.OK and unit.outputs:
            finish = await self._with_outputs(unit, finish)
        elif finish.outcome not in _NOTHING_FOLLOWS:
            await self._save_checkpoint(unit)
        await self._remove(unit.folder)
        self._finished(unit, finish)

    async def _remove(self, folder: str) -> None:
        if not await asyncio.to_thread(work_folder.remove, folder):
            log.error("a work folder could not be removed", folder=folder)

    async def _save_checkpoint(self, unit: ProcessUnit) -> None:
        """For the next attempt. If the node is cut off meanwhile, the previous checkpoint stays."""
        attempt = unit.attempt
        saving = self.loop.create_task(
            self._checkpoints.save(attempt, unit.folder, unit.tell), name="save a checkpoint"
        )
        self._awaited[attempt] = saving
        await asyncio.wait({saving})
        del self._awaited[attempt]
        if not saving.cancelled() and (error := saving.exception()) is not None:
            log.error("a checkpoint could not be saved", task=attempt.run.task, exc_info=error)
            unit.tell("the checkpoint was not stored: the agent failed")

    def _tell(self, attempt: Attempt, sentence: str) -> None:
        unit = self._units.get(attempt)
        if unit is not None:
            unit.tell(sentence)

    async def _with_outputs(self, unit: ProcessUnit, finish: Finish) -> Finish:
        """The same finish once its outputs are stored; another one if they can't be, or if it is stopped meanwhile."""
        attempt = unit.attempt
        hide = partial(mask_text, patterns=patterns_of(attempt.run.secrets))
        collect = self._collector.collect(owner_of(attempt), unit.folder, unit.outputs, unit.tell, hide)
        collecting = self.loop.create_task(collect)
        if attempt.stopping is not None:  # stopped while nothing was being stored
            collecting.cancel()
        self._awaited[attempt] = collecting
        await asyncio.wait({collecting})
        del self._awaited[attempt]
        if collecting.cancelled():
            reason = attempt.stopping or Outcome.DISRUPTED
            return msgspec.structs.replace(finish, outcome=reason, failure=stopped(attempt, reason))
        error = collecting.exception()
        if error is None:
            return finish
        return msgspec.structs.replace(finish, outcome=Outcome.ERROR, failure=why_of(error))

    def _finished(self, unit: ProcessUnit, finish: Finish) -> None:
        del self._units[unit.attempt]
        self._server_sockets.close(unit.own_socket)
        self._checkpoints.forget(unit.attempt)
        self.on_finish(unit.attempt, finish)

    def _watch_grown(self) -> None:
        now = self.loop.time()
        while self._young and self._young[0][0] <= now:
            self._young.popleft()[1].watch()
        self._watch_timer = self.loop.call_at(self._young[0][0], self._watch_grown) if self._young else None
