"""The requests about artifacts; an upload and a download keep their state here.

An `Upload` opens its source for every try and compares the digest that the server computed. A `Download` resumes where
a broken answer ended, and checks the digest of the whole. Neither connects: the transports do.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from rota.client.calls.call import Call, delete, get, reader
from rota.client.errors import RotaError
from rota.client.options import TaskSpec, local_files, with_artifacts
from rota.model.answers.artifacts import ArtifactDocument, ArtifactPage
from rota.model.artifact import identity
from rota.model.request.preview_request import PlannedUpload

PIECE_BYTES = 256 * 1024

Source = str | os.PathLike[str] | bytes | BinaryIO  # a path, the bytes, or an open file, which is read once
Progress = Callable[[int, int | None], None]  # bytes so far, and the total if it is known


def artifacts(*, limit: int | None = None, cursor: str | None = None) -> Call[ArtifactPage]:
    return get("/v1/artifacts", ArtifactPage, {"limit": limit, "cursor": cursor})


def artifact(reference: str) -> Call[ArtifactDocument]:
    """By its digest, or the first eight or more digits."""
    return get(f"/v1/artifacts/{quote(reference, safe=':')}", ArtifactDocument)


def remove_artifact(reference: str) -> Call[None]:
    return delete(f"/v1/artifacts/{quote(reference, safe=':')}")


class Upload:
    """One upload."""

    def __init__(self, source: Source, name: str | None, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._digest = hashlib.sha256()
        self._sent = 0
        if name is None:
            name = Path(source).name if isinstance(source, str | os.PathLike) else ""
        self.size_bytes = _size_of(source)
        self.call: Call[ArtifactDocument] = Call(
            "POST",
            "/v1/artifacts",
            reader(ArtifactDocument),
            query={"name": name} if name else {},
            # The same bytes are the same artifact, so they may be sent twice; an open file can't be read twice.
            repeatable=self.size_bytes is not None,
        )

    def pieces(self) -> Iterator[bytes]:
        """All pieces from the beginning, for one try."""
        self._digest, self._sent = hashlib.sha256(), 0
        file = self._open()
        try:
            while piece := file.read(PIECE_BYTES):
                self._digest.update(piece)
                self._sent += len(piece)
                yield piece
                self._progress(self._sent, self.size_bytes)
        finally:
            if file is not self._source:
                file.close()

    def planned(self) -> PlannedUpload:
        """What a preview tells of the file instead of sending it."""
        for _ in self.pieces():
            continue
        return PlannedUpload(
            sha256=self._digest.hexdigest(), size_bytes=self._sent, name=self.call.query.get("name", "")
        )

    def finish(self, made: ArtifactDocument) -> ArtifactDocument:
        if (made.sha256, made.size_bytes) != (self._digest.hexdigest(), self._sent):
            raise RotaError(f"the server stored {made.sha256}, which are not the bytes that were sent")
        return made

    def _open(self) -> BinaryIO:
        if isinstance(self._source, bytes):
            return io.BytesIO(self._source)
        if isinstance(self._source, str | os.PathLike):
            return Path(self._source).open("rb")
        return self._source


def planned_uploads(
    specs: Sequence[TaskSpec], progress: Progress | None = None
) -> tuple[list[TaskSpec], list[PlannedUpload]]:
    """The specs with the artifacts that their local files would become, for a preview: nothing is sent."""
    made, planned = {}, []
    for source, name in local_files(specs).items():
        one = Upload(source, name, progress or no_progress).planned()
        made[source] = identity(bytes.fromhex(one.sha256))
        planned.append(one)
    return [with_artifacts(spec, made) if made else spec for spec in specs], planned


class Download:
    """One download into an open file."""

    def __init__(self, wanted: ArtifactDocument, target: BinaryIO, progress: Progress) -> None:
        self._wanted = wanted
        self._target = target
        self._progress = progress
        self._digest = hashlib.sha256()
        self._got = 0

    def next_call(self) -> Call[bytes]:
        """Requests the missing bytes, by the whole digest: a shortened one may match several artifacts by now."""
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={self._got}-"} if self._got else {})}
        return Call("GET", f"/v1/artifacts/{self._wanted.sha256}/content", bytes, headers=headers, repeatable=True)

    def take(self, piece: bytes) -> None:
        self._target.write(piece)
        self._digest.update(piece)
        self._got += len(piece)
        self._progress(self._got, self._wanted.size_bytes)

    @property
    def complete(self) -> bool:
        return self._got >= self._wanted.size_bytes

    def finish(self) -> None:
        if self._digest.hexdigest() != self._wanted.sha256:
            raise RotaError(f"the bytes received are not {self._wanted.id}: the artifact is damaged")


def no_progress(_so_far: int, _of: int | None) -> None:
    """The default `progress`: shows nothing."""


def _size_of(source: Source) -> int | None:
    if isinstance(source, bytes):
        return len(source)
    if not isinstance(source, str | os.PathLike):
        return None
    status = os.stat(source)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise RotaError(f"{os.fspath(source)} is not a regular file; open it and pass the open file")
    return status.st_size
