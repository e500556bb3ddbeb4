"""The worker agent: builds every part of one node and starts the loops. This is the composition root; it decides
nothing.

Order matters at both ends. Start: lock the data folder, remove a previous agent's leftovers, start the keeper, preload
functions, and only then connect. Stop: give back attempts that have not started, end the running ones, wait a moment
for their results to be settled. The keeper ends with this process in any case and clears the rest.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib.metadata
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import structlog

from rota import wire
from rota.execute import data_folder
from rota.execute.attempts.frozen import DEFAULT_LIMIT_SECONDS as DEFAULT_FROZEN_SECONDS
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.attempts.outbox import Outbox
from rota.execute.attempts.workbench import Workbench
from rota.execute.capability import capabilities_of, own_labels
from rota.execute.connection import ControlConnection, Introduction
from rota.execute.files.artifact_cache import ArtifactCache
from rota.execute.files.checkpoint import DEFAULT_LIMIT_BYTES, Checkpoints
from rota.execute.files.collect import Collector
from rota.execute.files.find_outputs import MOST_OUTPUTS
from rota.execute.files.prepare import Preparer
from rota.execute.files.transfer import Transfers
from rota.execute.functions.child_pool import ChildSettings
from rota.execute.functions.packages import Packages
from rota.execute.functions.questions import QuestionServer
from rota.execute.functions.runner import FunctionRunner
from rota.execute.functions.visible_folders import VisibleFolders, find_visible
from rota.execute.identity import Credential, open_credential
from rota.execute.images.node_images import Images, PullRules
from rota.execute.keeper.setup import KeeperOptions
from rota.execute.keeper_link import KeeperFacts, KeeperLink
from rota.execute.leaving import Stay, leave_when_due, wind_down
from rota.execute.linux import cgroup_limits
from rota.execute.logs.shipping import LogShipper
from rota.execute.logs.spill import DEFAULT_SPILL_BYTES, Spill
from rota.execute.machine.device_files import GPU, DeviceFiles
from rota.execute.machine.disk_space import DEFAULT_RESERVE_BYTES, DiskSpace
from rota.execute.machine.mounts import NamedMount
from rota.execute.machine.ports import DEFAULT_PORTS, Ports
from rota.execute.processes import engine, sandbox_proof, spawn_order
from rota.execute.processes.runner import ProcessRunner
from rota.execute.progress import ProgressWatch
from rota.execute.sandbox import engine_calls
from rota.execute.sandbox.container import Engine
from rota.execute.server_sockets import ServerSockets
from rota.model.resources import Resources

log = structlog.get_logger()

OnReady = Callable[[], None] | None

DEFAULT_CACHE_BYTES = 10 * 1024**3
DEFAULT_OUTPUTS_BYTES = 10 * 1024**3
DEFAULT_STOP_SECONDS = 15.0
_FENCE_CHECK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    servers: tuple[str, ...]  # base URLs of server nodes; any of them will do
    token: str = field(default="", repr=False)  # a worker's token, if the node has no key
    join_token: str = field(default="", repr=False)  # needed until the cluster knows the node's key
    pool: str
    name: str  # the node's name, unique in its pool
    data: Path
    capacity: Resources
    labels: dict[str, str] = field(default_factory=dict)
    ports: range = DEFAULT_PORTS  # ports this agent may give to tasks
    imports: tuple[str, ...] = ()  # modules every warm child loads before its first call
    kill_grace_seconds: float = 5.0  # between TERM and KILL
    frozen_limit_seconds: float = DEFAULT_FROZEN_SECONDS  # how long attempts stay frozen without a leader
    stop_seconds: float = DEFAULT_STOP_SECONDS  # for the end of tasks, their last results and output, when stopped
    log_patience_seconds: float = 10.0  # how long a result waits for its output to be stored
    log_spill_bytes: int = DEFAULT_SPILL_BYTES  # disk space for output that no server takes
    use_cgroups: bool = True
    use_sandbox: bool = True
    reserve_bytes: int = DEFAULT_RESERVE_BYTES  # with less free disk space, the node takes no work
    mounts: tuple[NamedMount, ...] = ()  # folders that tasks may request by name
    engine: str = engine.NONE  # one of engine.CHOICES
    pulls: PullRules = field(default_factory=PullRules)
    roots: dict[str, str] = field(default_factory=dict)  # folders with a whole system each, by name
    artifact_cache_bytes: int = DEFAULT_CACHE_BYTES  # disk space for fetched artifacts
    outputs_limit_bytes: int = DEFAULT_OUTPUTS_BYTES  # for the outputs of one attempt
    outputs_limit_files: int = MOST_OUTPUTS
    checkpoint_limit_bytes: int = DEFAULT_LIMIT_BYTES  # for the checkpoint of one task
    directory: Path = field(default_factory=Path.cwd)  # where functions are imported from
    devices: DeviceFiles = field(default_factory=DeviceFiles)  # device files by kind
    stay: Stay = field(default_factory=Stay)  # when the agent ends by itself


class AgentError(RuntimeError):
    """The agent can't start or go on; the message says what to do."""


async def run_agent(options: AgentOptions, stop: asyncio.Event, on_ready: OnReady = None) -> None:
    """Runs until `stop` is set, by it when its stay is over. `on_ready`: called at the first registration."""
    if not options.servers:
        raise AgentError("an agent needs the address of at least one server")
    lock = data_folder.lock(options.data)
    try:
        work = await asyncio.to_thread(data_folder.sweep, options.data)
        keeper_options = KeeperOptions(
            use_cgroups=options.use_cgroups,
            use_sandbox=options.use_sandbox,
            use_containers=options.engine != engine.NONE,
            visible=(*_visible_folders(options).folders, *(mount.source for mount in options.mounts)),
            roots=tuple(options.roots.values()),
        )
        link = KeeperLink(work=work, options=keeper_options)
        await link.start()
        try:
            await _run(options, stop, on_ready, link, work)
        finally:
            await link.close()
    finally:
        os.close(lock)


async def _run(options: AgentOptions, stop: asyncio.Event, on_ready: OnReady, link: KeeperLink, work: Path) -> None:
    options = _promised(options, link.facts)
    parts = await _assemble(options, link, work)
    _tune_garbage_collection()
    try:
        if options.imports:
            await _preload(parts.functions)
        introduction = await _introduce(options, parts, link, work)
        await _live(options, parts, introduction, stop, on_ready)
    finally:
        parts.functions.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of an agent."""

    servers: tuple[str, ...]
    credential: Credential
    boot: int
    outbox: Outbox
    full_disk: FullDisk
    server_sockets: ServerSockets
    shipper: LogShipper
    workbench: Workbench
    transfers: Transfers
    questions: QuestionServer
    processes: ProcessRunner
    functions: FunctionRunner


async def _assemble(options: AgentOptions, link: KeeperLink, work: Path) -> _Parts:
    outbox = Outbox()
    servers = tuple(server.rstrip("/") for server in options.servers)
    server_sockets = ServerSockets(servers)
    disk = DiskSpace(str(work), options.reserve_bytes)
    spill = Spill(options.data.resolve() / "output", disk, limit_bytes=options.log_spill_bytes)
    await asyncio.to_thread(spill.open)
    boot = secrets.randbits(63)
    credential = await asyncio.to_thread(
        open_credential,
        options.data,
        servers=servers,
        pool=options.pool,
        name=options.name,
        boot=boot,
        join_token=options.join_token,
        token=options.token,
    )
    shipper = LogShipper(
        servers=servers, credential=credential, spill=spill, patience_seconds=options.log_patience_seconds
    )
    workbench = Workbench(
        capacity=options.capacity,
        outbox=outbox,
        shipper=shipper,
        on_trust=link.trust,
        ports=Ports(options.ports),
        kinds={kind: count for kind, count in options.devices.counts.items() if kind != GPU},
        frozen_limit_seconds=options.frozen_limit_seconds,
    )
    full_disk = FullDisk(disk, workbench)
    cache = ArtifactCache(options.data.resolve() / "artifacts", limit_bytes=options.artifact_cache_bytes)
    await asyncio.to_thread(cache.open)
    has_leader = workbench.has_leader.is_set
    transfers = Transfers(servers=servers, credential=credential, boot=boot, cache=cache, has_leader=has_leader)
    checkpoints = Checkpoints(transfers=transfers, scratch=str(work), limit_bytes=options.checkpoint_limit_bytes)
    environment = spawn_order.node_environment(dict(os.environ))
    preparer = Preparer(link=link, transfers=transfers, checkpoints=checkpoints)
    processes = ProcessRunner(
        link=link,
        flow=shipper.flow,
        work=str(work),
        node=options.name,
        environment=environment,
        kill_grace_seconds=options.kill_grace_seconds,
        on_finish=workbench.process_finished,
        guard=workbench.guard,
        preparer=preparer,
        collector=Collector(
            transfers=transfers, limit_bytes=options.outputs_limit_bytes, most_files=options.outputs_limit_files
        ),
        checkpoints=checkpoints,
        has_gpus=options.capacity.gpus > 0,
        full_disk=full_disk,
        server_sockets=server_sockets,
        servers=servers,
    )
    questions = QuestionServer(servers=servers, credential=credential, checkpoints=checkpoints, has_leader=has_leader)
    functions = FunctionRunner(
        bench=workbench,
        link=link,
        flow=shipper.flow,
        child_settings=replace(
            _child_settings(options, work, environment, Packages(preparer=preparer, work=str(work))),
            servers=servers,
            server_sockets=server_sockets,
        ),
        kill_grace_seconds=options.kill_grace_seconds,
        keep_idle=len(os.sched_getaffinity(0)),
        questions=questions,
        full_disk=full_disk,
    )
    workbench.set_executors(processes, functions)
    full_disk.note(await asyncio.to_thread(disk.is_short, already=False))
    return _Parts(
        servers=servers,
        credential=credential,
        boot=boot,
        outbox=outbox,
        full_disk=full_disk,
        server_sockets=server_sockets,
        shipper=shipper,
        workbench=workbench,
        transfers=transfers,
        questions=questions,
        processes=processes,
        functions=functions,
    )


async def _introduce(options: AgentOptions, parts: _Parts, link: KeeperLink, work: Path) -> Introduction:
    """Proves what this node can do and describes it for the registration; unproven capabilities are not offered."""
    why_no_sandbox = await sandbox_proof.prove(link, work)
    if why_no_sandbox:
        log.warning("this node has no sandbox and takes trusted work only", why=why_no_sandbox)
    proven, why_no_containers = await engine.find(options.engine, link, work)
    if proven is not None:
        link.remove_containers = functools.partial(_remove_containers, proven, engine.data_label(work))
        parts.processes.images = Images(proven, options.pulls)
    elif options.engine != engine.NONE:
        log.warning("this node runs no containers", why=why_no_containers)
    parts.processes.offer = spawn_order.Offer(
        mounts={mount.name: mount for mount in options.mounts},
        roots={} if why_no_sandbox else options.roots,
        engine=proven,
        devices=options.devices,
        data=engine.data_label(work),
    )
    hello = wire.Hello(
        protocol=wire.PROTOCOL,
        name=options.name,
        boot=parts.boot,
        floor=0,
        capacity=options.capacity,
        labels=options.labels | own_labels(parts.processes.offer, link.facts, sandbox=not why_no_sandbox),
        capabilities=capabilities_of(link.facts, proven, sandbox=not why_no_sandbox),
        version=importlib.metadata.version("rota"),
    )
    return Introduction(servers=parts.servers, credential=parts.credential, pool=options.pool, hello=hello)


async def _live(
    options: AgentOptions, parts: _Parts, introduction: Introduction, stop: asyncio.Event, on_ready: OnReady
) -> None:
    outbox, shipper, workbench, processes = parts.outbox, parts.shipper, parts.workbench, parts.processes
    progress = ProgressWatch(functions=parts.functions, processes=processes, report=shipper.report)
    connection = ControlConnection(introduction=introduction, workbench=workbench, outbox=outbox)
    async with asyncio.TaskGroup() as group:
        loops = [
            group.create_task(connection.run(), name="control connection"),
            group.create_task(shipper.run(), name="log connection"),
            group.create_task(shipper.run_spill(), name="output to the disk"),
            group.create_task(_watch_fence(workbench), name="fence"),
            group.create_task(progress.run(), name="progress"),
            group.create_task(parts.full_disk.watch(), name="disk"),
            group.create_task(processes.saves.run(), name="checkpoints"),
            group.create_task(_announce(workbench, on_ready), name="announce"),
            group.create_task(
                leave_when_due(options.stay, workbench, outbox, stop, connection.why_refused), name="leaving"
            ),
        ]
        await stop.wait()
        await wind_down(
            workbench,
            outbox,
            shipper,
            stop_seconds=options.stop_seconds,
            has_leader=workbench.has_leader.is_set(),
        )
        if processes.images is not None:
            await processes.images.close()
        for loop in loops:
            loop.cancel()
        parts.server_sockets.close_all()
        await parts.questions.aclose()
        await parts.transfers.close()


def _visible_folders(options: AgentOptions) -> VisibleFolders:
    return find_visible(options.directory, os.environ.get("PYTHONPATH", ""), os.path.expanduser("~"))


def _child_settings(options: AgentOptions, work: Path, env: dict[str, str], packages: Packages) -> ChildSettings:
    seen = _visible_folders(options)
    if seen.withheld and options.use_sandbox:
        log.warning(
            "sandboxed functions can't see a folder that holds private ones; start the worker in another folder",
            folders=list(seen.withheld),
        )
    return ChildSettings(
        work=str(work),
        environment=env | _python_environment() | spawn_order.gpu_environment(() if options.capacity.gpus else None),
        imports=options.imports,
        directory=str(options.directory.resolve()),
        mounts={mount.name: mount for mount in options.mounts},
        visible=seen.mounts(options.data),
        path=seen.path,
        devices=options.devices,
        packages=packages,
    )


def _remove_containers(proven: Engine, data: str) -> None:
    if why := engine_calls.remove_all(proven, data):
        log.error("containers of a dead keeper could not be removed", why=why)


def _promised(options: AgentOptions, facts: KeeperFacts) -> AgentOptions:
    """The options without limits that this node can't enforce; logs them once for the operator."""
    lacking = [name for name in cgroup_limits.LIMITED if name not in facts.groups]
    if lacking:
        log.warning(
            "no control group enforces these limits here; memory and processes are checked ten times a second instead, "
            "CPU is shared equally and disk operations are not limited (rota doctor says how to get them)",
            limits=lacking,
        )
    if cgroup_limits.IO in lacking and options.capacity.iops:
        log.warning("this node offers no disk operations, because it can't enforce them", asked=options.capacity.iops)
        return replace(options, capacity=msgspec.structs.replace(options.capacity, iops=0))
    return options


def _tune_garbage_collection() -> None:
    """Attempts make no reference cycles; scanning tens of thousands of them would take a tenth of the CPU."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _preload(functions: FunctionRunner) -> None:
    failure = await functions.preload()
    if failure is not None:
        raise AgentError(f"{failure.message}\n{failure.traceback}".rstrip())


async def _watch_fence(workbench: Workbench) -> None:
    """Enforces the fence on a timer of its own, so that it works without a connection."""
    while True:
        due_at = workbench.guard()
        await asyncio.sleep(min(_FENCE_CHECK_SECONDS, max(0.005, due_at - time.monotonic())))


async def _announce(workbench: Workbench, on_ready: OnReady) -> None:
    await workbench.has_leader.wait()
    if on_ready is not None:
        on_ready()


def _python_environment() -> dict[str, str]:
    kept = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if os.environ.get(name)}
