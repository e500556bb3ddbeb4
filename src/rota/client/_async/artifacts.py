"""`client.artifacts`: upload, download, list and remove files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

from rota.client._async.transport import AsyncTransport
from rota.client.calls import artifact_calls
from rota.client.calls.artifact_calls import Download, Progress, Source, Upload, no_progress
from rota.client.transport.local_files import replaced_file
from rota.model.answers.artifacts import ArtifactDocument, ArtifactPage


class AsyncArtifacts:
    """`client.artifacts`: upload, get, download, receive, read, list, remove."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def upload(
        self, source: Source, *, name: str | None = None, progress: Progress = no_progress
    ) -> ArtifactDocument:
        """Stores a file. The same bytes uploaded again are the same artifact."""
        upload = Upload(source, name, progress)
        return upload.finish(await self._transport.upload(upload))

    async def get(self, artifact: str) -> ArtifactDocument:
        """By its id `sha256:…`, or the first eight or more digits."""
        return await self._transport.perform(artifact_calls.artifact(artifact))

    async def download(self, artifact: str, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> Path:
        """Writes it to `path`. The file appears when it is complete and its digest is checked."""
        document = await self.get(artifact)
        with replaced_file(Path(path)) as file:
            await self._transport.download(Download(document, file, progress))
        return Path(path)

    async def receive(self, wanted: ArtifactDocument, target: BinaryIO, *, progress: Progress = no_progress) -> None:
        """Writes it into an open file. If this raises, the bytes written so far must not be used."""
        await self._transport.download(Download(wanted, target, progress))

    async def read(self, artifact: str) -> bytes:
        """Its bytes, with their digest checked. All of them are in memory: for small artifacts."""
        file = io.BytesIO()
        await self._transport.download(Download(await self.get(artifact), file, no_progress))
        return file.getvalue()

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> ArtifactPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the one after it."""
        return await self._transport.perform(artifact_calls.artifacts(limit=limit, cursor=cursor))

    async def remove(self, artifact: str) -> None:
        await self._transport.perform(artifact_calls.remove_artifact(artifact))
