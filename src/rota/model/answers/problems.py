"""Refusals and failures, as RFC 9457 problem documents."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent


class FieldFault(msgspec.Struct, frozen=True):
    """One fault of a request: the field (a JSON pointer), a stable code, and what would be right."""

    pointer: str = ""
    code: str = ""
    detail: str = ""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The last part of `type` is stable: programs match on it. `detail` is a sentence for people."""

    type: str = ""
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    errors: MayBeAbsent[list[FieldFault]] = []
    retry_after: MayBeAbsent[float | None] = None  # seconds
    version: MayBeAbsent[int | None] = None  # the present one, of a changed task or schedule
    needed: MayBeAbsent[str | None] = None  # the scope that the caller lacks
    retried_as: MayBeAbsent[int | None] = None
    state: MayBeAbsent[str | None] = None  # of a task that has ended already
    idempotency_key: MayBeAbsent[str | None] = None  # the one in use
    allowed_now: MayBeAbsent[float | None] = None  # tasks that the plan admits at the moment
    asked: MayBeAbsent[int | None] = None  # tasks in the request
    limit: MayBeAbsent[str | None] = None  # of the plan, that was reached
    most: MayBeAbsent[int | None] = None  # what it allows
    size_bytes: MayBeAbsent[int | None] = None
    used_bytes: MayBeAbsent[int | None] = None
    storage_bytes: MayBeAbsent[int | None] = None
