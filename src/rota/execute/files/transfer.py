"""An agent's files over the network, through any server node: artifacts down; outputs, checkpoints and logs up.

The agent knows neither the object store nor the database; each request names its attempt and proves with the boot
number that it runs here. A broken transfer is tried again at another server, a download from where it broke, until
nothing has moved for `patience_seconds`, not counting time without a leader. Both ends compare digests. Files are read
and written in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec
import structlog

from rota import tls
from rota.execute.backoff import Backoff, Patience, always
from rota.execute.files.artifact_cache import ArtifactCache, Entry
from rota.execute.identity import Credential, HttpCredential
from rota.model.answers.problems import ProblemDocument
from rota.model.answers.workers import StoredObject, StoredObjectList
from rota.model.artifact import Purpose, digest_of
from rota.model.stage import StageDone
from rota.servers import Servers

log = structlog.get_logger()

T = TypeVar("T")

_PIECE_BYTES = 1024 * 1024
_AT_ONCE = 4  # concurrent transfers; more would only share the same network
_PATIENCE_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 90.0  # longer than a server waits for its object store
DAMAGED = "artifact-damaged"
_FINAL = ("no-object-store", DAMAGED)  # come with a 5xx, but a retry does not help


@dataclass(frozen=True, slots=True)
class Owner:
    """The attempt of a transfer; it must be running here."""

    task: int
    attempt: int
    tenant: int


class TransferRefused(Exception):
    """A server refused for good. `slug` is stable: not-found, quota-exceeded, payload-too-large, artifact-damaged, …"""

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(detail)
        self.slug = slug


class TransferFailed(Exception):
    """No server could be reached, or none sent the right bytes, within the patience."""


class _Again(Exception):
    """This try failed; the next may not."""


class Transfers:
    """One for each agent. `close` at the end."""

    def __init__(
        self,
        *,
        servers: tuple[str, ...],
        credential: Credential,
        boot: int,
        cache: ArtifactCache,
        patience_seconds: float = _PATIENCE_SECONDS,
        has_leader: Callable[[], bool] = always,
    ) -> None:
        self._servers = Servers(servers)
        self._cache = cache
        self._patience_seconds = patience_seconds
        self._has_leader = has_leader
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[Entry, asyncio.Task[None]] = {}
        self._http = httpx.AsyncClient(
            auth=HttpCredential(credential),
            headers={"X-Rota-Boot": str(boot), "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS),
            trust_env=False,
            verify=tls.trusted(),
        )

    async def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self._http.aclose()

    async def fetch(self, owner: Owner, sha256: str) -> int:
        """A descriptor to read an artifact of the task, named by its whole digest; the caller closes it.

        The file is read-only, whole and checked. Concurrent requests share one download.
        """
        digest = digest_of(sha256)
        if digest is None:
            raise TransferRefused("not-found", f"{sha256[:80]!r} is not a whole digest")
        entry = (owner.tenant, digest.hex())
        while True:
            descriptor = await asyncio.to_thread(self._cache.find, entry)
            if descriptor is not None:
                return descriptor
            shared = self._under_way.get(entry)
            if shared is None:
                await self._start(owner, entry)
                continue
            try:
                await asyncio.shield(shared)
            except (TransferRefused, TransferFailed):
                continue  # it was refused to another attempt, which may have ended: ask for this one

    async def _start(self, owner: Owner, entry: Entry) -> None:
        download = asyncio.create_task(self._download(owner, entry), name=f"fetch {entry[1][:12]}")
        self._under_way[entry] = download
        download.add_done_callback(lambda done: self._finished(entry, done))
        # Shielded: others may wait for it, even if this attempt is cancelled meanwhile.
        await asyncio.shield(download)

    def _finished(self, entry: Entry, download: asyncio.Task[None]) -> None:
        self._under_way.pop(entry, None)
        if not download.cancelled():
            download.exception()  # every waiting caller has the error

    async def store(
        self, owner: Owner, *, purpose: Purpose, name: str, descriptor: int, damaged: Sequence[int] = ()
    ) -> StoredObject:
        """Sends a regular file from its beginning, with its present length. The descriptor stays open and unmoved.

        `damaged`: older checkpoints that need not be kept once this one is stored.
        """
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise TransferRefused("invalid-path", f"{name}: only regular files are stored")
        path = f"{_attempt(owner)}/objects/{purpose.value}?name={quote(name, safe='')}"
        path += f"&damaged={','.join(map(str, damaged))}" if damaged else ""

        async def attempt_once(server: str) -> StoredObject:
            digest = hashlib.sha256()
            headers = {"Content-Length": str(facts.st_size), "Content-Type": "application/octet-stream"}
            content = _pieces(descriptor, facts.st_size, digest)
            answer = await self._http.put(f"{server}{path}", content=content, headers=headers)
            _check(answer)
            stored = msgspec.json.decode(answer.content, type=StoredObject)
            if (stored.sha256, stored.size_bytes) != (digest.hexdigest(), facts.st_size):
                raise _Again("the stored bytes differ from the sent bytes")
            return stored

        async with self._slots:
            return await self._retried(attempt_once)

    async def stored(self, owner: Owner, purpose: Purpose) -> list[StoredObject]:
        """Objects that this and earlier attempts of the task stored, newest first."""

        async def attempt_once(server: str) -> list[StoredObject]:
            answer = await self._http.get(f"{server}{_attempt(owner)}/objects", params={"purpose": purpose.value})
            _check(answer)
            return msgspec.json.decode(answer.content, type=StoredObjectList).objects

        return await self._retried(attempt_once)

    async def tell_stage(self, owner: Owner, stage: StageDone) -> None:
        """Reports that the attempt has finished a stage. Repeating it changes nothing."""

        async def attempt_once(server: str) -> None:
            address, headers = f"{server}{_attempt(owner)}/stages", {"Content-Type": "application/json"}
            _check(await self._http.post(address, content=msgspec.json.encode(stage), headers=headers))

        await self._retried(attempt_once)

    async def _retried(self, attempt_once: Callable[[str], Awaitable[T]]) -> T:
        retry = _Retry(Patience(self._patience_seconds, self._has_leader))
        while True:
            try:
                return await attempt_once(self._servers.take())
            except (_Again, httpx.TransportError, msgspec.DecodeError) as error:
                await retry.pause(error)

    async def fetch_object(self, owner: Owner, stored: StoredObject, descriptor: int) -> None:
        """Writes a stored object of the task into an empty file. If it raises, the file's content is useless."""
        async with self._slots:
            await self._receive(f"{_attempt(owner)}/objects/{stored.id}/content", stored.sha256, descriptor)

    # ---- one download ----------------------------------------------------------------------------------------------

    async def _download(self, owner: Owner, entry: Entry) -> None:
        async with self._slots:
            descriptor, path = await asyncio.to_thread(self._cache.begin)
            try:
                await self._receive(f"{_attempt(owner)}/artifacts/{entry[1]}", entry[1], descriptor)
                await asyncio.to_thread(self._cache.keep, entry, descriptor, path)
            finally:
                os.close(descriptor)
                await asyncio.shield(asyncio.to_thread(self._cache.discard, path))  # a kept file has another name

    async def _receive(self, path: str, sha256: str, descriptor: int) -> None:
        for _ in range(2):  # damage on the way is gone the second time; damage in the store never
            if await self._receive_once(path, descriptor) == sha256:
                return
        raise TransferRefused(DAMAGED, f"the received bytes are not sha256:{sha256}")

    async def _receive_once(self, path: str, descriptor: int) -> str:
        """Writes all of it from the beginning of the file; the digest of the received bytes."""
        retry = _Retry(Patience(self._patience_seconds, self._has_leader))
        digest, got = hashlib.sha256(), 0
        while True:
            try:
                headers = {"Range": f"bytes={got}-"} if got else {}
                async with self._http.stream("GET", f"{self._servers.take()}{path}", headers=headers) as answer:
                    if answer.status_code == 416:
                        break  # all is there; only the end of the answer was lost
                    if not answer.is_success:
                        await answer.aread()
                        _check(answer)
                    if got and answer.status_code != 206:
                        digest, got = hashlib.sha256(), 0
                    async for piece in answer.aiter_raw(_PIECE_BYTES):
                        await asyncio.to_thread(_write, descriptor, piece, got, digest)
                        got += len(piece)
                        retry.moved()
                break
            except (_Again, httpx.TransportError) as error:
                await retry.pause(error)
        await asyncio.to_thread(os.ftruncate, descriptor, got)
        return digest.hexdigest()


class _Retry:
    """Counts how long nothing has moved. `pause` waits before the next try, or gives up."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._backoff = Backoff(shortest_seconds=0.05, first_seconds=0.1, longest_seconds=5.0)

    def moved(self) -> None:
        self._patience.renew()
        self._backoff.reset()

    async def pause(self, error: Exception) -> None:
        if self._patience.is_over():
            raise TransferFailed(f"no server could be reached: {error or type(error).__name__}") from None
        log.info("transfer.tried_again", error=str(error)[:200] or type(error).__name__)
        await self._backoff.pause()


def _check(answer: httpx.Response) -> None:
    """Raises a final refusal, or a reason to try another server, unless it is a success."""
    if answer.is_success:
        return
    status = answer.status_code
    try:
        problem = msgspec.json.decode(answer.content, type=ProblemDocument)
    except msgspec.MsgspecError:
        problem = ProblemDocument()  # a proxy's page: the status says enough
    slug = problem.type.rsplit("/", 1)[-1]
    if slug not in _FINAL and (status >= 500 or status in (401, 408)):  # 401: the next try sends a new token
        raise _Again(problem.detail or f"HTTP {status}")
    raise TransferRefused(slug or f"http-{status}", problem.detail or f"HTTP {status}")


def _attempt(owner: Owner) -> str:
    return f"/v1/worker/attempts/{owner.task}/{owner.attempt}"


async def _pieces(descriptor: int, size: int, digest: hashlib._Hash) -> AsyncIterator[bytes]:
    done = 0
    while done < size:
        piece = await asyncio.to_thread(_read, descriptor, min(_PIECE_BYTES, size - done), done, digest)
        if not piece:
            raise TransferRefused("changed", "the file became shorter while it was sent")
        done += len(piece)
        yield piece


def _read(descriptor: int, size: int, offset: int, digest: hashlib._Hash) -> bytes:
    piece = os.pread(descriptor, size, offset)
    digest.update(piece)
    return piece


def _write(descriptor: int, piece: bytes, offset: int, digest: hashlib._Hash) -> None:
    digest.update(piece)
    view = memoryview(piece)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
