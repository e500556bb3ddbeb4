"""Reads `rota.yaml`, a file that describes one task or a graph, checks it without a server, and makes the requests.

A mapping with `tasks:` is a graph; any other mapping is one task; `schedule:` makes it recurring. `SECTIONS` are the
sections of a graph; the fields of a task are in `fields.py`, derived from `TaskRequest`. All faults are reported at
once, each with its line and column. Nothing here connects.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from rota.client.errors import ManifestError, ManifestFault, ManifestRefused, Refused
from rota.client.manifest.fields import (
    FIELDS,
    MANIFEST_ONLY,
    merged,
    rule_faults,
    task_faults,
    together_faults,
)
from rota.client.manifest.schedule import pointer_in_file, read_schedule
from rota.client.manifest.scripts import Scripts
from rota.client.manifest.tree import Unreadable, read_tree
from rota.client.manifest.values import Positions, read_values
from rota.client.transport.local_files import is_named_pipe
from rota.model.errors import Fault
from rota.model.graph import find_cycles
from rota.model.request.rules import MOST_SCRIPT_BYTES
from rota.model.request.structure import pointer_part, text_faults, unknown_field
from rota.model.request.task_request import MAX_BATCH, TaskRequest
from rota.model.schedule.request import ScheduleRequest
from rota.model.units import shown

SECTIONS = ("name", "schedule", "defaults", "tasks")
MOST_FAULTS = 100
LARGEST_REQUEST_BYTES = 32 * 1024 * 1024
TASK_NAME = re.compile(r"(?=.*\D)\w[\w-]{0,99}")  # not digits only: that would be an id

# Faults of a key, or of everything below it, are shown at the key.
_KEY_CODES = ("unknown-field", "variable-in-key", "invalid-name", "invalid-command", "not-by-default", "too-large")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a file. `names` are the names of a graph's tasks; empty when the file is one task.

    `schedule`: the schedule to make, with its name; None: the tasks are submitted once.
    """

    file: str
    name: str | None
    names: tuple[str, ...]
    tasks: tuple[TaskRequest, ...]
    positions: Positions
    schedule: ScheduleRequest | None = None

    @property
    def is_graph(self) -> bool:
        return bool(self.names)

    @property
    def graph_name(self) -> str:
        return self.name or Path(self.file).stem[:200].strip() or "graph"

    def labels(self) -> tuple[str, ...]:
        """A name for each task: its name in the graph; of a single task its `name`, else "task"."""
        return self.names or (self.tasks[0].name or "task",)

    def located(self, refusal: Refused, *, of_schedule: bool = False) -> ManifestRefused:
        """A server's refusal with the positions of its faults in the file. `of_schedule`: it refused the schedule."""
        faults = [
            self._in_file(pointer_in_file(fault.pointer) if of_schedule else fault.pointer, fault.code, fault.detail)
            for fault in refusal.faults
        ]
        return ManifestRefused(refusal, tuple(faults))

    def _in_file(self, pointer: str, code: str, detail: str) -> ManifestFault:
        pointer = _by_name(pointer, self.names, self.positions)
        return _located(Fault(pointer, code, detail), self.file, self.positions)


def load_manifest(source: str | Path, variables: Mapping[str, str] | None = None) -> Manifest:
    """A manifest from the path of a file, or from its text: a `str` with a line break, or that begins with `{`."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        text = source.encode(errors="surrogatepass")
        return read_manifest(text, file="manifest", folder=Path(), variables=variables or {})
    path = Path(source)
    if is_named_pipe(path):
        raise _file_error(path, "is a named pipe; read it with -f - < PIPE")
    try:
        with path.open("rb") as opened:
            data = opened.read(2**22 + 1)  # one byte over the limit
    except FileNotFoundError:
        raise _file_error(path, "no such file") from None
    except IsADirectoryError:
        raise _file_error(path, "a directory, not a file") from None
    except (OSError, ValueError) as error:
        raise _file_error(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return read_manifest(data, file=str(source), folder=path.parent, variables=variables or {})


def read_manifest(data: bytes, *, file: str, folder: Path, variables: Mapping[str, str]) -> Manifest:
    """The manifest in these bytes. Its script files are read from `folder`."""
    try:
        tree = read_tree(data, is_json=file.endswith(".json") or (data.lstrip()[:1] == b"{" and _is_json(data)))
    except Unreadable as error:
        line, column = error.mark.line, error.mark.column
        fault = ManifestFault(file=file, line=line, column=column, code="unreadable", detail=error.detail)
        raise ManifestError((fault,)) from None
    parsed = read_values(tree, variables)
    reader = _Reader(Scripts(folder), parsed.positions)
    reader.faults += [*parsed.faults, *text_faults(parsed.value)]
    named = reader.read(parsed.value)
    name = parsed.value.get("name") if reader.is_graph else None
    names = tuple(named) if reader.is_graph else ()
    manifest = Manifest(file, name, names, tuple(named.values()), parsed.positions)
    if isinstance(parsed.value, dict) and parsed.value.get("schedule") is not None:
        manifest = reader.with_schedule(manifest, parsed.value["schedule"], parsed.value.get("name"))
    if reader.faults:
        raise _error(reader.faults, file, parsed.positions)
    return manifest


class _Reader:
    """Collects faults; the result of `read` is complete only if there are none."""

    def __init__(self, scripts: Scripts, positions: Positions) -> None:
        self.faults: list[Fault] = []
        self._positions = positions
        self.is_graph = False
        self._scripts = scripts
        self._request_bytes = 0

    def read(self, value: Any) -> dict[str, TaskRequest]:
        if not isinstance(value, dict):
            self._fault("", "invalid-type", "a manifest is a mapping: command: [echo, hi], or tasks: for a graph")
            return {}
        self.is_graph = "tasks" in value or "defaults" in value
        return self._graph(value) if self.is_graph else self._one(value)

    def with_schedule(self, manifest: Manifest, section: Any, name: Any) -> Manifest:
        """`name`: as it is written, for a task that has faults and is not in the manifest."""
        faults: list[Fault] = []
        written = name if isinstance(name, str) else "task"
        called = manifest.graph_name if self.is_graph else manifest.tasks[0].name if manifest.tasks else written
        whole = () if self.faults else manifest.tasks
        schedule = read_schedule(section, whole, is_graph=self.is_graph, name=called, faults=faults)
        self.faults += [
            Fault(_by_name(fault.pointer, manifest.names, manifest.positions), fault.code, fault.detail)
            for fault in faults
        ]
        return replace(manifest, schedule=schedule)

    def _one(self, task: dict[str, Any]) -> dict[str, TaskRequest]:
        task = {name: value for name, value in task.items() if name != "schedule"}
        self.faults += [*task_faults(task, "", also=SECTIONS), *together_faults(task, "")]
        self._add_rules(rule_faults(task, ""))
        for field, index, name in _named_parents(task):
            detail = f"{name[:80]!r} is not a task's id; only tasks of the same graph are referenced by name"
            self._fault(f"/{field}/{index}", "unknown-dependency", detail)
        request = self._request(task, "")
        return {} if request is None else {"": request}

    def _graph(self, value: dict[str, Any]) -> dict[str, TaskRequest]:
        defaults, tasks, name = value.get("defaults"), value.get("tasks"), value.get("name")
        for key in value:
            if key in FIELDS and key not in SECTIONS:
                detail = f"{key} is a field of a task: put it into one, or into defaults for all"
                self._fault(f"/{key}", "unknown-field", detail)
            elif key not in SECTIONS:
                self._fault(f"/{pointer_part(key)}", "unknown-field", unknown_field(key, SECTIONS))
        if name is not None and not (isinstance(name, str) and 0 < len(name.strip()) <= 200):
            self._fault("/name", "invalid-type", f"{shown(name)} is not a name: a text of 1 to 200 characters")
        if defaults is not None:
            self.faults += task_faults(defaults, "/defaults", default=True)
        if not isinstance(tasks, dict):
            self._fault(
                "/tasks", "invalid-type", "tasks is a mapping of names to tasks: extract: {command: [./extract.sh]}"
            )
            return {}
        if not 1 <= len(tasks) <= MAX_BATCH:
            self._fault("/tasks", "out-of-range", f"a graph has 1 to {MAX_BATCH:,} tasks, not {len(tasks):,}")
            return {}
        base = defaults if isinstance(defaults, dict) else {}
        wholes = {key: self._whole(key, task, base, name) for key, task in tasks.items()}
        self._check_order({key: whole for key, whole in wholes.items() if whole is not None})
        self._check_rules(list(wholes.values()), list(tasks))
        requests: dict[str, TaskRequest] = {}
        for key, whole in wholes.items():
            request = None if whole is None else self._request(whole, f"/tasks/{pointer_part(key)}", ref=key)
            if request is not None:
                requests[key] = request
        return requests

    def _whole(self, key: str, task: Any, defaults: dict[str, Any], graph: Any) -> dict[str, Any] | None:
        """One task of a graph with its defaults; None when it is not a mapping."""
        pointer = f"/tasks/{pointer_part(key)}"
        if not TASK_NAME.fullmatch(key):
            rule = "letters, digits, - and _, at most 100, not digits only"
            self._fault(pointer, "invalid-name", f"{key[:80]!r} is not a task's name: {rule}")
        self.faults += task_faults(task, pointer)
        if not isinstance(task, dict):
            return None
        whole = merged(defaults, task)
        self.faults += together_faults(whole, pointer)
        whole.setdefault("name", key)
        if isinstance(graph, str) and isinstance(whole.get("tags", {}), dict):
            whole["tags"] = {"graph": graph, **whole.get("tags", {})}
        return whole

    def _check_rules(self, wholes: list[dict[str, Any] | None], names: list[str]) -> None:
        """Applies the rules of admission. A fault of the defaults is shown there, once."""
        for index, whole in enumerate(wholes):
            given = {name: value for name, value in (whole or {}).items() if (name, value) != ("name", names[index])}
            self._add_rules(
                Fault(_by_name(fault.pointer, names, self._positions), fault.code, fault.detail)
                for fault in rule_faults(given, f"/tasks/{index}")
            )

    def _add_rules(self, faults: Iterable[Fault]) -> None:
        """Adds the faults of values that have none yet, neither themselves nor inside."""
        pointers = [fault.pointer for fault in self.faults]
        parents = {pointer[:end] for pointer in pointers for end, sign in enumerate(pointer) if sign == "/"}
        self.faults += [fault for fault in faults if fault.pointer not in parents and fault.pointer not in pointers]

    def _check_order(self, tasks: dict[str, dict[str, Any]]) -> None:
        index_of = {key: index for index, key in enumerate(tasks)}
        parents: list[list[int]] = []
        for key, task in tasks.items():
            own: list[int] = []
            for field, position, name in _named_parents(task):
                if name in index_of:
                    own.append(index_of[name])
                    continue
                near = difflib.get_close_matches(name, index_of, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {_first_few(list(tasks))}"
                detail = f"there is no task {name[:80]!r} in this file; {hint}"
                self._fault(f"/tasks/{pointer_part(key)}/{field}/{position}", "unknown-dependency", detail)
            parents.append(sorted(set(own)))
        keys = list(tasks)
        for cycle in find_cycles(parents):
            path = " → ".join(keys[index] for index in [*cycle, cycle[0]])
            pointer = f"/tasks/{pointer_part(keys[cycle[0]])}/after"
            self._fault(pointer, "dag-cycle", f"these wait for each other: {path}")

    def _request(self, task: dict[str, Any], pointer: str, ref: str | None = None) -> TaskRequest | None:
        """The request; None if there are faults, or if its script can't be read."""
        script, fault = self._scripts.of(task, pointer)
        if fault is not None:
            self.faults.append(fault)
        interpreter, fault = (None, None) if script is None else self._scripts.interpreter_of(task, script, pointer)
        if fault is not None:
            self.faults.append(fault)
        if self.faults:
            return None
        fields = {key: value for key, value in task.items() if value is not None and key not in MANIFEST_ONLY}
        if script is not None:
            fields["script"] = script
            fields |= {} if interpreter is None else {"interpreter": interpreter}
            if len(script.encode(errors="surrogatepass")) > MOST_SCRIPT_BYTES:
                detail = f"the script is larger than {MOST_SCRIPT_BYTES} bytes; upload it"
                self._fault(f"{pointer}/script", "invalid-command", detail)
        if ref is not None:
            fields["ref"] = ref
        encoded = msgspec.json.encode(fields)
        self._request_bytes += len(encoded)
        if self._request_bytes > LARGEST_REQUEST_BYTES:
            most = f"{LARGEST_REQUEST_BYTES // 2**20} MiB; defaults count once for each task"
            self._fault(pointer, "too-large", f"with this task the request is larger than {most}")
            return None
        try:
            return msgspec.json.decode(encoded, type=TaskRequest)
        except msgspec.MsgspecError as error:
            self._fault(pointer, "invalid-type", str(error))
            return None

    def _fault(self, pointer: str, code: str, detail: str) -> None:
        self.faults.append(Fault(pointer, code, detail))


def _by_name(pointer: str, names: Sequence[str], positions: Positions) -> str:
    """`/tasks/NUMBER/…` with the task's name instead, or the pointer into the defaults that the value came from."""
    match = re.match(r"^/tasks/(\d+)(.*)$", pointer, re.DOTALL)
    if not match or int(match[1]) >= len(names):
        return pointer
    own = f"/tasks/{pointer_part(names[int(match[1])])}{match[2]}"
    default = f"/defaults{match[2]}"
    return default if own not in positions.values and default in positions.values else own


def _error(faults: list[Fault], file: str, positions: Positions) -> ManifestError:
    """The first fault of each value: the others follow from it."""
    first: dict[str, Fault] = {}
    for fault in faults:
        first.setdefault(fault.pointer or fault.detail, fault)
    located = [_located(fault, file, positions) for fault in first.values()]
    located.sort(key=lambda fault: (fault.line, fault.column))
    shown = located[:MOST_FAULTS]
    if len(located) > MOST_FAULTS:
        shown.append(ManifestFault(file=file, code="more", detail=f"{len(located) - MOST_FAULTS} more faults"))
    return ManifestError(tuple(shown))


def _located(fault: Fault, file: str, positions: Positions) -> ManifestFault:
    mark = positions.of(fault.pointer, key=fault.code in _KEY_CODES)
    path = ""
    for part in fault.pointer.split("/")[1:]:
        word = part.replace("~1", "/").replace("~0", "~")
        path += f"[{word}]" if word.isdigit() else f".{word}" if path else word
    return ManifestFault(file, mark.line, mark.column, path, fault.code, fault.detail)


def _file_error(path: Path, detail: str) -> ManifestError:
    return ManifestError((ManifestFault(file=str(path), code="unreadable", detail=detail),))


def _is_json(data: bytes) -> bool:
    """Text that begins with a brace may also be YAML."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _named_parents(task: dict[str, Any]) -> list[tuple[str, int, str]]:
    """The tasks that it references by name: the field, the index in it, and the name."""
    return [
        (field, index, name)
        for field in ("after", "after_end", "after_failed")
        for index, name in enumerate(_listed(task.get(field)))
        if isinstance(name, str)
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first_few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
