"""Editing a task that waits: what an owner may ask for, and what it means once it has been checked."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.catalogue import LaneRule

Amount = int | float | str


class EditRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields left out stay as they are. `version` is the one that was read, unless If-Match says it."""

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
    """What a waiting task is to become. None: that stays as it is."""

    priority: int | None = None
    lane: LaneRule | None = None
    cap_ms: int | None = None
    tolerance_ms: int | None = None
    pool: tuple[int, str] | None = None
