"""Events: changes of tasks and schedules, as streams and webhooks send them."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time
from rota.model.stage import StageDone


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Its `id` is its position in the stream: `after` it, the stream goes on with the next event."""

    id: str
    type: str
    at: Time
    task: MayBeAbsent[int | None] = None
    name: MayBeAbsent[str | None] = None
    attempt: MayBeAbsent[int | None] = None
    node: MayBeAbsent[str | None] = None
    state: MayBeAbsent[str | None] = None
    outcome: MayBeAbsent[str | None] = None
    limit: MayBeAbsent[str | None] = None
    exit_code: MayBeAbsent[int | None] = None
    reason: MayBeAbsent[str | None] = None
    retry_after: MayBeAbsent[float | None] = None
    stage: MayBeAbsent[StageDone | None] = None
    user: MayBeAbsent[str | None] = None
    changes: MayBeAbsent[dict[str, tuple[Any, Any]] | None] = None
    schedule: MayBeAbsent[str | None] = None
    scheduled_for: MayBeAbsent[Time | None] = None
    until: MayBeAbsent[Time | None] = None
    tags: MayBeAbsent[dict[str, str]] = {}
