"""The server's answers about artifacts. The companion of `documents.py`; the same rules hold."""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.artifact import short_identity


class ArtifactDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file. `kept_until` None: for ever."""

    id: str  # sha256:… with all its digits
    sha256: str
    size_bytes: int = 0
    name: str = ""
    created_by: str = ""
    created_at: datetime | None = None
    kept_until: datetime | None = None

    @property
    def short_id(self) -> str:
        """For people; accepted wherever an artifact is named."""
        return short_identity(self.sha256)


class ArtifactPage(msgspec.Struct, frozen=True, kw_only=True):
    artifacts: list[ArtifactDocument]
    next: str | None = None
