"""The agent's side of the keeper: starts it, sends it orders, reads its reports, restarts it when it dies.

Orders never block the event loop: what the socket does not take waits here, in order. Descriptors given to `spawn`
belong to the link from then on. The link knows units by number only; its listeners know what they are (an attempt, a
warm child). `keeper/main.py` carries the orders out.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from rota.execute.keeper import main, reachable_folders
from rota.execute.keeper.setup import KeeperOptions
from rota.execute.keeper_output import KeeperOutput
from rota.execute.linux import cgroups, process_trees, work_folder
from rota.execute.messages import packets
from rota.execute.sandbox.container import ContainerSpec
from rota.model.secret import Secret

log = structlog.get_logger()

_RETRY_SECONDS = 0.2
_READY_SECONDS = 20.0
_REPORTS_PER_WAKE = 32
_encode = msgspec.json.Encoder().encode

DEFAULT_PROCESSES = 1024  # of one unit, unless the task says otherwise


class UnitLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a unit; 0: no limit."""

    memory_bytes: int = 0
    pids: int = 0
    cpu_milli: int = 0  # its weight, and its quota unless it may burst
    cpu_burst: bool = False
    iops: int = 0
    disk_bytes: int = 0


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandboxed unit may see and use beyond the system's own programs (`bubblewrap.Sandbox`)."""

    network: bool = False
    tmp_bytes: int = 64 * 1024 * 1024
    mounts: tuple[tuple[str, str, bool], ...] = ()  # source, path inside the sandbox, writable
    devices: tuple[str, ...] = ()
    root: str = ""  # a folder with another system; "": this machine's system


class Spawn(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. `script` is text to write to a file and run; `is_file` marks `program` as a file on this node."""

    program: str
    arguments: list[str]
    env: dict[str, str]
    folder: str  # the unit's private folder; made before the start, removed after the end
    fence_ms: int
    cwd: str | None = None  # the private folder unless given
    interpreter: list[str] | None = None
    script: str | None = None
    is_file: bool = False
    is_upload: bool = False  # the program is already in the folder, under the name of a script
    prepared: bool = False  # the folder already exists
    owner: int = 0  # the reserved unit whose user number owns the folder; 0: the unit's own
    checkpoint: bool = False  # it gets a folder that is kept from attempt to attempt
    keeps_folder: bool = False  # the folder is not removed when the unit ends
    limits: UnitLimits = UnitLimits()
    sandbox: SandboxSpec | None = None  # None: no sandbox
    secrets: tuple[Secret, ...] = ()  # variables that are kept out of `env`, which may be logged
    container_spec: ContainerSpec | None = None  # None: no container


class Ended(msgspec.Struct, frozen=True):
    """The whole process tree of a unit is dead."""

    status: int  # as from wait(2)
    cpu_us: int
    peak_memory_bytes: int
    started_us: int
    ended_us: int
    folder_left: bool
    fenced: bool = False  # killed by the keeper: cut off from the leader for too long
    limit: str = ""  # the limit it was killed for
    used: int = 0  # amount of that limit
    written_bytes: int = 0  # written to disks
    granted_processes: int = 0


class Refused(msgspec.Struct, frozen=True):
    """A unit never started."""

    slug: str
    message: str
    folder_left: bool


class Lost(msgspec.Struct, frozen=True):
    """The keeper died and the unit with it; nobody knows how far it got."""


End = Ended | Refused | Lost


class Listener(Protocol):
    def unit_over(self, end: End) -> None: ...


class AwaitedEnd:
    """A listener that waits for the end of one unit."""

    def __init__(self) -> None:
        self.end: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    def unit_over(self, end: End) -> None:
        self.end.set_result(end)


class KeeperFacts(msgspec.Struct, frozen=True):
    """What a keeper has found on this machine."""

    groups: dict[str, str] = {}  # parents of the control groups, by controller
    is_v2: bool = True
    container_groups: dict[str, str] = {}  # the same for containers; empty: they can't be limited here
    bwrap: str = ""  # "": no sandbox
    why_no_sandbox: str = ""


class KeeperLink:
    def __init__(self, *, work: Path, options: KeeperOptions) -> None:
        self._work = work
        self._options = options
        # removes the containers of a dead keeper; may take long
        self.remove_containers: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._backlog: deque[tuple[int, bytes, list[int]]] = deque()
        self._listeners: dict[int, Listener] = {}
        self._answers: dict[int, deque[Callable[[bool], None]]] = {}
        self._numbers = 0
        self._closed = False
        self._respawn: asyncio.Task[None] | None = None
        self._trusted_at = time.monotonic()
        self.facts = KeeperFacts()

    async def start(self) -> None:
        ours, theirs = packets.pair()
        output = KeeperOutput(self._loop)
        process = subprocess.Popen(  # noqa: ASYNC220 - a short spawn, once per keeper
            [sys.executable, "-m", "rota.execute.keeper.main", str(self._work), _encode(self._options).decode()],
            stdin=subprocess.DEVNULL,
            stdout=output.theirs,
            stderr=output.theirs,
            pass_fds=[theirs.fileno()],
            env=_keeper_environment(self._work, theirs.fileno()),
            start_new_session=True,
        )
        theirs.close()
        output.theirs.close()
        ours.setblocking(False)
        self._process = process
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await _readable(self._loop, ours)
            packet = packets.receive(ours)
        except (TimeoutError, OSError):
            packet = None
        except asyncio.CancelledError:  # the agent ends; the keeper ends when its socket closes
            ours.close()
            raise
        if packet is None:
            ours.close()
            process.kill()
            process.wait()
            output.read()  # why
            raise RuntimeError("the keeper process did not start; is the Python of the agent complete?")
        self.facts = msgspec.json.decode(packet[0], type=tuple[str, KeeperFacts])[1]
        self._channel = ours
        packets.send(ours, _encode(("trust", self._trusted_at)))  # before any unit starts: its fence counts from here
        self._loop.add_reader(ours.fileno(), self._on_readable)
        self._flush()

    def reserve(self) -> int:
        """A unit number that is used only once. A folder is prepared for the user of this number."""
        self._numbers += 1
        return self._numbers

    def spawn(self, listener: Listener, order: Spawn, descriptors: list[int]) -> int:
        """Starts a unit; `listener` is told of its end exactly once."""
        number = self.reserve()
        self._listeners[number] = listener
        self._order(number, _encode(("spawn", number, order)), descriptors)
        return number

    def terminate(self, number: int) -> None:
        self._order(0, _encode(("term", number)))

    def kill(self, number: int) -> None:
        self._order(0, _encode(("kill", number)))

    def limit(self, number: int, limits: UnitLimits, answered: Callable[[bool], None]) -> None:
        """Changes the limits of a unit; `answered` is told whether it has them, unless the unit ends first."""
        self._answers.setdefault(number, deque()).append(answered)
        self._order(0, _encode(("limit", number, limits)))

    def set_fence(self, number: int, fence_ms: int) -> None:
        self._order(0, _encode(("fence", number, fence_ms)))

    def trust(self, sent_at: float) -> None:
        self._trusted_at = sent_at
        self._order(0, _encode(("trust", float(sent_at))))

    async def close(self) -> None:
        """Ends the keeper and with it everything it started."""
        self._closed = True
        if self._respawn is not None:
            self._respawn.cancel()
            await asyncio.gather(self._respawn, return_exceptions=True)
        if self._channel is not None:
            self._drop_channel()
        for _, _, descriptors in self._backlog:
            _close_all(descriptors)
        self._backlog.clear()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    # ---- orders out ----------------------------------------------------------------------------------------

    def _order(self, spawns: int, body: bytes, descriptors: list[int] | None = None) -> None:
        entry = (spawns, body, descriptors or [])
        if self._backlog or self._channel is None or not self._try_send(entry):
            self._backlog.append(entry)
            if self._channel is not None:
                self._loop.add_writer(self._channel.fileno(), self._flush)

    def _try_send(self, entry: tuple[int, bytes, list[int]]) -> bool:
        assert self._channel is not None
        try:
            packets.send(self._channel, entry[1], entry[2])
        except OSError:
            return False  # the socket is full, or the keeper is gone: `_on_readable` is about to notice
        _close_all(entry[2])
        return True

    def _flush(self) -> None:
        while self._backlog and self._channel is not None:
            if not self._try_send(self._backlog[0]):
                self._loop.add_writer(self._channel.fileno(), self._flush)
                return
            self._backlog.popleft()
        if self._channel is not None:
            self._loop.remove_writer(self._channel.fileno())

    # ---- reports in ----------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        for _ in range(_REPORTS_PER_WAKE):
            if self._channel is None:
                return
            try:
                packet = packets.receive(self._channel)
            except BlockingIOError:
                return
            except OSError:
                packet = None
            if packet is None:
                self._keeper_died()
                return
            for report in msgspec.json.decode(packet[0]):
                self._on_report(report)

    def _on_report(self, report: list[Any]) -> None:
        if report[0] == "limited":
            answers = self._answers.get(report[1])
            if answers:
                answers.popleft()(report[2])
            return
        self._answers.pop(report[1], None)
        listener = self._listeners.pop(report[1], None)
        if listener is None:
            return
        if report[0] == "ended":
            listener.unit_over(Ended(*report[2:]))
        else:
            listener.unit_over(Refused(*report[2:]))

    def _keeper_died(self) -> None:
        self._drop_channel()
        if self._closed:
            return
        log.error("the keeper died; its units are lost, a new one is started")
        waiting = {number for number, _, _ in self._backlog if number}
        lost = [number for number in self._listeners if number not in waiting]
        self._backlog = deque(entry for entry in self._backlog if entry[0])  # the other orders were for dead units
        self._respawn = self._loop.create_task(self._restart(lost), name="restart the keeper")

    async def _restart(self, lost: list[int]) -> None:
        assert self._process is not None
        process = self._process
        groups = [*self.facts.groups.values(), *self.facts.container_groups.values()]
        await asyncio.to_thread(_clear, process, groups, str(self._work))
        if self.remove_containers is not None:
            await asyncio.to_thread(self.remove_containers)
        for number in lost:
            self._answers.pop(number, None)
            listener = self._listeners.pop(number, None)
            if listener is not None:
                listener.unit_over(Lost())
        while not self._closed:
            try:
                await self.start()
                return
            except RuntimeError as error:  # without a keeper nothing runs
                log.error("the new keeper did not start; trying again", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _drop_channel(self) -> None:
        assert self._channel is not None
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        self._channel = None


def _clear(process: subprocess.Popen[bytes], groups: list[str], work: str) -> None:
    process.wait()
    for group in dict.fromkeys(groups):
        cgroups.sweep(group)
    process_trees.kill_marked(work, below=True)
    work_folder.remove_all_below(work)
    reachable_folders.clear(cgroups.parent_name(Path(work).parent))


def _keeper_environment(work: Path, channel: int) -> dict[str, str]:
    # The mark lets a later agent on the same folder find and end a keeper that outlived its agent.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {process_trees.MARK: f"{work}/keeper", main.CHANNEL_VARIABLE: str(channel)}


async def _readable(loop: asyncio.AbstractEventLoop, channel: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(channel.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(channel.fileno())


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
