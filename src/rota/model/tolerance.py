"""How long a start may be delayed, and who said so. Pure.

A task is late only by a tolerance that somebody gave. How long such work usually takes is nobody's wish: it may move a
task ahead in the queue of its tenant, but makes nothing late.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

PATIENCE = 30  # a tolerance that follows from a run time is this many times as long
UNGIVEN_MS = 3_600_000  # tasks without a tolerance are ordered as if they had this one


class ToleranceSource(enum.IntEnum):
    """Stored as numbers, which never change meaning."""

    GIVEN = 1  # by the client
    CATEGORY = 2
    CAP = 3  # follows from a given cap
    PLAN = 4  # the default of the tenant's plan
    NONE = 5  # nobody gave one

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Tolerance:
    order_ms: int  # the task's place in the queue: so long after it became ready
    leeway_ms: int | None  # it is late so much after that; None: never
    source: ToleranceSource

    @property
    def is_own(self) -> bool:
        """Whether it was given to this very task. Only then is the task promoted, and a late start told."""
        return self.source in (ToleranceSource.GIVEN, ToleranceSource.CATEGORY)


def given(tolerance_ms: int, source: ToleranceSource) -> Tolerance:
    return Tolerance(tolerance_ms, 0, source)


def default(plan_ms: int | None, typical_us: int | None) -> Tolerance:
    """The plan's. Tasks that usually end soon come first among equals: by at most half of the tolerance.

    So a task with an earlier time of its own is not overtaken by tasks that are merely short.
    """
    whole_ms = UNGIVEN_MS if plan_ms is None else plan_ms
    half_ms = whole_ms // 2
    sooner_ms = 0 if typical_us is None else half_ms - min(half_ms, PATIENCE * typical_us // 1000)
    if plan_ms is None:
        return Tolerance(whole_ms - sooner_ms, None, ToleranceSource.NONE)
    return Tolerance(whole_ms - sooner_ms, sooner_ms, ToleranceSource.PLAN)


def whole_ms(order_ms: int, leeway_ms: int | None) -> int | None:
    """The tolerance as people read it; None: nobody gave one."""
    return None if leeway_ms is None else order_ms + leeway_ms
