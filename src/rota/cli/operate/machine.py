"""What a worker could do on this machine: its sandbox, its limits, its disk, its container engine.

Nothing is guessed from file names: a keeper is started in a temporary folder, makes its control groups and proves its
sandbox from the inside, as for a worker; then everything is removed. Each finding that is not ok has a remedy.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rota.cli.operate.finding import Finding
from rota.cli.shell.reasons import reason_of
from rota.execute.keeper import confined_exec, setup
from rota.execute.keeper.setup import KeeperOptions
from rota.execute.keeper_link import KeeperFacts, KeeperLink
from rota.execute.linux import cgroup_limits
from rota.execute.processes import engine, sandbox_proof

_DELEGATE = "run the worker as root, or as a systemd unit with Delegate=yes (docs/operations.md)"
# Settings that forbid users to make namespaces, the value that forbids it, and the remedy.
_FORBIDDING = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap with `userns`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


def findings(data: Path) -> list[Finding]:
    """`data`: the worker's folder, which need not exist."""
    return [*_tried_out(data), _engine()]


def _tried_out(data: Path) -> list[Finding]:
    folder = next(path for path in (data.absolute(), *data.absolute().parents) if path.is_dir())
    parent = str(folder) if os.access(folder, os.W_OK) else None
    try:
        with tempfile.TemporaryDirectory(prefix="rota-doctor-", dir=parent) as temporary:
            work = Path(temporary).resolve() / "work"
            work.mkdir(mode=0o700)
            facts, why_no_sandbox, device = asyncio.run(_try_out(work))
    except (OSError, RuntimeError) as error:
        return [
            Finding("worker", "broken", f"its keeper can't be tried out: {reason_of(error)}", "mend what is said here")
        ]
    return [
        bubblewrap(),
        namespaces(_setting),
        sandbox(why_no_sandbox),
        spawning(is_compiled=confined_exec.is_compiled),
        groups(facts),
        limits(facts),
        cpu(facts),
        disk(device, str(folder), is_held=cgroup_limits.IO in facts.groups),
    ]


async def _try_out(work: Path) -> tuple[KeeperFacts, str, str]:
    options = KeeperOptions(use_cgroups=True, use_sandbox=True, visible=(sys.prefix, sys.base_prefix))
    link = KeeperLink(work=work, options=options)
    await link.start()
    try:
        return link.facts, await sandbox_proof.prove(link, work), cgroup_limits.disk_of(str(work))
    finally:
        await link.close()


def bubblewrap() -> Finding:
    try:
        found = setup.find_bwrap()
    except setup.NoSandbox as error:
        return Finding("bubblewrap", "missing", "none that is new enough", str(error).partition("; ")[2])
    version = ".".join(map(str, setup.version_of(found)))
    return Finding("bubblewrap", "ok", f"{version}, {found}")


def namespaces(setting: Callable[[str], str]) -> Finding:
    for path, forbids, remedy in _FORBIDDING:
        if setting(path) == forbids:
            name = path.removeprefix("/proc/sys/").replace("/", ".")
            return Finding("user namespaces", "missing", f"{name} is {forbids}", remedy)
    return Finding("user namespaces", "ok", "allowed")


def sandbox(why_not: str) -> Finding:
    if not why_not:
        return Finding("sandbox", "ok", "proven from the inside")
    remedy = "mend what is said here; until then a worker takes trusted work only"
    return Finding("sandbox", "missing", why_not, remedy)


def spawning(*, is_compiled: bool) -> Finding:
    if is_compiled:
        return Finding("spawning", "ok", "without a fork")
    remedy = "install Rota where there is a C compiler; sandboxes start faster then"
    return Finding("spawning", "missing", "with a fork: the C extension is not compiled", remedy)


def groups(facts: KeeperFacts) -> Finding:
    if not facts.groups:
        remedy = f"{_DELEGATE}; without them tasks are watched and ended process by process"
        return Finding("control groups", "missing", "none that can be written", remedy)
    if facts.is_v2:
        only_ends = set(facts.groups) == {cgroup_limits.KILL}
        return Finding("control groups", "ok", "v2, for ending tasks only" if only_ends else "v2")
    beside = "with a v2 tree beside them" if cgroup_limits.KILL in facts.groups else "without a v2 tree beside them"
    return Finding("control groups", "ok", f"v1, {beside}")


def limits(facts: KeeperFacts) -> Finding:
    held = [name for name in cgroup_limits.LIMITED if name in facts.groups]
    lacking = [name for name in cgroup_limits.LIMITED if name not in facts.groups]
    detail = f"{', '.join(held) or 'none'} held by the kernel"
    if not lacking:
        return Finding("limits", "ok", detail)
    return Finding("limits", "missing", f"{detail}; not {', '.join(lacking)}", _DELEGATE)


def cpu(facts: KeeperFacts) -> Finding:
    if cgroup_limits.CPU in facts.groups:
        return Finding("CPU", "ok", "shared by the grants' weights; quotas are enforced")
    detail = "shared equally, whatever the grants: no weights, no quotas"
    return Finding("CPU", "missing", detail, f"{_DELEGATE}; tasks that ask for a CPU quota don't run here")


def disk(device: str, folder: str, *, is_held: bool) -> Finding:
    if device and is_held:
        return Finding("disk operations", "ok", f"counted on device {device}")
    if device:
        return Finding("disk operations", "missing", f"device {device} could be counted, but no group can", _DELEGATE)
    remedy = "put --data on a disk, not on memory, an overlay or a network, to limit operations per second"
    return Finding("disk operations", "missing", f"no disk below {folder} to count them on", remedy)


def _engine() -> Finding:
    if not (shutil.which("podman") or shutil.which("docker")):
        return Finding("container engine", "missing", "none", "apt-get install podman")
    try:
        proven, why_not = asyncio.run(_proven_engine())
    except (OSError, RuntimeError) as error:
        why = f"it can't be tried out: {reason_of(error)}"
        return Finding("container engine", "broken", why, "docs/containers.md says what a worker needs")
    if proven is None:
        return Finding("container engine", "missing", why_not, "docs/containers.md says what a worker needs")
    return Finding("container engine", "ok", proven)


async def _proven_engine() -> tuple[str | None, str]:
    """Runs a container as a worker does at its start, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="rota-doctor-") as data:
        work = Path(data).resolve() / "work"  # noqa: ASYNC240 - nothing else runs here
        work.mkdir(mode=0o700)
        link = KeeperLink(work=work, options=KeeperOptions(use_cgroups=True, use_containers=True))
        await link.start()
        try:
            found, why_not = await engine.find(engine.AUTO, link, work)
        finally:
            await link.close()
    if found is None:
        return None, why_not
    return f"{found.program}, {found.runtime or 'its own'} runtime: a container ran as it must", ""


def _setting(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
