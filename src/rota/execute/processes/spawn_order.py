"""From a run's spec to the order for the keeper: argv, environment, folder. Pure.

A task's environment is made, never inherited: the agent's token, its other variables and those of other tasks must not
reach it. `PATH`, `LANG` and `TZ` are the node's, in a container the image's; the rest is the task's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from rota import tls
from rota.execute.attempts.sharing import limits_of, may_burst
from rota.execute.keeper_link import SandboxSpec, Spawn, UnitLimits
from rota.execute.linux import work_folder
from rota.execute.linux.process_trees import MARK
from rota.execute.machine import device_files
from rota.execute.machine.device_files import DeviceFiles
from rota.execute.machine.mounts import NamedMount, named
from rota.execute.messages.spec import RunSpec, array_environment, decode_spec, schedule_environment, words
from rota.execute.processes import task_files
from rota.execute.sandbox.bubblewrap import WORK, Mount
from rota.execute.sandbox.container import ContainerSpec, Engine
from rota.execute.server_sockets import SEEN_ADDRESS, SEEN_AT
from rota.model.attempt import input_variables
from rota.model.isolation import LONGEST_VARIABLE_BYTES, ROOTFS, Isolation, is_one_line
from rota.model.resources import Resources
from rota.model.secret import SERVER_VARIABLE
from rota.wire import Run

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("PATH", "LANG", "TZ")


class BadSpec(ValueError):
    """The spec can't be run as a process; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What this node offers to isolated tasks."""

    mounts: Mapping[str, NamedMount] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)  # folders with whole systems, by name
    engine: Engine | None = None  # None: no containers
    devices: DeviceFiles = device_files.NONE
    data: str = ""  # the label of this agent's containers


NOTHING = Offer()


def node_environment(environ: dict[str, str]) -> dict[str, str]:
    """Variables of every task on this node, from the agent's own environment."""
    kept = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8"} | kept


def spec_of(run: Run) -> RunSpec:
    try:
        return decode_spec(run.spec)
    except msgspec.DecodeError as error:
        raise BadSpec(f"the task's spec can't be read: {error}") from None


def spawn_of(
    run: Run,
    spec: RunSpec,
    *,
    work: str,
    node: str,
    environment: dict[str, str],
    ports: tuple[int, ...] = (),
    gpus: tuple[int, ...] | None = None,  # None: this node has none
    devices: device_files.Assigned = (),  # devices of other kinds
    grant: Resources | None = None,  # becomes its limits; None: a test's
    offer: Offer = NOTHING,
    servers: tuple[str, ...] = (),  # for a task that may submit
) -> Spawn:
    try:
        arguments = words(spec)
    except msgspec.DecodeError as error:
        raise BadSpec(f"the task's spec can't be read: {error}") from None
    folder = f"{work}/{run.task}-{run.attempt}"
    files = offer.devices.of(gpus or (), devices)
    own_socket = socket_folder(folder) if run.may_submit and needs_socket(spec.isolation, network=spec.network) else ""
    sandbox = _sandbox(spec, grant, offer, files, own_socket)
    container_spec = _container_spec(run, spec, grant, offer, files, own_socket)
    if sandbox is None and container_spec is None:
        # without isolation it sees every folder; a mount that is not for its tenant is refused all the same
        _mounts(spec, offer)
    seen = folder if sandbox is None and container_spec is None else WORK  # where the task finds its folder
    env = environment | {"HOME": seen, "TMPDIR": folder} | spec.env
    if sandbox is not None:
        env = environment | {"PATH": _DEFAULT_PATH, "HOME": seen, "TMPDIR": "/tmp"} | spec.env
    if container_spec is not None:
        env = {"HOME": seen, "TMPDIR": "/tmp"} | spec.env
    env |= {
        "ROTA_TASK_ID": str(run.task),
        "ROTA_ATTEMPT": str(run.attempt),
        "ROTA_IDEMPOTENCY_KEY": run.idempotency_key,
        "ROTA_NODE": node,
        "ROTA_CHECKPOINT": work_folder.checkpoint_of(seen),
        MARK: seen,
    }
    env |= schedule_environment(spec) | array_environment(spec) | port_environment(ports) | gpu_environment(gpus)
    env |= device_files.variables(devices)
    results = input_variables(run.inputs)
    # containers' variables have no line breaks; in JSON a line break is just white space
    if container_spec is not None:
        results = {name: value.replace("\n", " ").replace("\r", " ") for name, value in results.items()}
    env |= results | task_files.environment(seen)
    if run.may_submit:
        env[SERVER_VARIABLE] = SEEN_ADDRESS if own_socket else ",".join(in_turns(servers, run.task))
        env |= {} if own_socket else tls.for_tasks(servers)
    if spec.command:
        program, arguments = spec.command[0], spec.command[1:]
    elif spec.script is not None:
        program = "script"
    elif spec.path:
        program = spec.path
    elif spec.upload is not None:
        program = "upload"
    else:
        raise BadSpec("the task has no command, script, path or upload")
    return Spawn(
        program=program,
        arguments=arguments,
        env=env,
        folder=folder,
        fence_ms=run.fence_ms,
        interpreter=spec.interpreter,
        script=None if spec.command else spec.script,
        is_file=not spec.command and spec.script is None and spec.upload is None,
        is_upload=not spec.command and spec.script is None and spec.upload is not None,
        limits=_limits(spec, grant),
        sandbox=sandbox,
        secrets=run.secrets,
        container_spec=container_spec,
        checkpoint=True,
    )


def _limits(spec: RunSpec, grant: Resources | None) -> UnitLimits:
    if grant is None:
        return UnitLimits()
    cpu_burst = may_burst(spec.cpu_limit, spec.isolation)
    return limits_of(grant, spec.processes, spec.isolation, cpu_burst=cpu_burst)


def needs_socket(isolation: str, *, network: bool) -> bool:
    """Whether a task that may submit can reach no server by its address."""
    return isolation != Isolation.NONE and not network


def socket_folder(folder: str) -> str:
    """The folder of a unit's server socket, beside its own."""
    return f"{folder}.server"


def socket_in(order: Spawn) -> str:
    """The folder of the server socket that the order shows to its task; "": none."""
    if order.sandbox is not None:
        return next((source for source, target, _ in order.sandbox.mounts if target == SEEN_AT), "")
    if order.container_spec is not None:
        return next((mount.source for mount in order.container_spec.mounts if mount.target == SEEN_AT), "")
    return ""


def in_turns(servers: tuple[str, ...], task: int) -> tuple[str, ...]:
    """The addresses, beginning with another one for each task: clients prefer the first."""
    first = task % max(1, len(servers))
    return servers[first:] + servers[:first]


def _sandbox(
    spec: RunSpec, grant: Resources | None, offer: Offer, devices: tuple[str, ...], own_socket: str
) -> SandboxSpec | None:
    root = ""
    if spec.isolation == Isolation.CONTAINER and spec.image.startswith(ROOTFS):
        name = spec.image.removeprefix(ROOTFS)
        if name not in offer.roots:
            raise BadSpec(f"this node has no root {name}")
        root = offer.roots[name]
    elif spec.isolation != Isolation.SANDBOX:
        return None
    mounts = tuple((mount.source, mount.target, mount.writable) for mount in _mounts(spec, offer))
    mounts += ((own_socket, SEEN_AT, False),) if own_socket else ()
    return SandboxSpec(network=spec.network, tmp_bytes=_tmp_bytes(grant), mounts=mounts, devices=devices, root=root)


def _container_spec(
    run: Run, spec: RunSpec, grant: Resources | None, offer: Offer, devices: tuple[str, ...], own_socket: str
) -> ContainerSpec | None:
    if spec.isolation != Isolation.CONTAINER or spec.image.startswith(ROOTFS):
        return None
    if offer.engine is None:
        raise BadSpec("this node runs no containers")
    for secret in run.secrets:
        if not is_one_line(secret.value):
            limit = f"one line of at most {LONGEST_VARIABLE_BYTES} bytes, as a container's variables must be"
            raise BadSpec(f"the secret {secret.name} is not {limit}")
    mounts = tuple(Mount(mount.source, mount.target, mount.writable) for mount in _mounts(spec, offer))
    return ContainerSpec(
        engine=offer.engine,
        image=spec.image,
        name=f"{offer.data}-{run.task}-{run.attempt}",
        data=offer.data,
        network=spec.network,
        tmp_bytes=_tmp_bytes(grant),
        mounts=(*mounts, Mount(own_socket, SEEN_AT)) if own_socket else mounts,
        devices=devices,
    )


def named_by(order: Spawn, name: str) -> Spawn:
    """The order for a container, with the engine's name of its image."""
    assert order.container_spec is not None
    return msgspec.structs.replace(order, container_spec=replace(order.container_spec, image=name))


def _mounts(spec: RunSpec, offer: Offer) -> list[NamedMount]:
    try:
        return named(offer.mounts, spec.mounts, spec.owner)
    except ValueError as error:
        raise BadSpec(str(error)) from None


def _tmp_bytes(grant: Resources | None) -> int:
    memory = grant.memory_bytes if grant is not None else 0
    return max(1024 * 1024, memory // 2) if memory else 64 * 1024 * 1024


def port_environment(ports: tuple[int, ...]) -> dict[str, str]:
    """`ROTA_PORT` is the first; all of them are numbered from 1."""
    numbered = {f"ROTA_PORT_{number}": str(port) for number, port in enumerate(ports, start=1)}
    return {"ROTA_PORT": str(ports[0]), **numbered} if ports else {}


def gpu_environment(gpus: tuple[int, ...] | None) -> dict[str, str]:
    """The GPUs it may use. On a node with GPUs, a task that asked for none sees none."""
    if gpus is None:
        return {}
    shown = ",".join(map(str, gpus))
    return {"CUDA_VISIBLE_DEVICES": shown} | ({"ROTA_GPUS": shown} if gpus else {})
