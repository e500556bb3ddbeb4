"""Tables of artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, exact, facts, size, table
from rota.model.answers import artifacts as documents
from rota.model.answers.tasks import OutputDocument
from rota.model.artifact import short_identity


def artifacts(answer: documents.ArtifactPage) -> str:
    now = datetime.now(UTC)
    columns = ("ID", "SIZE>", "NAME~", "BY?", "CREATED>", "KEPT>")
    rows = [
        (
            one.short_id,
            size(one.size_bytes),
            one.name or NOTHING,
            one.created_by,
            ago(one.created_at, now),
            _kept(one, now),
        )
        for one in answer.artifacts
    ]
    drawn = table(columns, rows, empty="no artifacts: store one with rota upload FILE")
    return f"{drawn}\nmore: the same with --cursor {answer.next}" if answer.next else drawn


def outputs(found: Sequence[OutputDocument], *, why_none: str) -> str:
    columns = ("NAME~", "SIZE>", "ARTIFACT")
    rows = [(one.name, size(one.size_bytes), short_identity(one.sha256)) for one in found]
    return table(columns, rows, empty=f"no outputs: {why_none}")


def artifact(one: documents.ArtifactDocument) -> str:
    return facts(
        (
            ("artifact", one.id),
            ("name", one.name),
            ("size", f"{size(one.size_bytes)} ({one.size_bytes} bytes)"),
            ("by", one.created_by),
            ("created", exact(one.created_at)),
            ("kept until", "forever" if one.kept_until is None else exact(one.kept_until)),
        )
    )


def _kept(one: documents.ArtifactDocument, now: datetime) -> str:
    return "forever" if one.kept_until is None else ago(one.kept_until, now)
