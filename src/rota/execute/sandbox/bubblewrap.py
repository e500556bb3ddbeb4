"""The arguments of bubblewrap: what a sandboxed attempt may see and use. Pure.

bubblewrap is a toolkit; how safe it is depends entirely on its arguments, so they are made in this one place and a test
pins them word for word. Every namespace is new, the system is read-only, and of the machine's files only those listed
here are visible. bubblewrap reads them from a descriptor, because everybody on the machine can read its command line.
The task's environment goes there too, never to bubblewrap as its own, which would let a task load its code into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

WORK = "/task"  # where an attempt finds its private folder
MOST_WORDS = 9_000  # the most arguments bubblewrap takes: ours, the task's own, and three for each variable
MOST_VARIABLES = 2_500
SANDBOX_PROCESSES = 2  # bubblewrap's own processes, or a container's first one: not the task's
UID = 1000  # the user number it sees, whatever it is outside

# Folders of another root that are not used: these are made new for every attempt.
MADE = ("proc", "dev", "sys", "tmp", "run", "task")

# Folders and files of the system that every program may need, where they exist. All of /usr; of /etc only public files:
# nothing about this machine's users, keys or services.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
ETC_WITH_NETWORK = ("/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the machine and where the attempt sees it."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What one attempt may see and use."""

    network: bool = False
    tmp_bytes: int = 64 * 1024 * 1024
    mounts: tuple[Mount, ...] = ()  # in this order, later ones over earlier ones
    devices: tuple[str, ...] = ()  # device files, visible at their own paths
    root: str = ""  # a folder with a whole system, instead of this machine's; one of `Host.roots`


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder with a whole system, read once: its entries are bound, one by one, at the top."""

    folder: str
    entries: tuple[str, ...] = ()  # names of folders and files
    links: tuple[tuple[str, str], ...] = ()
    etc: tuple[str, ...] = ()  # those of ETC_WITH_NETWORK that it has, and that this machine's can cover


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Which of SYSTEM and ETC the machine has, read once, and how its private folders can be reached."""

    bwrap: str
    folders: tuple[str, ...] = ()  # those of SYSTEM that are real folders
    links: tuple[tuple[str, str], ...] = ()  # those of SYSTEM that are links, and where they point
    files: tuple[str, ...] = ()  # those of ETC and ETC_WITH_NETWORK that exist
    accounts: tuple[str, str] | None = None  # replacements for /etc/passwd and /etc/group
    reachable_as: tuple[tuple[str, str], ...] = field(default=())  # private folders, and their reachable paths
    roots: tuple[Root, ...] = ()

    def reachable(self, path: str) -> str:
        """The same folder under a path that an unprivileged user can follow."""
        for folder, other in self.reachable_as:
            if path == folder or path.startswith(folder + "/"):
                return other + path[len(folder) :]
        return path


def survey(
    bwrap: str,
    *,
    link_of: Callable[[str], str | None],
    exists: Callable[[str], bool],
    accounts: tuple[str, str] | None = None,
    reachable_as: tuple[tuple[str, str], ...] = (),
) -> Host:
    """Reads the machine once; `link_of` is the target of a symbolic link, None for anything else."""
    present = [path for path in SYSTEM if exists(path)]
    links = {path: target for path in present if (target := link_of(path)) is not None}
    return Host(
        bwrap=bwrap,
        folders=tuple(path for path in present if path not in links),
        links=tuple(links.items()),
        files=tuple(path for path in (*ETC, *ETC_WITH_NETWORK) if exists(path)),
        accounts=accounts,
        reachable_as=reachable_as,
    )


def survey_root(
    folder: str, *, names: list[str], link_of: Callable[[str], str | None], is_file: Callable[[str], bool]
) -> Root:
    links = {name: target for name in names if (target := link_of(f"{folder}/{name}")) is not None}
    return Root(
        folder=folder,
        entries=tuple(sorted(name for name in names if name not in links and name not in MADE)),
        links=tuple(sorted((name, target) for name, target in links.items() if name not in MADE)),
        etc=tuple(path for path in ETC_WITH_NETWORK if is_file(folder + path) and link_of(folder + path) is None),
    )


def command_line(handed: int) -> list[str]:
    """bubblewrap's argv up to and with `--`; it reads its arguments from the descriptor."""
    return ["bwrap", "--args", str(handed), "--"]


def arguments(host: Host, sandbox: Sandbox, *, folder: str, seccomp: int) -> list[str]:
    """What the attempt may see and use. bubblewrap reads its system-call filter from the descriptor `seccomp`."""
    argv = ["--unshare-user", "--uid", str(UID), "--gid", str(UID), "--disable-userns"]
    argv += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--hostname", "rota"]
    if not sandbox.network:
        argv += ["--unshare-net"]
    argv += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--seccomp", str(seccomp)]
    argv += _other_system(host, sandbox) if sandbox.root else _this_system(host, sandbox)
    # Process 1 is bubblewrap's own: its program and libraries would tell where they lie on the machine.
    argv += ["--proc", "/proc", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    argv += ["--dev", "/dev", "--size", str(sandbox.tmp_bytes), "--tmpfs", "/tmp"]
    argv += ["--size", str(sandbox.tmp_bytes), "--tmpfs", "/dev/shm", "--dir", "/run"]
    argv += [] if sandbox.root else ["--dir", "/var/tmp"]
    for device in sandbox.devices:
        argv += ["--dev-bind", device, device]
    argv += ["--remount-ro", "/dev"]  # a tmpfs of its own without a size limit: nobody may fill it
    for mount in sandbox.mounts:
        argv += ["--bind" if mount.writable else "--ro-bind", host.reachable(mount.source), mount.target]
    argv += ["--bind", host.reachable(folder), WORK, "--chdir", WORK, "--remount-ro", "/"]
    return argv


def _this_system(host: Host, sandbox: Sandbox) -> list[str]:
    argv: list[str] = []
    for path in host.folders:
        argv += ["--ro-bind", path, path]
    for path, target in host.links:
        argv += ["--symlink", target, path]
    for path in host.files:
        if sandbox.network or path not in ETC_WITH_NETWORK:
            argv += ["--ro-bind", path, path]
    if host.accounts is not None:
        for source, target in zip(host.accounts, ("/etc/passwd", "/etc/group"), strict=True):
            argv += ["--ro-bind", host.reachable(source), target]
    return argv


def _other_system(host: Host, sandbox: Sandbox) -> list[str]:
    """Entry by entry over an empty top, so that a missing folder (/task) can be made without changing the root."""
    root = next(root for root in host.roots if root.folder == sandbox.root)
    argv: list[str] = []
    for name in root.entries:
        argv += ["--ro-bind", host.reachable(f"{root.folder}/{name}"), f"/{name}"]
    for name, target in root.links:
        argv += ["--symlink", target, f"/{name}"]
    for path in root.etc:
        if sandbox.network and path in host.files:
            argv += ["--ro-bind", path, path]
    return argv


def environment_arguments(env: Mapping[str, str]) -> list[str]:
    """The task's environment as further arguments."""
    if len(env) > MOST_VARIABLES:
        raise ValueError(f"{len(env)} variables are more than the {MOST_VARIABLES} a sandbox takes")
    words = ["--clearenv"]
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r:.80} can't be a variable of an environment")
        words += ["--setenv", name, value]
    return words


def handed(words: list[str]) -> bytes:
    """Arguments as bubblewrap reads them from a descriptor. ValueError: a word that would become two."""
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    return b"".join(os.fsencode(word) + b"\0" for word in words)
