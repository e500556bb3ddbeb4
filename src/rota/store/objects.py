"""The object store: bytes by key in a folder, S3, GCS or Azure. Their owners are rows in the database.

Memory is bounded by the parts of a write and the slice of a read. An error becomes a 503 that does not reveal the
location of the store; the operator's log line shows no secret. A key is written only once, so a reader that returns for
the next slice finds the same object.
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
PART_BYTES = 8 * 1024 * 1024  # S3 takes 10,000 parts at most: 80 GB
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
    """The objects as one process reaches them. Made by `open_objects`."""

    def __init__(self, store: Any, *, folder: Path | None, secrets: tuple[str, ...]) -> None:
        self._store = store
        self._folder = folder
        self._secrets = secrets

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes the whole object or nothing. An error raised by `chunks` is raised here."""
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
        """Reads the bytes from `start` to before `end` in slices, so that a slow reader holds no request open.

        `size_bytes` is the size of the object: some servers ignore a range that covers everything.
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
        """Deletes the object and the parts of an interrupted write. A missing object is no error."""
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
            # Not chained: a traceback must not show the message of the store.
            raise unavailable(_AWAY) from None

    def _without_secrets(self, text: str) -> str:
        """The first line of the message without quoted answers, queries and secrets."""
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
    """Only on request: for a store on the same machine or in a private network."""
    given = [
        options.get("allow_http", ""),
        *(os.environ.get(f"{cloud}ALLOW_HTTP", "") for cloud in _CLOUD_VARIABLES),
    ]
    return any(word.lower() in ("true", "1", "yes") for word in given)


def _secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    """Longest first, so that a secret which contains another is masked as a whole."""
    named = {**{n: v for n, v in os.environ.items() if n.startswith(_CLOUD_VARIABLES)}, **options}
    found = {value for name, value in named.items() if _SECRET_NAME.search(name) and len(value) >= 4}
    return tuple(sorted(found, key=len, reverse=True))


async def _watched(chunks: AsyncIterator[bytes], broken: list[Exception]) -> AsyncIterator[bytes]:
    """Remembers the error that the source raised, because the store wraps it in its own."""
    try:
        async for chunk in chunks:
            if chunk:
                yield chunk
    except Exception as error:
        broken.append(error)
        raise


def _flush(folder: Path, key: str) -> None:
    """Flushes the file and its folders to disk: a row must never outlive its object in a crash."""
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
    """Deletes the parts of a write whose process died: the same name with a number appended."""
    target = folder / key
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(target.parent):
            if entry.name.startswith(f"{target.name}#"):
                os.unlink(entry.path)
