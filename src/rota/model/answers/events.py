"""Events: changes of tasks and schedules, as the stream and the webhooks send them."""

from __future__ import annotations

import msgspec

from rota.model.stage import StageDone


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `id` is its place in the log: give it as `after` to go on behind it."""

    id: str
    type: str
    at: str
    task: int | None = None
    name: str | None = None
    attempt: int | None = None
    node: str | None = None
    state: str | None = None
    outcome: str | None = None
    limit: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    retry_after: float | None = None
    stage: StageDone | None = None
    schedule: str | None = None
    scheduled_for: str | None = None
    until: str | None = None
    tags: dict[str, str] = {}
