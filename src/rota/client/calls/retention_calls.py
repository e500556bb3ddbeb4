"""The requests about retention: how long tasks, logs, events and deliveries are kept."""

from __future__ import annotations

from collections.abc import Mapping

from rota.client.calls.call import Call, get, patch
from rota.model.answers.retention import RetentionDocument


def retention() -> Call[RetentionDocument]:
    return get("/v1/retention", RetentionDocument)


def change_retention(changes: Mapping[str, int | None]) -> Call[RetentionDocument]:
    return patch("/v1/retention", RetentionDocument, changes)
