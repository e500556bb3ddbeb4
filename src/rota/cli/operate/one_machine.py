"""`rota up`: PostgreSQL, a server node and a worker on this machine, supervised by one process.

The parts are the same processes that a cluster runs. A part that dies is restarted. When this process ends, however it
ends, everything that it started ends within five seconds: in order if it can, else by force, which loses nothing that
was acknowledged. All data is in one folder, which a lock reserves for one `rota up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.panel import Panel
from rich.status import Status
from rich.table import Table

from rota.admit.first_tokens import FirstTokens, ensure_first_tokens
from rota.admit.joining import SILENT_SECONDS, bind
from rota.admit.setup_link import make_setup_code
from rota.cli.operate.up_accounts import offer_setup, what_is_kept
from rota.client.transport.kept_profiles import save_own
from rota.client.transport.profile import Profile
from rota.client.transport.starting import OWN_START, profile_path
from rota.execute.identity import BadKeyFile, NodeKey, ensure_key
from rota.execute.linux import process_trees
from rota.store.embedded import EmbeddedError, EmbeddedPostgres
from rota.store.key_file import ensure_key_file
from rota.store.migrations import SchemaTooNew, TooOldPostgres, upgrade
from rota.store.trouble import DatabaseRefused, until_database

START_SECONDS = 60.0
# When each ends at the latest, after the signal to stop. A worker first has its own time, to end its tasks.
WORKER_OWN_SECONDS = 2.1
STOP_SECONDS = {"worker": 2.5, "server node": 3.0}
POSTGRES_STOP_SECONDS = 3.5
LAST_STOP_SECONDS = 3.7  # for whatever else was started; a busy machine needs the rest to notice all of it
# Of a `rota serve` on this machine: here nothing leaves loopback, and the worker is told an http address.
_WITHOUT_TLS = {"ROTA_TLS_CERT": "", "ROTA_TLS_KEY": ""}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    data: Path
    port: int
    database: str | None
    objects: str  # a folder or a URL, unless the words for the server name another; empty: no uploads
    server: tuple[str, ...] = ()  # further words of `rota serve`
    worker: tuple[str, ...] = ()  # further words of `rota worker`

    @property
    def worker_data(self) -> Path:
        return self.data / "worker"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Trouble(Exception):
    """A start that failed, with the reason in one sentence."""


class Part:
    """A child process that is restarted when it dies."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._arguments = arguments
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: int | None = None
        self._started_at = 0.0

    def start(self) -> None:
        self._ready, child_end = os.pipe()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rota.cli", *self._arguments],
                env={**os.environ, **self._environment, "ROTA_READY_FD": str(child_end)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(child_end,),
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        os.close(child_end)
        self._started_at = time.monotonic()

    def wait_until_ready(self) -> None:
        assert self._ready is not None
        readable, _, _ = select.select([self._ready], [], [], START_SECONDS)
        ready = bool(readable) and os.read(self._ready, 1) == b"R"
        os.close(self._ready)
        self._ready = None
        if not ready:
            raise Trouble(f"the {self.name} did not start:\n{_tail(self.log)}")

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def restart_due(self) -> bool:
        """At most one start per second."""
        return time.monotonic() - self._started_at > 1.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def stop(self, until: float) -> None:
        """In order until that moment of the monotonic clock, then by force."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class StopSignal(KeyboardInterrupt):
    """Ctrl-C, SIGTERM, or the terminal was closed. As a KeyboardInterrupt it also gets through an event loop."""


def run_up(options: UpOptions) -> int:
    console = Console(stderr=False)
    try:
        options.data.mkdir(parents=True, exist_ok=True)
        lock = _lock(options.data)
        _check_port(options.port)
    except (Trouble, OSError) as error:
        sys.stderr.write(f"rota: {error}\n")
        return 4 if isinstance(error, Trouble) else 2
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # so that `_end_the_rest` finds whatever was started, by whomever
    postgres: EmbeddedPostgres | None = None
    parts: list[Part] = []
    code = 0
    try:
        _raise_at_signals()
        with console.status("Starting PostgreSQL …") as status:
            if options.database is None:
                postgres = EmbeddedPostgres(options.data / "postgres")
                postgres.start()
            database = options.database or (postgres.url if postgres else "")
            tokens, setup_code = asyncio.run(_prepare(database, options, status))
            ensure_key_file(options.data / "secrets.key", secrets.token_bytes)
            for part in _parts(options, database):
                status.update(f"Starting the {part.name} …")
                parts.append(part)
                part.start()
                part.wait_until_ready()
        kept = save_own(Profile((options.url,), tokens.admin), profile_path())
        OWN_START.over()
        _welcome(console, options, postgres, parts)
        offer_setup(console, options.url, setup_code)
        if kept is not None:
            _tell(console, what_is_kept(kept))
        _watch(postgres, parts)
    except StopSignal:
        pass
    except (DatabaseRefused, SchemaTooNew, TooOldPostgres) as error:
        sys.stderr.write(f"rota: {error}\n")
        code = 4 if isinstance(error, DatabaseRefused) else 1
    except (Trouble, BadKeyFile, EmbeddedError) as error:
        sys.stderr.write(f"rota: {error}\n")
        code = 5
    finally:
        _stop(console, postgres, parts)
        lock.close()
    return code


def _stop(console: Console, postgres: EmbeddedPostgres | None, parts: list[Part]) -> None:
    asked_at = time.monotonic()
    _ignore_signals()
    _tell(console, "Stopping …")
    for part in reversed(parts):
        part.stop(asked_at + STOP_SECONDS[part.name])
    if postgres is not None:
        postgres.stop(max(0.0, asked_at + POSTGRES_STOP_SECONDS - time.monotonic()))
    _end_the_rest(asked_at + LAST_STOP_SECONDS)
    _tell(console, "Stopped. All data is kept; `rota up` continues from here.")


def _end_the_rest(until: float) -> None:
    """Waits for the last processes, such as the keeper of a worker that was killed, and kills what is still there."""
    while left := process_trees.descendants(os.getpid()):
        if time.monotonic() >= until:
            process_trees.signal_all(left, signal.SIGKILL)
        _reap(())
        time.sleep(0.01)


def _reap(own: Collection[int | None]) -> None:
    """Collects ended processes that became ours because their parents ended; `own` are collected elsewhere."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)


async def _prepare(database: str, options: UpOptions, status: Status) -> tuple[FirstTokens, str | None]:
    """Waits for the database and makes what a start needs there: schema, first token, setup link, node."""
    key = ensure_key(options.worker_data)

    async def prepare() -> tuple[FirstTokens, str | None]:
        await upgrade(database)
        tokens = await ensure_first_tokens(database, options.data)
        await _bind_key(database, key, status)
        return tokens, await make_setup_code(database)

    said = ""

    def say_why(reason: str, _: BaseException) -> None:
        nonlocal said
        if reason != said:  # a line, too, for whoever has no terminal
            status.console.print(f"Waiting: {reason}.")
            said = reason
        status.update("Waiting for the database …")

    return await until_database(prepare, say_why, asyncio.sleep)


async def _bind_key(database: str, key: NodeKey, status: Status) -> None:
    """Makes the worker's key that of this machine's node. Whoever has the database needs no join token."""
    name, until = socket.gethostname(), time.monotonic() + SILENT_SECONDS + 1
    while not await bind(database, pool="default", name=name, public_key=key.public):
        # A worker that died without a word counts as connected for a while.
        if time.monotonic() > until:
            raise Trouble(f"another worker is connected to this database as {name}; stop it, or use another database")
        status.update(f"Waiting until no other worker is connected as {name} …")
        await asyncio.sleep(0.5)


def _parts(options: UpOptions, database: str) -> list[Part]:
    logs = options.data / "logs"
    logs.mkdir(exist_ok=True)
    secrets_key = os.environ.get("ROTA_SECRETS_KEY_FILE") or str(options.data / "secrets.key")
    return [
        Part(
            "server node",
            ["serve", "--port", str(options.port), "--name", socket.gethostname(), *options.server],
            {
                "ROTA_DATABASE": database,
                "ROTA_SECRETS_KEY_FILE": secrets_key,
                "ROTA_OBJECTS": options.objects,
                **_WITHOUT_TLS,
            },
            logs / "server.log",
        ),
        Part(
            "worker",
            [
                "worker",
                *("--server", options.url, "--data", str(options.worker_data)),
                *("--stop-within", f"{WORKER_OWN_SECONDS}s", *options.worker),
            ],
            {},
            logs / "worker.log",
        ),
    ]


def _watch(postgres: EmbeddedPostgres | None, parts: list[Part]) -> None:
    """Restarts parts that died, until a signal to stop is raised."""
    while True:
        time.sleep(0.25)
        if postgres is not None and postgres.poll() is not None:
            sys.stderr.write("rota: PostgreSQL ended and is started again\n")
            postgres.start()
        for part in parts:
            if part.died() and part.restart_due():
                sys.stderr.write(f"rota: the {part.name} ended and is started again (see {part.log})\n")
                part.start()
        _reap((postgres.pid if postgres else None, *(part.pid for part in parts)))


def _welcome(console: Console, options: UpOptions, postgres: EmbeddedPostgres | None, parts: list[Part]) -> None:
    table = Table.grid(padding=(0, 2))
    where = f"Unix socket in {postgres.socket}" if postgres else "as given"
    table.add_row("PostgreSQL", where, f"pid {postgres.pid}" if postgres else "")
    addresses = {"server node": options.url, "worker": f"node {socket.gethostname()}, pool default"}
    for part in parts:
        table.add_row(part.name, addresses[part.name], f"pid {part.pid}")
    table.add_row("data", str(options.data), "")
    console.print(Panel(table, title="Rota is up", title_align="left", expand=False))
    console.print("Try, in another terminal:")
    rota = "rota" if shutil.which("rota") else str(Path(sys.executable).parent / "rota")
    for line in ("run -- echo hello", "submit -- sleep 5", "list"):
        console.print(f"  [bold]{rota} {line}[/bold]", soft_wrap=True, highlight=False)
    console.print("Ctrl-C stops it.")


def _lock(data: Path) -> TextIO:
    file = (data / "up.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise Trouble(f"`rota up` runs already on {data} (pid {file.read().strip() or 'unknown'})") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Trouble(
                f"port {port} on 127.0.0.1 can't be used ({error.strerror}); choose another with --port"
            ) from error


def _raise_at_signals() -> None:
    def stop(*_: object) -> None:
        _ignore_signals()  # the first one is enough
        raise StopSignal

    for number in _stop_signals():
        signal.signal(number, stop)


def _ignore_signals() -> None:
    for number in _stop_signals():
        signal.signal(number, lambda *_: None)  # SIG_IGN would be inherited by what is started


def _stop_signals() -> list[signal.Signals]:
    """Without SIGHUP if it is ignored: `nohup rota up` outlives its terminal."""
    all_signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return [number for number in all_signals if signal.getsignal(number) is not signal.SIG_IGN]


def _tell(console: Console, text: str) -> None:
    """To a terminal that may be gone by now."""
    try:
        console.print(text)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the buffer is written when the process ends


def _tail(path: Path) -> str:
    """The end of a log: the reason that the process gave, else its last lines."""
    lines = path.read_text(errors="replace").splitlines()[-5:]
    reasons = [found["reason"] for line in lines if "reason" in (found := _read_line(line))]
    return str(reasons[-1]) if reasons else "\n".join(lines)


def _read_line(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("event") == "process.failed" else {}


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
