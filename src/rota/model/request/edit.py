"""Edits of a waiting task: the request, and the checked edit."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.catalogue import LaneRule

Amount = int | float | str


class EditRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields that are left out stay as they are. `version`: the version that was read, unless If-Match gives it."""

    priority: int | UnsetType = UNSET
    lane: str | UnsetType = UNSET
    cap: Amount | UnsetType = UNSET
    tolerance: Amount | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    version: int | UnsetType = UNSET

    @property
    def empty(self) -> bool:
        fields = (self.priority, self.lane, self.cap, self.tolerance, self.pool)
        return all(value is UNSET for value in fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The new values of a waiting task. None: unchanged."""

    priority: int | None = None
    lane: LaneRule | None = None
    cap_ms: int | None = None
    tolerance_ms: int | None = None
    pool: tuple[int, str] | None = None
