"""How long things are kept: the calls and their answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rota.client.calls.task_calls import Call, get, patch


class RetentionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Days after the end; None: for ever."""

    tasks_days: int | None = None
    logs_days: int | None = None
    events_days: int | None = None
    deliveries_days: int | None = None


def retention() -> Call[RetentionDocument]:
    return get("/v1/retention", RetentionDocument)


def change_retention(changes: Mapping[str, int | None]) -> Call[RetentionDocument]:
    return patch("/v1/retention", RetentionDocument, changes)
