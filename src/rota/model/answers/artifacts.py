"""Artifacts: stored files, one by one and in pages."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time
from rota.model.artifact import short_identity


class ArtifactDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file. `kept_until` null: for ever."""

    id: str  # sha256:… with all its digits
    sha256: str
    size_bytes: int = 0
    name: str = ""
    created_by: str = ""
    created_at: Time | None = None
    kept_until: Time | None = None

    @property
    def short_id(self) -> str:
        """For people; accepted wherever an artifact is named."""
        return short_identity(self.sha256)


class ArtifactPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    artifacts: list[ArtifactDocument]
    next: str | None = None
