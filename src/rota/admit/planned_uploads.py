"""Judges the uploads of a preview: their sizes and names, as the uploads themselves would be judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.admit.artifacts import Artifacts
from rota.admit.judge.facts import KnownArtifact
from rota.model.artifact import name_fault
from rota.model.errors import Fault, Problem, invalid
from rota.model.request.preview_request import PlannedUpload
from rota.model.tenant import Caller

MOST_UPLOADS = 10_000
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JudgedUploads:
    """`refusals`: limits that would refuse the uploads now but may not later."""

    artifacts: tuple[KnownArtifact, ...] = ()
    stored: frozenset[bytes] = frozenset()
    refusals: list[Problem] = field(default_factory=list)


async def judge_uploads(artifacts: Artifacts, caller: Caller, uploads: Sequence[PlannedUpload]) -> JudgedUploads:
    """Raises a Problem with every fault, or because such a file could never be stored."""
    if not uploads:
        return JudgedUploads()
    faults = [fault for index, one in enumerate(uploads) for fault in _faults(one, f"/uploads/{index}")]
    if len(uploads) > MOST_UPLOADS:
        faults.append(Fault("/uploads", "out-of-range", f"{len(uploads)} files; at most {MOST_UPLOADS}"))
    if faults:
        raise invalid(faults[:100])
    known = known_uploads(uploads)
    sizes = {bytes.fromhex(one.sha256): one.size_bytes for one in uploads}
    try:
        return JudgedUploads(known, await artifacts.check_planned(caller, sizes))
    except Problem as refusal:
        if refusal.status != 429:
            raise
        return JudgedUploads(known, refusals=[refusal])


def known_uploads(uploads: Sequence[PlannedUpload]) -> tuple[KnownArtifact, ...]:
    """The artifacts that there would be; a malformed digest makes none."""
    return tuple(KnownArtifact(bytes.fromhex(one.sha256), one.name) for one in uploads if _DIGEST.fullmatch(one.sha256))


def _faults(one: PlannedUpload, pointer: str) -> list[Fault]:
    faults = []
    if not _DIGEST.fullmatch(one.sha256):
        detail = f"{one.sha256[:80]!r} is not a digest: 64 digits from 0 to 9 and a to f"
        faults.append(Fault(f"{pointer}/sha256", "invalid-type", detail))
    if one.size_bytes < 0:
        faults.append(Fault(f"{pointer}/size_bytes", "out-of-range", f"{one.size_bytes} is below zero"))
    fault = name_fault(one.name) if one.name else None
    if fault is not None:
        faults.append(Fault(f"{pointer}/name", "invalid-name", fault))
    return faults
