"""Runs a worker in this process. An error that a user can mend becomes one sentence and an exit code.

Imports nothing of a server node, which would double a worker's start-up time and memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import uvloop

from rota.cli.operate.json_logging import configure_logging, fail
from rota.cli.operate.own_process import CRASHED, announce_ready, leave_no_dump, say
from rota.execute.agent import (
    DEFAULT_CACHE_BYTES,
    DEFAULT_OUTPUTS_BYTES,
    DEFAULT_STOP_SECONDS,
    AgentError,
    AgentOptions,
    run_agent,
)
from rota.execute.attempts.frozen import DEFAULT_LIMIT_SECONDS as DEFAULT_FROZEN_SECONDS
from rota.execute.connection import TwinError
from rota.execute.data_folder import DataFolderInUse
from rota.execute.files.checkpoint import DEFAULT_LIMIT_BYTES
from rota.execute.identity import KEY_FILE as KEY_FILE
from rota.execute.identity import BadKeyFile, JoinRefused
from rota.execute.images.node_images import DEFAULT_IMAGE_BYTES, DEFAULT_PULL_SECONDS, PullRules
from rota.execute.images.registries import parse_registries
from rota.execute.leaving import NeverTaken, Stay
from rota.execute.logs.spill import DEFAULT_SPILL_BYTES
from rota.execute.machine.capacity import detect_capacity, parse_capacity, with_devices
from rota.execute.machine.device_files import check_counts, parse_devices
from rota.execute.machine.disk_space import DEFAULT_RESERVE_BYTES
from rota.execute.machine.mounts import parse_mount, parse_rootfs
from rota.execute.machine.ports import DEFAULT_PORTS, parse_ports

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    servers: tuple[str, ...]
    token: str = field(repr=False)
    join_token: str = field(repr=False)
    pool: str
    name: str
    data: Path
    capacity: str | None
    labels: dict[str, str]
    ports: str | None
    imports: tuple[str, ...]
    mounts: tuple[str, ...] = ()
    no_sandbox: bool = False
    engine: str = "auto"
    registries: tuple[str, ...] = ()
    private_registries: bool = False
    pull_ms: int = int(DEFAULT_PULL_SECONDS * 1000)
    image_bytes: int = DEFAULT_IMAGE_BYTES
    frozen_ms: int = int(DEFAULT_FROZEN_SECONDS * 1000)
    roots: tuple[str, ...] = ()
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    artifact_cache_bytes: int = DEFAULT_CACHE_BYTES
    outputs_limit_bytes: int = DEFAULT_OUTPUTS_BYTES
    checkpoint_limit_bytes: int = DEFAULT_LIMIT_BYTES
    log_spill_bytes: int = DEFAULT_SPILL_BYTES
    devices: tuple[str, ...] = ()
    once: bool = False
    idle_seconds: float | None = None
    stop_seconds: float = DEFAULT_STOP_SECONDS


def run_worker(options: WorkerOptions) -> int:
    leave_no_dump()
    try:
        ports = DEFAULT_PORTS if options.ports is None else parse_ports(options.ports)
    except ValueError as error:
        return say(f"--ports: {error}", 2)
    try:
        devices = parse_devices(options.devices)
    except ValueError as error:
        return say(f"--device: {error}", 2)
    detected = with_devices(detect_capacity(options.data, ports), devices.counts)
    try:
        capacity = parse_capacity(options.capacity, detected) if options.capacity else detected
        check_counts(devices, capacity)
    except ValueError as error:
        return say(f"--capacity: {error}", 2)
    agent = AgentOptions(
        servers=options.servers,
        token=options.token,
        join_token=options.join_token,
        pool=options.pool,
        name=options.name,
        data=options.data,
        capacity=capacity,
        labels=options.labels,
        ports=ports,
        imports=options.imports,
        mounts=tuple(map(parse_mount, options.mounts)),
        use_sandbox=not options.no_sandbox,
        engine=options.engine,
        pulls=PullRules(
            registries=parse_registries(options.registries, private=options.private_registries),
            pull_seconds=options.pull_ms / 1000,
            image_bytes=options.image_bytes,
        ),
        roots=dict(map(parse_rootfs, options.roots)),
        reserve_bytes=options.reserve_bytes,
        artifact_cache_bytes=options.artifact_cache_bytes,
        outputs_limit_bytes=options.outputs_limit_bytes,
        checkpoint_limit_bytes=options.checkpoint_limit_bytes,
        log_spill_bytes=options.log_spill_bytes,
        frozen_limit_seconds=options.frozen_ms / 1000,
        devices=devices,
        stop_seconds=options.stop_seconds,
        stay=Stay(once=options.once, idle_seconds=options.idle_seconds),
    )
    # No process that we start may find a token in its environment.
    os.environ.pop("ROTA_TOKEN", None)
    os.environ.pop("ROTA_JOIN_TOKEN", None)
    configure_logging()
    try:
        uvloop.run(_work(agent))
    except (AgentError, BadKeyFile, DataFolderInUse) as error:
        return fail(str(error), 1)
    except ExceptionGroup as group:  # of the agent's loops: users can mend these, others are bugs
        expected = group.subgroup((TwinError, NeverTaken, JoinRefused))
        if expected is None:
            log.exception("agent.crashed")
            return CRASHED
        return fail(str(expected.exceptions[0]), 1)
    except Exception:
        log.exception("agent.crashed")
        return CRASHED
    return 0


async def _work(options: AgentOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run_agent(options, stop, announce_ready)
