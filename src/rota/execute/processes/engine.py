"""The container engine of this node: found, and proven with a test container.

A worker fails closed: it offers containers only after one ran through the keeper exactly as a task's would, isolated
and limited as it must be. The first way that works is kept (engines' defaults differ from machine to machine); when
none does, the reason is logged and `rota doctor` shows it. The proof needs no registry: its image is empty and uses the
machine's own programs.
"""

from __future__ import annotations

import asyncio
import io
import os
import resource
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from rota.execute.keeper_link import Ended, KeeperLink
from rota.execute.linux import cgroups, process_trees
from rota.execute.processes import sandbox_proof
from rota.execute.sandbox import engine_calls
from rota.execute.sandbox.bubblewrap import SYSTEM, Mount
from rota.execute.sandbox.container import DOCKER, ENGINES, PODMAN, ContainerSpec, Engine

AUTO, NONE = "auto", "none"
CHOICES = (AUTO, *ENGINES, NONE)
PROOF_IMAGE = "localhost/rota-proof:1"
_MOST_FILES = 65_536
_MOST_PROCESSES = 30_000  # podman 4.3 could pass this on, but not 65,536, though the agent's own limit was higher
# The engine's own settings; a task's variables never get there.
_PASSED_ON = (
    *("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_HOST", "DOCKER_CONFIG"),
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
_INITS = ("/usr/bin/catatonit", "/usr/libexec/podman/catatonit", "/usr/libexec/catatonit/catatonit")


def candidates(choice: str, environ: Mapping[str, str]) -> list[Engine]:
    """Every way in which an engine may work here, the likeliest first."""
    engines: list[Engine] = []
    for kind in ENGINES if choice == AUTO else [choice]:
        program = shutil.which(kind, path=environ.get("PATH"))
        if program is None or choice == NONE:
            continue
        engine = Engine(
            program=program,
            kind=kind,
            init=kind == DOCKER or any(map(os.path.exists, _INITS)),
            rootless=kind == PODMAN and os.geteuid() != 0,
            open_files=_hard(resource.RLIMIT_NOFILE, _MOST_FILES),
            processes=_hard(resource.RLIMIT_NPROC, _MOST_PROCESSES),
            env={name: environ[name] for name in _PASSED_ON if name in environ},
        )
        engines.append(engine)
        if kind == PODMAN:
            engines += [replace(engine, runtime="runc")] if shutil.which("runc") else []
    return engines


async def find(choice: str, link: KeeperLink, work: Path) -> tuple[Engine | None, str]:
    """The proven engine, or why there is none."""
    reasons: list[str] = []
    if choice == NONE:
        return None, "it was switched off"
    swept: set[str] = set()
    for found in candidates(choice, os.environ):
        # podman without root leaves a process behind that keeps its namespaces; the keeper ends it by this mark.
        engine = replace(found, env=found.env | {process_trees.MARK: process_trees.engine_mark(str(work))})
        if engine.kind not in swept:
            swept.add(engine.kind)
            why = _why_unlimited(engine, link) or await asyncio.to_thread(_prepare, engine, data_label(work))
            if why:
                reasons.append(f"{engine.kind}: {why}")
                continue
        elif not any(reason.startswith(f"{engine.kind}, ") for reason in reasons):
            continue  # it can't even be prepared: another runtime won't help
        why = await prove(engine, link, work)
        if not why:
            return engine, ""
        reasons.append(f"{engine.kind}, {engine.runtime or 'its own'} runtime: {why}")
    named = "neither podman nor docker is" if choice == AUTO else f"{choice} is not"
    return None, "; ".join(reasons) or f"{named} installed"


def data_label(work: Path) -> str:
    """The label of containers of the agent with this work folder."""
    return cgroups.parent_name(work.parent)


async def prove(engine: Engine, link: KeeperLink, work: Path) -> str:
    """Why containers of this engine can't be relied on here; "" if they can."""
    data = data_label(work)
    container_spec = ContainerSpec(
        engine=engine, image=PROOF_IMAGE, name=f"{data}-proof", data=data, tmp_bytes=1024 * 1024, mounts=_programs()
    )
    order = msgspec.structs.replace(sandbox_proof.proof(work, f"proof-{engine.kind}"), container_spec=container_spec)
    end, output = await sandbox_proof.run(link, order)
    if not isinstance(end, Ended) or end.status != 0:
        return engine_calls.error_line(output) or f"a first container did not run: {end}"
    if engine.kind == PODMAN and not end.cpu_us and not end.peak_memory_bytes:
        return "a first container ran outside the control group it was given"
    return "; ".join(sandbox_proof.judge(output, uid=None))


def _why_unlimited(engine: Engine, link: KeeperLink) -> str:
    """Known before the engine is called, which may leave a process and files behind."""
    if engine.kind == PODMAN and not link.facts.container_groups:
        return "podman's containers are limited and ended through control groups, and this agent can make none"
    return ""


def _prepare(engine: Engine, data: str) -> str:
    """Removes a previous agent's containers and makes the proof's image. Why that failed; "" if it did not."""
    if engine.kind == DOCKER:
        _, why = engine_calls.ask(engine, [engine.program, "version", "--format", "{{.Server.Version}}"])
        if why:
            return why
    why = engine_calls.remove_all(engine, data)
    if why:
        return why
    _, missing = engine_calls.ask(engine, [engine.program, "image", "inspect", "--format", "{{.Id}}", PROOF_IMAGE])
    if missing:
        _, why = engine_calls.ask(engine, [engine.program, "import", "-", PROOF_IMAGE], given=_empty_system())
    return why


def _programs() -> tuple[Mount, ...]:
    return tuple(Mount(path, path) for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path))


def _empty_system() -> bytes:
    """A root with mount points for the machine's own programs and nothing else."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in ("/etc", "/proc", "/sys", "/dev", "/tmp", "/run", "/task", *SYSTEM):
            entry = tarfile.TarInfo(path[1:])
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            if os.path.islink(path):
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
            archive.addfile(entry)
    return file.getvalue()


def _hard(which: int, most: int) -> int:
    _, hard = resource.getrlimit(which)
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
