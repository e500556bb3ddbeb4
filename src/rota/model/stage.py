"""A finished stage of a task: its name, its number, and the line by which a script reports it.

The line comes from a file that the task can write, the structure from a node: the same rules hold for both.
"""

from __future__ import annotations

import re

import msgspec

MOST_STAGES = 100
STAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
LONGEST_LINE_BYTES = 128
_LINE = re.compile(rf"stage (\d{{1,3}})/(\d{{1,3}}) ({STAGE_NAME.pattern})\n?", re.ASCII)


class StageDone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    number: int  # from 1
    count: int


def stage_of(line: bytes) -> StageDone | None:
    """Parses `stage 2/3 train`; None: the line reports no stage."""
    found = _LINE.fullmatch(line.decode("utf-8", "replace"))
    if found is None:
        return None
    stage = StageDone(name=found[3], number=int(found[1]), count=int(found[2]))
    return stage if stage_fault(stage) is None else None


def stage_fault(stage: StageDone) -> str | None:
    """What is wrong with the stage; None: nothing."""
    if not STAGE_NAME.fullmatch(stage.name):
        return f"{stage.name[:80]!r} is not a stage's name: letters, digits, . - and _, at most 100"
    if not 1 <= stage.number <= stage.count <= MOST_STAGES:
        return f"a task has 1 to {MOST_STAGES} stages; {stage.number} of {stage.count} is not one of them"
    return None
