"""`rota up`, as root and as a normal user: whatever ends it, everything that it started is gone within five seconds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import rota
from rota.client._sync.client import Client
from rota.client.errors import RotaError
from rota.client.transport.profile import read_profile
from tests.harness.cluster import free_port

STUBBORN = 'trap "" TERM; while :; do sleep 1; done'
START_SECONDS = 120.0
STOP_SECONDS = 5.0


@dataclass
class Up:
    """A `rota up` on a terminal of its own."""

    folder: Path
    process: subprocess.Popen[bytes]
    terminal: int
    screen: bytearray = field(default_factory=bytearray)
    closing: threading.Event = field(default_factory=threading.Event)

    def until_up(self) -> None:
        self._until(lambda: b"stops it" in self.screen, "it is up")

    def until_starting(self) -> None:
        self._until(lambda: bool(self.processes("initdb", "postgres")), "it starts PostgreSQL")

    def press_ctrl_c(self) -> None:
        os.write(self.terminal, b"\x03")

    def close_terminal(self) -> None:
        self.closing.set()

    def read_terminal(self) -> None:
        """A thread of its own, which also closes it: while one reads, nobody can."""
        with contextlib.suppress(OSError):
            while not self.closing.is_set():
                if select.select([self.terminal], [], [], 0.05)[0]:
                    self.screen += os.read(self.terminal, 4096)
        os.close(self.terminal)

    def client(self) -> Client:
        profile = read_profile(self.folder / "profile.toml")
        return Client(profile.servers[0], profile.token, retry_seconds=0)

    def processes(self, *programs: str) -> list[str]:
        """What runs on its folder, by name, without itself: its folder is in the arguments or the environment."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in (os.getpid(), self.process.pid):
                with contextlib.suppress(OSError):
                    said = b"".join(Path(f"/proc/{name}/{file}").read_bytes() for file in ("cmdline", "environ"))
                    if os.fsencode(self.folder) in said:
                        found.append(Path(f"/proc/{name}/comm").read_text().strip())
        return [one for one in found if not programs or one in programs]

    def stopped_after(self, act: Callable[[], None]) -> float:
        """Seconds from the act until it has ended."""
        began = time.monotonic()
        act()
        self.process.wait(60)
        return time.monotonic() - began

    def _until(self, look: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not look():
            assert self.process.poll() is None, f"it ended before {what}: {self.screen.decode(errors='replace')}"
            assert time.monotonic() < deadline, f"not in time: {what}: {self.screen.decode(errors='replace')}"
            time.sleep(0.02)


@pytest.fixture
def start() -> Iterator[Callable[..., Up]]:
    folder = Path(tempfile.mkdtemp(prefix="rota-up-"))  # pytest's own folders are closed to other users
    started: list[Up] = []

    def start(*, user: str | None = None) -> Up:
        if user is not None:
            shutil.chown(folder, user)
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(
            [_python(user), "-m", "rota.cli", "up", "--data", str(folder / "data"), "--port", str(free_port())],
            env={
                "HOME": str(folder),
                "PATH": os.environ["PATH"],
                "ROTA_PROFILE": str(folder / "profile.toml"),
                "PYTHONPATH": os.pathsep.join([str(Path(rota.__file__).parents[1]), *_packages()]),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            cwd=folder,
            user=user,
            group=None if user is None else "nogroup",
            extra_groups=None if user is None else [],
        )
        os.close(theirs)
        up = Up(folder, process, terminal)
        started.append(up)
        threading.Thread(target=up.read_terminal).start()
        return up

    yield start
    for up in started:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait()
        up.close_terminal()
    shutil.rmtree(folder, ignore_errors=True)


def _wait_in_vain(client: Client, task: int) -> None:
    with client, contextlib.suppress(RotaError):
        client.handle(task).wait()


def _follow_in_vain(client: Client, task: int) -> None:
    with client, contextlib.suppress(RotaError):
        list(client.follow(task))


def _packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def _python(user: str | None) -> str:
    """An interpreter that the user can reach: those of people often lie in a closed home."""
    own = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (own, Path("/usr/bin") / version, Path("/usr/local/bin") / version):
        if user is None or (candidate.exists() and all(one.stat().st_mode & 0o001 for one in candidate.parents)):
            return str(sys.executable if user is None else candidate)
    pytest.skip(f"no {version} that another user could run")


NORMAL_USER = "nobody" if os.geteuid() == 0 else None


def test_ctrl_c_ends_a_task_that_ignores_it_and_lets_waiting_clients_go(start: Callable[..., Up]) -> None:
    up = start()
    up.until_up()
    with up.client() as client:
        task = client.submit(["sh", "-c", STUBBORN])
        next(iter(client.events(types=["started"], task=task.id, since="1h")))
        for in_vain in (_wait_in_vain, _follow_in_vain):
            threading.Thread(target=in_vain, args=(up.client(), task.id), daemon=True).start()
        seconds = up.stopped_after(up.press_ctrl_c)
    assert up.processes() == []
    assert (up.process.returncode, b"Stopped." in up.screen) == (0, True)
    assert seconds < STOP_SECONDS


def test_a_closed_terminal_ends_everything_of_a_normal_user(start: Callable[..., Up]) -> None:
    """podman without root starts a process that outlives it, to keep its namespaces."""
    up = start(user=NORMAL_USER)
    up.until_up()
    assert len(up.processes()) > 3
    seconds = up.stopped_after(up.close_terminal)
    assert up.processes() == []
    assert seconds < STOP_SECONDS


def test_a_start_can_be_interrupted(start: Callable[..., Up]) -> None:
    up = start()
    up.until_starting()
    seconds = up.stopped_after(up.process.terminate)
    assert up.processes() == []
    assert (up.process.returncode, b"Rota is up" in up.screen) == (0, False)
    assert seconds < STOP_SECONDS


def test_whatever_a_killed_one_has_started_ends_too(start: Callable[..., Up]) -> None:
    up = start()
    up.until_starting()
    up.process.kill()
    deadline = time.monotonic() + STOP_SECONDS
    while up.processes() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert up.processes() == []
