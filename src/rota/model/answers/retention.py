"""How long ended tasks, logs, events and deliveries are kept."""

from __future__ import annotations

import msgspec


class RetentionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Days after the end; null: for ever."""

    tasks_days: int | None = None
    logs_days: int | None = None
    events_days: int | None = None
    deliveries_days: int | None = None
