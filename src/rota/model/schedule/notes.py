"""What a person should know about the runs of a schedule, in sentences. Pure."""

from __future__ import annotations

from rota.model.clock import shown_instant
from rota.model.schedule.schedule import Missed, Overlap, Schedule
from rota.model.units import duration_text

_OVERLAP = {
    Overlap.SKIP: "a run is skipped if the last one has not ended then",
    Overlap.QUEUE: "a run starts after the last one has ended",
    Overlap.REPLACE: "a run cancels the last one if that has not ended, and starts after it",
}
_MISSED = {
    Missed.SKIP: "runs missed while no server was up are skipped",
    Missed.ALL: "runs missed while no server was up are made later, the latest {limit}",
}


def notes_on(one: Schedule, *, changed: bool = False) -> list[str]:
    """`changed`: it would take the place of a schedule."""
    notes = []
    if one.paused:
        notes.append("it is paused: nothing runs until it is resumed")
    elif one.next_at is None:
        notes.append("it has ended: nothing runs any more")
    if one.jitter_ms:
        notes.append(f"each run starts up to {duration_text(one.jitter_ms)} after its time")
    if one.overlap in _OVERLAP:
        notes.append(_OVERLAP[one.overlap])
    if one.missed in _MISSED:
        notes.append(_MISSED[one.missed].format(limit=one.missed_limit))
    if one.at_most is not None:
        notes.append(f"at most {one.at_most} of its tasks run{'s' * (one.at_most == 1)} at once")
    if one.ends_at is not None:
        notes.append(f"no run is after {shown_instant(one.ends_at)}")
    if one.max_runs is not None:
        left = max(0, one.max_runs - one.runs)
        notes.append(f"it ends after {left} more run{'s' * (left != 1)}")
    if changed:
        notes.append("the change holds from the next run on; tasks of earlier runs stay as they are")
    return notes
