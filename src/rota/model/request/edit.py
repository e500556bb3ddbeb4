"""Edits of a waiting task: the request, and the checked edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.catalogue import LaneRule

Amount = int | float | str

EDITABLE = ("priority", "lane", "cap", "tolerance", "pool", "at", "delay")


class EditRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields that are left out stay as they are. `version`: the version that was read, unless If-Match gives it."""

    priority: int | UnsetType = UNSET
    lane: str | UnsetType = UNSET
    cap: Amount | UnsetType = UNSET
    tolerance: Amount | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    delay: Amount | UnsetType = UNSET
    version: int | UnsetType = UNSET
    reason: str = ""  # of the change, for the task's history

    @property
    def empty(self) -> bool:
        return all(getattr(self, name) is UNSET for name in EDITABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The new values of a waiting task. None: unchanged."""

    priority: int | None = None
    lane: LaneRule | None = None
    cap_ms: int | None = None
    tolerance_ms: int | None = None
    pool: tuple[int, str] | None = None
    not_before: datetime | None = None
    at_once: bool = False  # its start time is now
