"""What a manifest may say about one task: the fields of `TaskRequest`, and the comforts that become one of them.

The structure is derived from `TaskRequest` itself: a field added there is accepted here, checked by its type and part
of the JSON Schema. `NOTES` adds, where there is more to know, a description, examples, the words to choose from and a
check of the value; a field without a note is simply passed on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from rota.client.manifest import stages
from rota.client.manifest.stages import Stage
from rota.model import units
from rota.model.artifact import digits_of, path_fault
from rota.model.errors import Fault
from rota.model.isolation import ISOLATIONS
from rota.model.request.array import array_of
from rota.model.request.needs import faults_of
from rota.model.request.retry_rules import rule_of
from rota.model.request.structure import derived, pointer_part, structure_faults
from rota.model.request.task_request import KINDS, RAW_FIELDS, TaskRequest
from rota.model.secret import name_trouble

COMFORTS = ("commands", "stages")  # become `script`
OF_COMFORTS = (*COMFORTS, "resume")  # what no request has
WORK = (*KINDS, *COMFORTS)
NOT_BY_DEFAULT = ("idempotency_key",)  # one key for all tasks would make them one

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class ScriptFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A script's text in a file beside the manifest."""

    file: str


def manifest_task(request: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A task as a manifest may say it, given how a request says it."""
    raw = {name: kind | None for name, kind in RAW_FIELDS.items()}
    return derived(
        request,
        name="Task",
        instead={**raw, "script": str | ScriptFile | None},
        without=("ref",),  # the name inside the file is the ref
        more={"commands": list[str] | None, "stages": list[Stage] | None, "resume": bool | None},
    )


ManifestTask = manifest_task(TaskRequest)
FIELDS: tuple[str, ...] = ManifestTask.__struct_fields__


@dataclass(frozen=True, slots=True)
class Note:
    """More about a field. `check` raises a ValueError that says what would be right."""

    description: str
    examples: tuple[Any, ...] = ()
    choices: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    each: Callable[[Any], object] | None = None  # the same for every item of a list, every value of a mapping
    faults: Callable[[Any, str], list[Fault]] | None = None  # where more than one thing can be wrong inside


def task_faults(value: object, pointer: str, *, default: bool = False, also: tuple[str, ...] = ()) -> list[Fault]:
    """Everything wrong with what is said about one task, or in `defaults`, taken for itself.

    `also` are words that stand beside the fields, for whoever mistyped one of them.
    """
    faults = [
        Fault(pointer + fault.pointer, fault.code, _advised(fault, value))
        for fault in structure_faults(value, ManifestTask)
        if fault.code != "unknown-field" or fault.pointer.count("/") > 1
    ]
    if not isinstance(value, dict):
        return faults
    wrong = {fault.pointer for fault in faults}
    for name, given in value.items():
        below = f"{pointer}/{pointer_part(name)}"
        if name not in FIELDS:
            faults.append(Fault(below, "unknown-field", unknown_field(name, (*FIELDS, *also))))
        note = NOTES.get(name)
        if default and name in NOT_BY_DEFAULT:
            faults.append(Fault(below, "not-by-default", f"{name} belongs to one task; give it there"))
        if given is None or note is None or (wrong and _is_wrong(below, wrong)):
            continue
        if note.choices and given not in note.choices:
            faults.append(Fault(below, "out-of-range", f"{given!r} is not one of {', '.join(note.choices)}"))
        if note.check is not None:
            faults += _checked(note.check, given, below)
        if note.faults is not None:
            faults += note.faults(given, below)
        if note.each is not None:
            items = given.items() if isinstance(given, dict) else enumerate(given)
            for key, one in items:
                faults += _checked(note.each, one, f"{below}/{pointer_part(str(key))}")
    return faults


def _checked(check: Callable[[Any], object], value: Any, pointer: str) -> list[Fault]:
    try:
        check(value)
    except ValueError as error:
        return [Fault(pointer, "out-of-range", str(error))]
    return []


def rule_faults(task: Mapping[str, Any], pointer: str) -> list[Fault]:
    """What admission would say of a whole task whoever asks: the rules of `TaskRequest` itself.

    Fields of the wrong structure, which have been told, are left out; what to run may be said otherwise here.
    """
    known = {name: value for name, value in task.items() if name in FIELDS and value is not None}
    wrong = {fault.pointer.split("/")[1] for fault in structure_faults(known, ManifestTask) if fault.pointer}
    right = {name: value for name, value in known.items() if name not in wrong and name not in RAW_FIELDS}
    work = [name for name in WORK if name in known]
    fields = {name: value for name, value in right.items() if name not in OF_COMFORTS}
    if len(work) == 1 and (work[0] in COMFORTS or not isinstance(fields.get("script", ""), str)):
        fields["script"] = ":"  # its text is made, or read, later
    try:
        request = msgspec.convert(fields, TaskRequest)
    except (msgspec.ValidationError, RecursionError):
        return []
    is_whole = len(work) == 1 and work[0] not in wrong
    found = faults_of(request, pointer)
    return [fault for fault in found if is_whole or fault.pointer not in (pointer, f"{pointer}/package")]


def _is_wrong(pointer: str, wrong: set[str]) -> bool:
    return any(one == pointer or one.startswith(pointer + "/") for one in wrong)


def unknown_field(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no field {name[:80]!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def together_faults(task: Mapping[str, Any], pointer: str) -> list[Fault]:
    """What is wrong with the fields of a whole task, defaults included, seen together."""
    given = {name for name, value in task.items() if value is not None}
    work = [name for name in WORK if name in given]
    faults: list[Fault] = []
    meant = any(difflib.get_close_matches(name, WORK, n=1, cutoff=0.65) for name in given if name not in FIELDS)
    if len(work) > 1 or not (work or meant):
        said = "none is given" if not work else f"{' and '.join(work)} are given"
        faults.append(Fault(pointer, "invalid-command", f"exactly one of {', '.join(WORK)} says what to run; {said}"))
    if {"at", "delay"} <= given:
        faults.append(Fault(f"{pointer}/at", "inconsistent-times", "give a time (at) or a delay, not both"))
    if {"command", "args"} <= given:
        where = f"{pointer}/args"
        faults.append(Fault(where, "invalid-command", "a command's arguments go into command, after its name"))
    if "kwargs" in given and work and "function" not in given:
        faults.append(Fault(f"{pointer}/kwargs", "invalid-command", "kwargs go with a function only"))
    if "resume" in given and work and "stages" not in given:
        faults.append(Fault(f"{pointer}/resume", "invalid-command", "resume goes with stages only"))
    return faults


def merged(defaults: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """A task with what it did not say itself. Mappings are merged key by key; null takes a default away."""
    left_out: set[str] = set()
    for group in (WORK, ("at", "delay")):
        if any(task.get(name) is not None for name in group):
            left_out.update(group)
    found = {name: value for name, value in defaults.items() if name not in left_out}
    for name, value in task.items():
        base = found.get(name)
        found[name] = {**base, **value} if isinstance(base, dict) and isinstance(value, dict) else value
    return {name: value for name, value in found.items() if value is not None}


def _advised(fault: Fault, task: object) -> str:
    """What is wrong, and how to write what was probably meant: YAML reads 8080 as a number, brackets are forgotten."""
    detail = fault.detail.removesuffix(" or null")
    if detail.endswith(" is not a string") and re.match(r"-?\d|true |false ", detail):
        return f"{detail}; put it in quotes"
    name = fault.pointer.removeprefix("/")
    given = task.get(name) if isinstance(task, dict) else None
    if detail.endswith(" is not a list") and isinstance(given, str) and len(given) <= 60:
        return f"{detail}; write [{given if name in COMFORTS else ', '.join(given.split())}]"
    return detail


# ---- checks of single values --------------------------------------------------------------------------------------


def _amount(convert: Callable[[Any], int]) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if convert(value) < 0:
            raise ValueError(f"{value!r} is below zero")

    return check


def _gpus(value: Any) -> None:
    if units.gpus_of(value)[0] < 0:
        raise ValueError(f"{value!r} is below zero")


def _moment(value: str) -> None:
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise ValueError(f"{value[:60]!r} is not a time with a zone; write 2030-01-31T09:00:00Z or …+02:00")


def _function(value: str) -> None:
    if not _FUNCTION.fullmatch(value):
        raise ValueError(f"{value[:80]!r} does not name a function; write package.module:function")


def _absolute(value: str) -> None:
    if not value.startswith("/"):
        raise ValueError(f"{value[:80]!r} is not an absolute path; it names a file on the node")


def _secret(name: str) -> None:
    trouble = name_trouble(name)
    if trouble is not None:
        raise ValueError(trouble)


def _artifact(value: str) -> None:
    if digits_of(value) is None:
        raise ValueError(
            f"{value[:80]!r} is not an artifact; write sha256:… or 8 to 64 of its digits (rota upload FILE)"
        )


def _pattern(path: str) -> None:
    fault = path_fault(path)
    if fault is not None:
        raise ValueError(f"{path[:80]!r} is no pattern within the work folder: {fault}")


def _words(value: list[str]) -> None:
    if not value or not value[0]:
        raise ValueError("a program's name is missing; write [program, argument, …]")


def _lines(value: list[str]) -> None:
    if not any(line.strip() for line in value):
        raise ValueError("there is no line in it; write at least one")


def _text(value: Any) -> None:
    if isinstance(value, str) and not value.strip():
        raise ValueError("the script is empty")


def _dependency(one: int | str) -> None:
    if isinstance(one, int) and one < 1:
        raise ValueError(f"{one} is not a task's id")


def _rule(one: str) -> None:
    rule_of(one, retry=True)


def _failing(one: str) -> None:
    rule_of(one, retry=False)


def _array(value: str) -> None:
    array_of(value)


def _positive(value: int) -> None:
    if value < 1:
        raise ValueError(f"{value} is less than 1")


_DURATION = "Seconds, or a text such as 90s, 2h30m, PT3H."
_duration = _amount(units.milliseconds_of)

NOTES: dict[str, Note] = {
    "command": Note("The program and its arguments, word by word; no shell.", (["python", "train.py", "-v"],),
                    check=_words),
    "script": Note("A script's text, run by its #! line, else by `interpreter`, else by sh; or {file: path} for one "
                   "beside the manifest.", ("#!/bin/bash\n./nightly.sh\n", {"file": "nightly.sh"}), check=_text),
    "commands": Note("Lines for the shell, one after the other; the first that fails ends the task (set -e).",
                     (["make", "make test"],), check=_lines),
    "stages": Note("Steps of a long task, one after the other: each a name, and a command or a script. The first that "
                   "fails ends the attempt.", ([{"name": "fetch", "command": ["./fetch.sh"]},
                                          {"name": "train", "script": "python3 train.py\n"}],),
                   faults=stages.faults_of),
    "resume": Note("A retry begins at the stage that failed: finished stages are kept in the checkpoint.", (True,)),
    "path": Note("A script or program that is on the node, by absolute path.", ("/opt/jobs/nightly.sh",),
                 check=_absolute),
    "upload": Note("An uploaded script or program that runs: by its #! line, else by `interpreter`, else by itself.",
                   ("sha256:9f86d081884c",), check=_artifact),
    "files": Note("Uploaded files put into the work folder before the start: path in it, and artifact.",
                  ({"data/train.csv": "sha256:9f86d081884c"},), each=_artifact),
    "archive": Note("An uploaded tar or zip, unpacked into the work folder before the start.",
                    ("sha256:9f86d081884c",), check=_artifact),
    "package": Note("An uploaded wheel, zip or tar with the function's code, which is looked for there first.",
                    ("sha256:9f86d081884c",), check=_artifact),
    "outputs": Note("Files of the work folder to keep as artifacts once it is done: names, or patterns with * and **.",
                    (["model.bin", "report/**"],), each=_pattern),
    "interpreter": Note("What runs the script: a program and its options.", (["python3", "-u"],), check=_words),
    "function": Note("A Python function on the worker: package.module:name.", ("shop.mail:send",), check=_function),
    "args": Note("A function's positional arguments, or a script's words.", ([1, "two"],)),
    "kwargs": Note("A function's named arguments.", ({"width": 800},)),
    "array": Note("Many of it, one an index (ROTA_INDEX): 0-999, or 0-999%50 for 50 at once.", ("0-999%50",),
                  check=_array),
    "items": Note("Of an array of a function: the argument for each.", ([1, 2, 3],)),
    "name": Note("A name to find it by; inside a graph, the task's own unless given.", ("nightly",)),
    "env": Note("Environment variables. Values are text: put numbers in quotes.", ({"REGION": "eu"},)),
    "secrets": Note("Secrets it gets as variables, by name; their values are set with `rota secret set`.",
                    (["API_KEY"],), each=_secret),
    "tags": Note("Names and values to find it by.", ({"team": "ml"},)),
    "tier": Note("Named resources, for those who can't put numbers on their needs.", ("basic", "regular", "premium")),
    "cpu": Note("Cores: 1.5, or 500m for thousandths.", (1.5, "500m"), check=_amount(units.cpu_milli_of)),
    "memory": Note("Bytes, or a text such as 512M, 2Gi.", ("512M", "2Gi"), check=_amount(units.bytes_of)),
    "disk": Note("Bytes, or a text such as 10G.", ("10G",), check=_amount(units.bytes_of)),
    "iops": Note("Disk operations a second: 500, 5k.", (500, "5k"), check=_amount(units.count_of)),
    "bandwidth": Note("Bits a second: 100M.", ("100M",), check=_amount(units.kbit_of)),
    "gpus": Note("Whole GPUs, or a fraction of one.", (1, 0.5), check=_gpus),
    "ports": Note("How many TCP ports it needs.", (1,), check=_positive),
    "custom": Note("Resources of your own, by name.", ({"license": 1},)),
    "require": Note("Only nodes with these labels.", ({"zone": "a"},)),
    "image": Note("A container's image, to run a command or script in; or rootfs:NAME, a root the operator has named.",
                  ("docker.io/library/alpine:3", "rootfs:debian")),
    "isolation": Note("How it is kept apart from others; the tenant's trust decides unless given.", (), ISOLATIONS),
    "network": Note("For a task behind walls: the node's network."),
    "processes": Note("Processes and threads at once.", (100,), check=_positive),
    "mounts": Note("Folders that the node's operator has named.", (["team"],)),
    "pool": Note("The pool of nodes.", ("default",)),
    "unplaceable": Note("When no present node could ever hold it: refuse it, or let it wait.", (), ("refuse", "wait")),
    "category": Note("A kind of work that operators named, with defaults for tolerance, lane and cap.", ("report",)),
    "lane": Note("What orders tasks first.", ("urgent", "normal", "periodic", "off-peak")),
    "priority": Note("Among your own tasks; higher first.", (10,)),
    "tolerance": Note(f"How long its start may be delayed. {_DURATION}", ("10m",), check=_duration),
    "cap": Note(f"The longest an attempt may run. {_DURATION}", ("1h",), check=_duration),
    "preemptible": Note("It may be stopped for more urgent work, and runs again."),
    "attempts": Note("Runs allowed in all; 1 is no retry.", (3,), check=_positive),
    "backoff": Note(f"Before the second attempt; doubles each time. {_DURATION}", ("30s",), check=_duration),
    "backoff_limit": Note(f"The longest backoff. {_DURATION}", ("10m",), check=_duration),
    "retry_on": Note("Only these ends are retried: exit=75, exit=70-79, error=ConnectionError, timeout; with :30s "
                     "behind it, after so long.", (["exit=75:30s", "error=ConnectionError"],), each=_rule),
    "fail_on": Note("These ends are not retried, written as for `retry_on`.", (["exit=2", "error=ValueError"],),
                    each=_failing),
    "at": Note("Not before this time, with its zone.", ("2030-01-31T09:00:00Z",), check=_moment),
    "delay": Note(f"Not before so long from submission. {_DURATION}", ("10m",), check=_duration),
    "after": Note("Only after these: names of tasks in this file, or ids of tasks that exist.", (["extract", 17],),
                  each=_dependency),
    "after_end": Note("The same, but however they end.", (["extract"],), each=_dependency),
    "after_failed": Note("The same, but only if they fail; else this one is skipped.", (["extract"],),
                         each=_dependency),
    "on_late": Note("When it can't start within its tolerance: keep it, or drop it (expired).", (), ("keep", "drop")),
    "upstream": Note("When one of `after` did not end done: skip this one, or run it anyway.", (), ("skip", "run")),
    "concurrency_key": Note("Tasks with the same key are limited together.", ("database-7",)),
    "concurrency_limit": Note("At most so many with the key at once; else 1.", (2,), check=_positive),
    "concurrency_scope": Note("Whether the key counts in the task's pool, or in all pools.", (), ("pool", "global")),
    "idempotency_key": Note("The same key again gives the same task.", ("order-7",)),
}  # fmt: skip
