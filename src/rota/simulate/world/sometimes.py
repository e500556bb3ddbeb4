"""Situations that a large run must reach at least once; otherwise it has tested less than it claims."""

from __future__ import annotations

EXPECTED = (
    "fenced write rejected",
    "stale frame refused",
    "adoption after failover",
    "ambiguous commit, applied",
    "ambiguous commit, not applied",
    "result superseded",
    "self-kill before re-dispatch",
    "fan-in race",
    "a limit was reached",
    "a task became urgent",
    "a late retry rose",
    "a late task was dropped",
    "a limit changed",
    "a pool was paused",
    "a tenant was paused",
    "a waiting task was put on hold",
    "no place left of a key",
    "a key held by two pools",
    "a key cooled down",
    "ready set spilled",
    "poison to dead letter",
    "cancel lost to success",
    "cancel won over success",
    "a waiting task was paused",
    "a running task was paused",
    "a paused task went on",
    "a waiting task was edited",
    "a waiting task moved to another pool",
    "epoch raised above a forgotten one",
    "new leader waited the full grace",
    "DST gap",
    "DST fold",
    "a run was missed",
    "catch-up capped",
    "a ticker was fenced out",
    "the clock of schedules jumped",
    "a schedule was paused",
    "a schedule was edited",
)


class Sometimes:
    def __init__(self) -> None:
        self.hits: dict[str, int] = {}

    def hit(self, situation: str) -> None:
        assert situation in EXPECTED, situation
        self.hits[situation] = self.hits.get(situation, 0) + 1
