# Generated from ../_async by scripts/unasync; edit that.
"""`client.artifacts`: upload, download, list and remove files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

from rota.client._sync.transport import Transport
from rota.client.calls import artifact_calls
from rota.client.calls.artifact_calls import Download, Progress, Source, Upload, no_progress
from rota.client.transport.local_files import replaced_file
from rota.model.answers.artifacts import ArtifactDocument, ArtifactPage


class Artifacts:
    """`client.artifacts`: upload, get, download, receive, read, list, remove."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def upload(self, source: Source, *, name: str | None = None, progress: Progress = no_progress) -> ArtifactDocument:
        """Stores a file. The same bytes uploaded again are the same artifact."""
        upload = Upload(source, name, progress)
        return upload.finish(self._transport.upload(upload))

    def get(self, artifact: str) -> ArtifactDocument:
        """By its id `sha256:…`, or the first eight or more digits."""
        return self._transport.perform(artifact_calls.artifact(artifact))

    def download(self, artifact: str, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> Path:
        """Writes it to `path`. The file appears when it is complete and its digest is checked."""
        document = self.get(artifact)
        with replaced_file(Path(path)) as file:
            self._transport.download(Download(document, file, progress))
        return Path(path)

    def receive(self, wanted: ArtifactDocument, target: BinaryIO, *, progress: Progress = no_progress) -> None:
        """Writes it into an open file. If this raises, the bytes written so far must not be used."""
        self._transport.download(Download(wanted, target, progress))

    def read(self, artifact: str) -> bytes:
        """Its bytes, with their digest checked. All of them are in memory: for small artifacts."""
        file = io.BytesIO()
        self._transport.download(Download(self.get(artifact), file, no_progress))
        return file.getvalue()

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> ArtifactPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the one after it."""
        return self._transport.perform(artifact_calls.artifacts(limit=limit, cursor=cursor))

    def remove(self, artifact: str) -> None:
        self._transport.perform(artifact_calls.remove_artifact(artifact))
