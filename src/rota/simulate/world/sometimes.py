"""Situations that a large run must reach at least once; otherwise it has tested less than it claims."""

from __future__ import annotations

EXPECTED = (
    *("fenced write rejected", "stale frame refused", "adoption after failover", "new leader waited the full grace"),
    *("epoch raised above a forgotten one", "frozen before re-dispatch"),
    *("an attempt was frozen", "a frozen attempt went on"),
    *("ambiguous commit, applied", "ambiguous commit, not applied"),
    *("result superseded", "fan-in race", "ready set spilled", "poison to dead letter"),
    *("a task became urgent", "a late retry rose", "a late task was dropped"),
    "a small task started before a big one",
    *("a limit was reached", "a limit changed", "a pool was paused", "a tenant was paused"),
    *("a node was paused", "a pause was confirmed", "rules changed before a start"),
    *("no place left of a key", "a key held by two pools", "a key cooled down"),
    *("cancel lost to success", "cancel won over success"),
    *("a waiting task was paused", "a running task was paused", "a paused task went on"),
    *("a waiting task was put on hold", "a waiting task was edited", "a waiting task moved to another pool"),
    *("DST gap", "DST fold", "a run was missed", "catch-up capped", "a ticker was fenced out"),
    *("the clock of schedules jumped", "a schedule was paused", "a schedule was edited"),
)


class Sometimes:
    def __init__(self) -> None:
        self.hits: dict[str, int] = {}

    def hit(self, situation: str) -> None:
        assert situation in EXPECTED, situation
        self.hits[situation] = self.hits.get(situation, 0) + 1
