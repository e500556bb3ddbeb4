"""Packages: code that comes with functions, unpacked once on this node and used by many calls.

One tenant's package is never another's, even if the bytes are equal, and one unpacked in a sandbox is not used without
one. Concurrent calls share one unpacking. Packages that no process uses are removed when there are too many, the
longest unused first; all of them when the agent starts. Only names are read here: sandboxed processes read what tenants
packed.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from rota.execute.attempts.attempt import Attempt
from rota.execute.attempts.sharing import ProcessKey
from rota.execute.files.checkpoint import in_thread
from rota.execute.files.prepare import NotPrepared, Preparer
from rota.execute.linux import work_folder
from rota.model.isolation import Isolation
from rota.wire import Failure

log = structlog.get_logger()

SEEN_AT = "/package"  # where a sandboxed child finds it
MOST_BYTES = 1024**3  # one package, unpacked
MOST_KEPT = 32
_SOURCES = ("pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO")  # a folder with one of these is a source release

_Key = tuple[int, str, bool]  # tenant, digest, whether sandboxed


@dataclass(slots=True)
class Unpacked:
    folder: str
    inside: str  # where its modules are: "" or a path that begins with a slash
    users: int = 0  # processes that use it


@dataclass(slots=True)
class _Unpacking:
    task: asyncio.Task[None]
    waiting: int = 0  # calls that wait for it


class Packages:
    """One for each agent. `fetch` comes before a child is spawned; the child pool uses the rest."""

    def __init__(self, *, preparer: Preparer, work: str) -> None:
        self._preparer = preparer
        self._work = work
        self._kept: OrderedDict[_Key, Unpacked] = OrderedDict()
        self._under_way: dict[_Key, _Unpacking] = {}
        self._count = 0
        self._removals: set[asyncio.Task[None]] = set()

    def find(self, process_key: ProcessKey) -> Unpacked | None:
        key = _key(process_key)
        unpacked = self._kept.get(key)
        if unpacked is not None:
            self._kept.move_to_end(key)
        return unpacked

    def taken(self, process_key: ProcessKey) -> None:
        self._kept[_key(process_key)].users += 1

    def released(self, process_key: ProcessKey) -> None:
        self._kept[_key(process_key)].users -= 1

    async def fetch(self, attempt: Attempt) -> None:
        """Waits until the package of its process key is here. Raises `NotPrepared`.

        If cancelled, it leaves the package to other waiting calls; if there are none, the fetch ends.
        """
        process_key = attempt.terms.process_key
        key = _key(process_key)
        while (others := self._under_way.get(key)) is not None:
            try:
                await self._wait(others)
            except NotPrepared:
                continue  # it failed for another attempt, which may have ended: try for this one
            return
        task = asyncio.create_task(self._unpack(attempt, key), name=f"unpack package {process_key.package[-12:]}")
        self._under_way[key] = own = _Unpacking(task)
        task.add_done_callback(lambda done: self._finished(key, done))
        await self._wait(own)

    async def _wait(self, unpacking: _Unpacking) -> None:
        unpacking.waiting += 1
        try:
            await asyncio.shield(unpacking.task)
        finally:
            unpacking.waiting -= 1
            if not unpacking.waiting:
                unpacking.task.cancel()  # no effect if it is done

    def _finished(self, key: _Key, done: asyncio.Task[None]) -> None:
        if (known := self._under_way.get(key)) is not None and known.task is done:
            del self._under_way[key]
        if not done.cancelled():
            done.exception()  # every waiting call has the error

    async def _unpack(self, attempt: Attempt, key: _Key) -> None:
        self._count += 1
        folder = f"{self._work}/package-{os.getpid()}-{self._count}"
        limit_bytes = min(attempt.grant.disk_bytes or MOST_BYTES, MOST_BYTES)
        try:
            await self._preparer.unpack_package(attempt, key[1], folder, limit_bytes=limit_bytes)
            inside = await in_thread(_inside, folder)
        except OSError as error:
            self._remove(folder)
            raise NotPrepared(Failure("not-prepared", f"package: {error.strerror}")) from None
        except BaseException:
            self._remove(folder)
            raise
        self._kept[key] = Unpacked(folder, inside)
        for other, unpacked in list(self._kept.items()):
            if len(self._kept) <= MOST_KEPT:
                break
            if not unpacked.users and other != key:
                del self._kept[other]
                self._remove(unpacked.folder)

    def _remove(self, folder: str) -> None:
        removal = asyncio.create_task(_remove(folder), name="remove a package")
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)


def _key(process_key: ProcessKey) -> _Key:
    return process_key.tenant, process_key.package, process_key.isolation != Isolation.NONE


def _inside(folder: str) -> str:
    """Wheels and plain archives are imported from their top; a source release from its one folder, or its `src`."""
    top = _entries(folder)
    if len(top) != 1 or not all(top.values()):
        return ""
    [name] = top
    within = _entries(f"{folder}/{name}")
    if not any(source in within for source in _SOURCES):
        return ""
    return f"/{name}/src" if within.get("src") else f"/{name}"


def _entries(folder: str) -> dict[str, bool]:
    """Names, and whether each is a folder."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}


async def _remove(folder: str) -> None:
    if not await asyncio.to_thread(work_folder.remove, folder):
        log.error("the folder of a package could not be removed", folder=folder)
