"""The object store: a folder, S3, GCS or Azure behind one small door. Bytes by key; whose they are is in the database.

Memory is bounded by the parts a write has under way and by the slice a read holds. Trouble becomes a 503 whose words
say nothing of where the store is; the operator's log line is cleared of every secret we were given. Keys are written
once and never again, so a reader that comes back for the next slice finds the same object.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import obstore
import structlog
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from rota.model.errors import unavailable
from rota.settings import SettingsError

log = structlog.get_logger()

SLICE_BYTES = 4 * 1024 * 1024
PART_BYTES = 8 * 1024 * 1024  # 10,000 of them are the most S3 takes: 80 GB
PARTS_AT_ONCE = 2
ANSWER_SECONDS = 30.0
_RETRIES = 4
_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "azure", "adl")
_SECRET_NAME = re.compile(r"secret|password|token|key|credential|account|sas|signature", re.IGNORECASE)
_CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")

_AWAY = "the object store can't be reached right now; try again"

T = TypeVar("T")


class ObjectMissing(LookupError):
    """There is no object under this key."""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    key: str
    size_bytes: int
    modified_at: datetime


class ObjectStore:
    """One process's way to the objects. `open_objects` makes it."""

    def __init__(self, store: Any, *, folder: Path | None, secrets: tuple[str, ...]) -> None:
        self._store = store
        self._folder = folder
        self._secrets = secrets

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes the object whole, or not at all: an error from `chunks` comes out here and leaves nothing."""
        broken: list[Exception] = []
        try:
            await self._guarded(
                obstore.put_async(
                    self._store,
                    key,
                    _watched(chunks, broken),
                    use_multipart=True,
                    chunk_size=PART_BYTES,
                    max_concurrency=PARTS_AT_ONCE,
                ),
                broken,
            )
        except ObjectMissing:
            log.error("objects.away", kind="missing", error="the bucket or container does not exist")
            raise unavailable(_AWAY) from None
        if self._folder is not None:
            await asyncio.to_thread(_flush, self._folder, key)

    async def read(self, key: str, *, start: int, end: int, size_bytes: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, slice by slice: a slow reader holds no request open.

        `size_bytes` is the whole object's: some servers answer a range that is everything as if none were asked for.
        """
        while start < end:
            stop = min(end, start + SLICE_BYTES)
            if (start, stop) == (0, size_bytes):
                found = await self._guarded(obstore.get_async(self._store, key))
                data = bytes(await self._guarded(found.bytes_async()))
            else:
                part = obstore.get_range_async(self._store, key, start=start, end=stop)
                data = bytes(await self._guarded(part))
            if not data:
                return
            yield data
            start += len(data)

    async def head(self, key: str) -> ObjectFacts:
        facts = await self._guarded(obstore.head_async(self._store, key))
        return ObjectFacts(facts["path"], facts["size"], facts["last_modified"])

    async def delete(self, key: str) -> None:
        """Also what a broken-off write left behind. One that is not there is deleted already."""
        with contextlib.suppress(ObjectMissing):
            await self._guarded(obstore.delete_async(self._store, key))
        if self._folder is not None:
            await asyncio.to_thread(_remove_parts, self._folder, key)

    async def below(self, prefix: str) -> AsyncIterator[ObjectFacts]:
        pages = obstore.list(self._store, prefix, chunk_size=500)
        while True:
            try:
                page = await self._guarded(anext(pages))
            except StopAsyncIteration:
                return
            for facts in page:
                yield ObjectFacts(facts["path"], facts["size"], facts["last_modified"])

    async def _guarded(self, action: Awaitable[T], broken: list[Exception] | None = None) -> T:
        try:
            return await action
        except FileNotFoundError:
            raise ObjectMissing("there is no such object") from None
        except (BaseError, OSError, TimeoutError) as error:
            if broken:
                raise broken[0] from None
            log.error("objects.away", kind=type(error).__name__, error=self._without_secrets(str(error)))
            # Not chained: a traceback of ours must not carry the store's own words.
            raise unavailable(_AWAY) from None

    def _without_secrets(self, text: str) -> str:
        """The first line, without anything quoted from an answer, without queries, and with our secrets blacked out."""
        line = re.sub(r"\?\S*", "", text.partition("\n")[0].partition("<")[0])
        for secret in self._secrets:
            line = line.replace(secret, "…")
        return line[:300]


def open_objects(url: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store at a folder, `file://`, `memory://`, `s3://bucket/prefix`, `gs://…` or `az://container/prefix`.

    Credentials come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`) or from `options`. Raises `SettingsError`.
    """
    options = options or {}
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return _open_folder(Path(parts.path if parts.scheme else url))
    if parts.scheme == "memory":
        return ObjectStore(MemoryStore(), folder=None, secrets=())
    if parts.scheme not in _SCHEMES:
        raise SettingsError(f"objects: {parts.scheme}:// is not known; give a folder, s3://…, gs://… or az://…")
    if "@" in parts.netloc or parts.query:
        raise SettingsError(
            "objects: the address must hold no credentials; put them into the environment (AWS_…, GOOGLE_…, AZURE_…) "
            "or into [objects_options] of rota.toml"
        )
    try:
        store = from_url(  # type: ignore[call-overload]  # which store's configuration it is, only the address says
            url,
            config={name: value for name, value in options.items() if name != "allow_http"},
            client_options={
                "timeout": timedelta(seconds=ANSWER_SECONDS),
                "connect_timeout": timedelta(seconds=5),
                "allow_http": _allows_plain_http(options),
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=ANSWER_SECONDS)},
        )
    except (BaseError, ValueError, TypeError) as error:
        first = str(error).partition("\n")[0]
        secrets = _secrets(options)
        for secret in secrets:
            first = first.replace(secret, "…")
        raise SettingsError(f"objects: {first[:200]}") from None
    return ObjectStore(store, folder=None, secrets=_secrets(options))


def _open_folder(folder: Path) -> ObjectStore:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return ObjectStore(LocalStore(folder.resolve()), folder=folder.resolve(), secrets=())
    except OSError as error:
        raise SettingsError(f"objects: {folder}: {error.strerror}") from None
    except (BaseError, ValueError):
        raise SettingsError(f"objects: {folder} can't be used as a folder") from None


def _allows_plain_http(options: Mapping[str, str]) -> bool:
    """Only when somebody said so: for a store on the same machine or in a network of its own."""
    said = [options.get("allow_http", ""), *(os.environ.get(f"{cloud}ALLOW_HTTP", "") for cloud in _CLOUD_VARIABLES)]
    return any(word.lower() in ("true", "1", "yes") for word in said)


def _secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    """Longest first, so that one which holds another is blacked out whole."""
    named = {**{n: v for n, v in os.environ.items() if n.startswith(_CLOUD_VARIABLES)}, **options}
    found = {value for name, value in named.items() if _SECRET_NAME.search(name) and len(value) >= 4}
    return tuple(sorted(found, key=len, reverse=True))


async def _watched(chunks: AsyncIterator[bytes], broken: list[Exception]) -> AsyncIterator[bytes]:
    """Remembers what the source itself raised: the store would hand it back in words of its own."""
    try:
        async for chunk in chunks:
            if chunk:
                yield chunk
    except Exception as error:
        broken.append(error)
        raise


def _flush(folder: Path, key: str) -> None:
    """To the disk, with the folders that name it: a row must never be safer than its object."""
    path = folder / key
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if path == folder:
            return
        path = path.parent


def _remove_parts(folder: Path, key: str) -> None:
    """What a process that died in the middle of a write left: the same name with a number behind it."""
    target = folder / key
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(target.parent):
            if entry.name.startswith(f"{target.name}#"):
                os.unlink(entry.path)
