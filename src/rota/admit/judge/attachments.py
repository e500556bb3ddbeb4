"""Judges a task's artifacts, files and outputs. Pure: the tenant's artifacts were read before, once for the request.

Names of artifacts become whole digests here, so that the stored spec names exact bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.admit.judge.facts import Facts, KnownArtifact
from rota.model.artifact import digits_of, identity
from rota.model.errors import FaultList
from rota.model.request import needs
from rota.model.request.interpreters import interpreter_by_suffix
from rota.model.request.structure import pointer_part
from rota.model.request.task_request import TaskRequest
from rota.model.task import Kind


@dataclass(frozen=True, slots=True)
class Attached:
    digests: tuple[bytes, ...] = ()
    program: str = ""  # the name of the uploaded program
    spec: dict[str, object] = field(default_factory=dict)  # the fields as they are stored


NOTHING = Attached()


def references_in(requests: Sequence[TaskRequest]) -> list[str]:
    """The digits of every artifact that the requests name, each once. `attached_of` reports malformed names."""
    named = {
        name
        for request in requests
        if request.files or request.upload is not None or request.archive is not None or request.package is not None
        for name in (request.upload, request.archive, request.package, *request.files.values())
    }
    return sorted({digits for name in named if name is not None and (digits := digits_of(name)) is not None})


def attached_of(request: TaskRequest, kind: Kind | None, facts: Facts, faults: FaultList) -> Attached:
    needs.check_artifact_names(request, faults)
    if request.package is not None:
        return _packed(request, request.package, kind, facts, faults)
    if request.upload is None and request.archive is None and not request.files and not request.outputs:
        return NOTHING
    if kind is Kind.FUNCTION:
        needs.check_no_folder(request, faults)
        return NOTHING
    spec: dict[str, object] = {}
    used: dict[bytes, None] = {}
    program = ""
    for name in ("upload", "archive"):
        named: str | None = getattr(request, name)
        if named is None:
            continue
        found = _found(named, name, facts, faults)
        if found is not None:
            spec[name] = identity(found.digest)
            used[found.digest] = None
            program = found.name if name == "upload" else program
    if program and request.interpreter is None:
        chosen = interpreter_by_suffix(program)
        spec |= {} if chosen is None else {"interpreter": chosen}
    if request.files:
        spec["files"] = _files(request, facts, used, faults)
    if request.outputs:
        needs.check_outputs(request, faults)
        spec["outputs"] = list(dict.fromkeys(request.outputs))
    return Attached(tuple(used), program, spec)


def _packed(request: TaskRequest, named: str, kind: Kind | None, facts: Facts, faults: FaultList) -> Attached:
    if not needs.check_package(request, kind, faults):
        return NOTHING
    found = _found(named, "package", facts, faults)
    return NOTHING if found is None else Attached((found.digest,), spec={"package": identity(found.digest)})


def _files(request: TaskRequest, facts: Facts, used: dict[bytes, None], faults: FaultList) -> dict[str, str]:
    needs.check_files(request, faults)
    files: dict[str, str] = {}
    for path, named in request.files.items() if len(request.files) <= needs.MOST_FILES else ():
        found = _found(named, f"files/{pointer_part(path[:80])}", facts, faults)
        if found is not None:
            files[path] = identity(found.digest)
            used[found.digest] = None
    return files


def _found(named: str, pointer: str, facts: Facts, faults: FaultList) -> KnownArtifact | None:
    digits = digits_of(named)
    if digits is None:
        return None  # `check_artifact_names` has reported it
    found = facts.artifacts.get(digits, ())
    if len(found) == 1:
        return found[0]
    if found:
        faults.add(pointer, "unknown-artifact", f"several artifacts begin with {digits}; give more of its digits")
    else:
        faults.add(pointer, "unknown-artifact", f"there is no artifact {named[:80]}; rota upload FILE creates one")
    return None
