"""What a task brings along and leaves behind: the artifacts it names, where their files go, which outputs are kept.

Names of artifacts become whole digests here, so that what is stored says exactly which bytes it means. Pure: which
artifacts the tenant has was looked up before, once for the whole request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.admit.facts import KnownArtifact, World
from rota.model.artifact import digits_of, identity, path_fault, reserved_fault
from rota.model.errors import FaultList
from rota.model.request import TaskRequest
from rota.model.structure import pointer_part
from rota.model.task import Kind

MOST_FILES = 100
MOST_PATTERNS = 100


@dataclass(frozen=True, slots=True)
class Attached:
    digests: tuple[bytes, ...] = ()
    program: str = ""  # what the uploaded program is called
    spec: dict[str, object] = field(default_factory=dict)  # the fields as they are stored


NOTHING = Attached()


def references_in(requests: Sequence[TaskRequest]) -> list[str]:
    """The digits of every artifact that is named, each once; malformed names are left to `attached_of`."""
    named = {
        name
        for request in requests
        if request.files or request.upload is not None or request.archive is not None or request.package is not None
        for name in (request.upload, request.archive, request.package, *request.files.values())
    }
    return sorted({digits for name in named if name is not None and (digits := digits_of(name)) is not None})


def attached_of(request: TaskRequest, kind: Kind | None, world: World, faults: FaultList) -> Attached:
    if request.package is not None:
        return _packed(request, request.package, kind, world, faults)
    if request.upload is None and request.archive is None and not request.files and not request.outputs:
        return NOTHING
    if kind is Kind.FUNCTION:
        _no_folder(request, faults)
        return NOTHING
    spec: dict[str, object] = {}
    used: dict[bytes, None] = {}
    program = ""
    for name in ("upload", "archive"):
        named: str | None = getattr(request, name)
        if named is None:
            continue
        found = _found(named, name, world, faults)
        if found is not None:
            spec[name] = identity(found.digest)
            used[found.digest] = None
            program = found.name if name == "upload" else program
    if request.files:
        spec["files"] = _files(request, world, used, faults)
    if request.outputs:
        spec["outputs"] = _outputs(request, faults)
    return Attached(tuple(used), program, spec)


def _packed(request: TaskRequest, named: str, kind: Kind | None, world: World, faults: FaultList) -> Attached:
    if kind is not Kind.FUNCTION:
        faults.add("package", "invalid-command", "a package is a function's code; other work brings an archive")
        return NOTHING
    _no_folder(request, faults)
    found = _found(named, "package", world, faults)
    return NOTHING if found is None else Attached((found.digest,), spec={"package": identity(found.digest)})


def _no_folder(request: TaskRequest, faults: FaultList) -> None:
    for name in ("files", "archive", "outputs"):
        if getattr(request, name):
            faults.add(name, "invalid-command", f"a function has no folder of its own; {name} go with other work")


def _files(request: TaskRequest, world: World, used: dict[bytes, None], faults: FaultList) -> dict[str, str]:
    if len(request.files) > MOST_FILES:
        faults.add("files", "out-of-range", f"a task brings at most {MOST_FILES} files; put them into an archive")
        return {}
    files: dict[str, str] = {}
    for path, named in request.files.items():
        pointer = f"files/{pointer_part(path[:80])}"
        fault = path_fault(path)
        if fault is not None:
            faults.add(pointer, "invalid-path", f"{path[:80]!r} is no path within the work folder: {fault}")
        elif (reserved := reserved_fault(path)) is not None:
            faults.add(pointer, "invalid-path", f"{path[:80]!r}: {reserved}")
        elif any(f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/") for other in files):
            faults.add(pointer, "invalid-path", f"{path[:80]!r} is a file and a folder")
        found = _found(named, pointer, world, faults)
        if found is not None:
            files[path] = identity(found.digest)
            used[found.digest] = None
    return files


def _outputs(request: TaskRequest, faults: FaultList) -> list[str]:
    if len(request.outputs) > MOST_PATTERNS:
        faults.add("outputs", "out-of-range", f"at most {MOST_PATTERNS} patterns, not {len(request.outputs)}")
    for place, pattern in enumerate(request.outputs[:MOST_PATTERNS]):
        fault = path_fault(pattern)
        if fault is not None:
            faults.add(
                f"outputs/{place}", "invalid-path", f"{pattern[:80]!r} is no pattern within the work folder: {fault}"
            )
        elif pattern.count("**") > 1 or any("**" in part and part != "**" for part in pattern.split("/")):
            faults.add(
                f"outputs/{place}", "invalid-path", f"{pattern[:80]!r}: ** stands once, and alone between slashes"
            )
    return list(dict.fromkeys(request.outputs))


def _found(named: str, pointer: str, world: World, faults: FaultList) -> KnownArtifact | None:
    digits = digits_of(named)
    if digits is None:
        faults.add(
            pointer, "unknown-artifact", f"{named[:80]!r} is not an artifact; write sha256:… or 8 to 64 of its digits"
        )
        return None
    found = world.artifacts.get(digits, ())
    if len(found) == 1:
        return found[0]
    if found:
        faults.add(pointer, "unknown-artifact", f"several artifacts begin with {digits}; give more of its digits")
    else:
        faults.add(pointer, "unknown-artifact", f"there is no artifact {named[:80]}; rota upload FILE makes one")
    return None
