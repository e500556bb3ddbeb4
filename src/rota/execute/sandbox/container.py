"""The arguments of a container engine: what an attempt in a container may see and use. Pure.

As with `bubblewrap.py`, the safety of a container depends on these arguments, so they are made in this one place and a
test pins them word for word. podman and docker take the same ones but for a few. Values of variables are never among
them (anyone on the machine can read a command line): the engine reads them from a descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.execute.linux.cgroup_limits import shares_of
from rota.execute.sandbox.bubblewrap import WORK, Mount

PODMAN, DOCKER = "podman", "docker"
ENGINES = (PODMAN, DOCKER)
ENV_DESCRIPTOR = 3  # where the engine reads the container's variables, `NAME=value` line by line
DATA_LABEL = "rota.data"  # names the agent of a container by its data folder
NOT_STARTED = (125, 126, 127)  # the engine's own exit codes: it failed, can't execute, found no such program


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine of this node and how it works here, as proven."""

    program: str
    kind: str = PODMAN
    runtime: str = ""  # "": the engine's own choice
    init: bool = False  # it has a first process of its own, which passes signals on and reaps
    rootless: bool = False
    open_files: int = 1024
    processes: int = 1024  # as an rlimit; a group counts them as well
    env: dict[str, str] = field(default_factory=dict)  # the engine's own, never a task's


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What one attempt may see and use."""

    engine: Engine
    image: str
    name: str  # unique among all containers of the machine
    data: str  # the label's value
    network: bool = False
    tmp_bytes: int = 64 * 1024 * 1024
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits that the engine itself must enforce; 0: no limit, or the group `parent` enforces it."""

    parent: str = ""  # a control group's path in every hierarchy; "": the engine's default
    memory_bytes: int = 0
    pids: int = 0
    cpu_milli: int = 0
    cpu_burst: bool = False  # `cpu_milli` is a weight only


def arguments(container_spec: ContainerSpec, bounds: Bounds, *, folder: str, uid: int) -> list[str]:
    """The engine's argv up to and with the image; the task's own argv follows."""
    engine = container_spec.engine
    argv = [*_engine(engine), "run", "--rm", "--name", container_spec.name]
    argv += ["--label", f"{DATA_LABEL}={container_spec.data}"]
    argv += ["--pull", "never", "--log-driver", "none", "--no-healthcheck"]
    argv += ["--init"] if engine.init else []
    argv += ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    argv += ["--user", f"{uid}:{uid}", "--network", "host" if container_spec.network else "none"]
    argv += [] if container_spec.network else ["--hostname", "rota"]
    argv += ["--ulimit", "core=0:0", "--ulimit", f"nofile={engine.open_files}:{engine.open_files}"]
    argv += ["--ulimit", f"nproc={engine.processes}:{engine.processes}"]
    if engine.kind == PODMAN:
        # No proxies of the machine, nothing special for an image whose program is called init, no tmpfs beyond the one
        # below; the container's monitor stays in the engine's group.
        argv += ["--http-proxy=false", "--systemd", "false", "--read-only-tmpfs=false", "--cgroups", "no-conmon"]
        argv += ["--userns", "keep-id"] if engine.rootless else []
    argv += _limits(bounds)
    argv += _tmp(container_spec, uid)
    for device in container_spec.devices:
        argv += ["--device", device]
    for mount in (*container_spec.mounts, Mount(folder, WORK, writable=True)):
        argv += ["--mount", _mount(mount)]
    argv += ["--workdir", WORK, "--env-file", f"/dev/fd/{ENV_DESCRIPTOR}", "--entrypoint", "", container_spec.image]
    return argv


def removal(engine: Engine, names: list[str]) -> list[str]:
    """Ends and removes containers, whatever is left of them; an unknown name is no error."""
    at_once = ["--time", "0", "--ignore"] if engine.kind == PODMAN else []
    return [*_engine(engine), "rm", "--force", "--volumes", *at_once, *names]


def listing(engine: Engine, data: str) -> list[str]:
    """The ids of all containers of the agent on one data folder, in any state."""
    return [*_engine(engine), "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={DATA_LABEL}={data}"]


def variables(env: dict[str, str]) -> bytes:
    """What the engine reads from `ENV_DESCRIPTOR`. ValueError: a value that would become further variables."""
    for name, value in env.items():
        if "\n" in value or "\r" in value:
            raise ValueError(f"the variable {name} has line breaks")
    return "".join(f"{name}={value}\n" for name, value in env.items()).encode("utf-8", "surrogatepass")


def _engine(engine: Engine) -> list[str]:
    if engine.kind != PODMAN:
        return [engine.program]
    return [engine.program, "--cgroup-manager", "cgroupfs", *(["--runtime", engine.runtime] if engine.runtime else [])]


def _limits(bounds: Bounds) -> list[str]:
    argv = ["--cgroup-parent", bounds.parent] if bounds.parent else []
    if bounds.memory_bytes:
        argv += ["--memory", f"{bounds.memory_bytes}b", "--memory-swap", f"{bounds.memory_bytes}b"]
    if bounds.cpu_milli:
        argv += ["--cpu-shares", str(shares_of(bounds.cpu_milli))]
        argv += [] if bounds.cpu_burst else ["--cpus", f"{bounds.cpu_milli / 1000:.3f}"]
    return [*argv, "--pids-limit", str(bounds.pids or -1)]


def _tmp(container_spec: ContainerSpec, uid: int) -> list[str]:
    """With an explicit owner: a runtime may give it the mode of the image's /tmp, which may be wrong or missing."""
    if container_spec.engine.kind == PODMAN:
        size = f"tmpfs-size={container_spec.tmp_bytes}"
        return ["--mount", f"type=tmpfs,destination=/tmp,{size},tmpfs-mode=1777,notmpcopyup,chown"]
    return ["--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,uid={uid},gid={uid},size={container_spec.tmp_bytes}"]


def _mount(mount: Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    fields += [] if mount.writable else ["readonly"]
    return ",".join(_quoted(field) for field in fields)


def _quoted(text: str) -> str:
    """As in CSV, which is how engines read a mount."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text
