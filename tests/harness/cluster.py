"""A real cluster for tests: server nodes and workers as processes of their own, on loopback, with scaled timings.

Every process is stopped by the test that started it, by pid. Processes can be killed, paused and started again.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import httpx

from rota.admit.first_tokens import FirstTokens, ensure_first_tokens
from rota.admit.joining import bind
from rota.client._sync.client import Client
from rota.execute.identity import ensure_key
from rota.store.key_file import ensure_key_file

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_entered: list[Cluster] = []  # whose nodes ought to run, as far as nobody stops them
CALM = 0.6  # the scale for clusters that are not killed: faster ones cost a fifteenth of a core each, even when idle


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Process:
    """One `rota` process that can be started again after it was killed."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    folder: Path
    popen: subprocess.Popen[bytes] | None = None
    starts: int = 0
    prefix: tuple[str, ...] = ()  # before the command line, such as `ip netns exec NAME`

    def start(self, *, wait: bool = True) -> None:
        ready, child_end = os.pipe()
        self.starts += 1
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.popen = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "rota.cli", *self.arguments],
                env={**os.environ, **self.environment, "ROTA_READY_FD": str(child_end)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(child_end,),
                start_new_session=True,
                cwd=self.folder,
            )
        os.close(child_end)
        try:
            if wait:
                readable, _, _ = select.select([ready], [], [], START_SECONDS)
                if not readable or os.read(ready, 1) != b"R":
                    raise AssertionError(f"{self.name} did not start:\n{self.log()[-3000:]}")
        finally:
            if wait:
                os.close(ready)
            else:
                self._ready = ready

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.popen is not None
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self.popen is not None:
            self.signal(signal.SIGKILL)
            self.popen.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.popen is not None and self.running:
            self.resume()
            self.popen.terminate()
            try:
                self.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                warnings.warn(f"{self.name} did not stop within {STOP_SECONDS} s:\n{self._stacks()}", stacklevel=2)
                self.kill()

    def _stacks(self) -> str:
        """What it is doing, and the end of its log: for the report of a test run."""
        spy = Path(sys.executable).parent / "py-spy"
        dump = subprocess.run([spy, "dump", "--pid", str(self.pid)], capture_output=True, text=True)
        return f"{dump.stdout}{dump.stderr}\n{self.log()[-2000:]}"


@dataclass
class Cluster:
    """Any number of server nodes and workers on one database. Use as a context manager."""

    database: str
    folder: Path
    time_scale: float = 0.2
    modules: Path | None = None  # a folder with task modules for functions
    servers: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    tokens: FirstTokens = field(default_factory=lambda: FirstTokens(""))

    @property
    def secrets_key(self) -> Path:
        """The master key of all its server nodes."""
        return self.folder / "secrets.key"

    def __enter__(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tokens = asyncio.run(ensure_first_tokens(self.database, self.folder))
        ensure_key_file(self.secrets_key, os.urandom)
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self in _entered:  # a test may stop its cluster before its fixture does
            _entered.remove(self)
        for process in [*self.workers, *self.servers]:
            process.stop()

    def add_server(
        self, *, start: bool = True, database: str | None = None, certificates: Path | None = None, **environment: str
    ) -> Process:
        """A server node. `database` may be another way to the same database, such as a chaos proxy.

        `certificates`: a folder of `rota tls init`; the node speaks TLS, and trusts its authority and no other.
        """
        port = free_port()
        if certificates is not None:
            pair = {"ROTA_TLS_CERT": "server.pem", "ROTA_TLS_KEY": "server.key", "ROTA_CA": "ca.pem"}
            environment = {name: str(certificates / file) for name, file in pair.items()} | environment
        name = f"server-{len(self.servers)}"
        process = Process(
            name,
            ["serve", "--port", str(port), "--name", name],
            {
                "ROTA_DATABASE": database or self.database,
                "ROTA_TIME_SCALE": str(self.time_scale),
                "ROTA_CHECK_TRANSITIONS": "1",
                "ROTA_SECRETS_KEY_FILE": str(self.secrets_key),
                "ROTA_OBJECTS": str(self.folder / "objects"),
                **environment,
            },
            self.folder,
        )
        self.servers.append(process)
        self.urls.append(f"{'http' if certificates is None else 'https'}://127.0.0.1:{port}")
        if start:
            process.start()
        return process

    def add_worker(
        self,
        *,
        start: bool = True,
        servers: list[str] | None = None,
        capacity: str = "cpu=4,memory=4G,disk=100G",
        options: tuple[str, ...] = (),
        **environment: str,
    ) -> Process:
        name = f"node-{len(self.workers)}"
        path = os.pathsep.join(filter(None, [str(self.modules or ""), os.environ.get("PYTHONPATH", "")]))
        process = Process(
            name,
            [
                "worker",
                "--server",
                ",".join(servers or self.urls),
                "--name",
                name,
                "--data",
                str(self.folder / name),
                "--capacity",
                capacity,
                "--engine",
                "none",
                *options,
            ],
            {"PYTHONPATH": path, **environment},
            self.folder,
        )
        if "ROTA_TOKEN" not in environment:
            self.make_node(name, options[options.index("--pool") + 1] if "--pool" in options else "default")
        self.workers.append(process)
        if start:
            process.start()
        return process

    def make_node(self, name: str, pool: str = "default") -> None:
        """Gives a worker's data folder a key, and the node of this name that key, as `rota up` does."""
        key = ensure_key(self.folder / name)
        with ThreadPoolExecutor(1) as thread:  # the test may have a loop of its own
            bound = thread.submit(
                lambda: asyncio.run(bind(self.database, pool=pool, name=name, public_key=key.public))
            ).result()
        assert bound, f"pool {pool} is there, and no worker is connected as {name}"

    @cached_property
    def worker_token(self) -> str:
        """A token of the role worker, which speaks for nodes without a key."""
        wanted = {"tenant": "default", "user": "worker", "role": "worker"}
        headers = {"authorization": f"Bearer {self.tokens.admin}"}
        made = httpx.post(f"{self.urls[0]}/v1/tokens", json=wanted, headers=headers, trust_env=False)
        return str(made.json()["token"])

    def client(self, server: int = 0) -> Client:
        return Client(server=self.urls[server], token=self.tokens.admin)


def ended_nodes() -> str:
    """The nodes of this test process that run no more, with the end of their logs: for the report of a failed test."""
    return "\n\n".join(
        f"{process.name} in {process.folder} has ended ({process.popen.returncode}); its log ends with:\n"
        f"{process.log()[-2000:]}"
        for cluster in _entered
        for process in (*cluster.servers, *cluster.workers)
        if process.popen is not None and not process.running
    )
