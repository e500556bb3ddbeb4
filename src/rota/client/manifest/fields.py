"""The fields of a task in a manifest: those of `TaskRequest`, and shorthands that become a `script`.

The structure is derived from `TaskRequest`: a field added there is accepted here, checked by its type, and part of the
JSON Schema. `NOTES` adds a description, examples, allowed words and a check of the value; a field without a note is
passed on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from rota.client.manifest.scripts import Stage, stage_faults
from rota.model import units
from rota.model.artifact import digits_of, path_fault
from rota.model.errors import Fault
from rota.model.isolation import ISOLATIONS
from rota.model.request.array import array_of
from rota.model.request.needs import faults_of
from rota.model.request.retry_rules import rule_of
from rota.model.request.structure import derived, pointer_part, structure_faults, unknown_field
from rota.model.request.task_request import KINDS, RAW_FIELDS, TaskRequest
from rota.model.resources import CPU_LIMITS
from rota.model.secret import name_trouble

SHORTHANDS = ("commands", "stages")  # become `script`
MANIFEST_ONLY = (*SHORTHANDS, "resume")  # fields that a request does not have
WORK = (*KINDS, *SHORTHANDS)
NOT_BY_DEFAULT = ("idempotency_key",)  # one idempotency key for all tasks would make them one task

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class ScriptFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The text of a script, in a file beside the manifest."""

    file: str


def manifest_task(request: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The structure of a task in a manifest, derived from the structure of a request."""
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
    """The documentation and the check of a field. `check` raises a ValueError that says what would be right."""

    description: str
    examples: tuple[Any, ...] = ()
    choices: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    each: Callable[[Any], object] | None = None  # a check for every item of a list or value of a mapping
    faults: Callable[[Any, str], list[Fault]] | None = None  # a check that can find several faults


def task_faults(value: object, pointer: str, *, default: bool = False, also: tuple[str, ...] = ()) -> list[Fault]:
    """The faults of each field of one task, or of `defaults`.

    `also` are other names that are allowed there, for suggestions after a typing error.
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
            faults.append(Fault(below, "not-by-default", f"{name} cannot be a default; give it to one task"))
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
            for key, item in items:
                faults += _checked(note.each, item, f"{below}/{pointer_part(str(key))}")
    return faults


def _checked(check: Callable[[Any], object], value: Any, pointer: str) -> list[Fault]:
    try:
        check(value)
    except ValueError as error:
        return [Fault(pointer, "out-of-range", str(error))]
    return []


def rule_faults(task: Mapping[str, Any], pointer: str) -> list[Fault]:
    """The faults that admission finds in a task of any tenant: the rules of `TaskRequest`.

    Fields of the wrong structure are left out: `task_faults` reports them.
    """
    known = {name: value for name, value in task.items() if name in FIELDS and value is not None}
    wrong = {fault.pointer.split("/")[1] for fault in structure_faults(known, ManifestTask) if fault.pointer}
    right = {name: value for name, value in known.items() if name not in wrong and name not in RAW_FIELDS}
    work = [name for name in WORK if name in known]
    fields = {name: value for name, value in right.items() if name not in MANIFEST_ONLY}
    if len(work) == 1 and (work[0] in SHORTHANDS or not isinstance(fields.get("script", ""), str)):
        fields["script"] = ":"  # its text is made or read later
    try:
        request = msgspec.convert(fields, TaskRequest)
    except (msgspec.ValidationError, RecursionError):
        return []
    is_whole = len(work) == 1 and work[0] not in wrong
    faults = faults_of(request, pointer)
    return [fault for fault in faults if is_whole or fault.pointer not in (pointer, f"{pointer}/package")]


def _is_wrong(pointer: str, wrong: set[str]) -> bool:
    return any(other == pointer or other.startswith(pointer + "/") for other in wrong)


def together_faults(task: Mapping[str, Any], pointer: str) -> list[Fault]:
    """The faults of combinations of fields, of a task with its defaults."""
    given = {name for name, value in task.items() if value is not None}
    work = [name for name in WORK if name in given]
    faults: list[Fault] = []
    meant = any(difflib.get_close_matches(name, WORK, n=1, cutoff=0.65) for name in given if name not in FIELDS)
    if len(work) > 1 or not (work or meant):
        given_work = "none is given" if not work else f"{' and '.join(work)} are given"
        faults.append(Fault(pointer, "invalid-command", f"give exactly one of {', '.join(WORK)}; {given_work}"))
    if {"at", "delay"} <= given:
        faults.append(Fault(f"{pointer}/at", "inconsistent-times", "give a time (at) or a delay, not both"))
    if {"command", "args"} <= given:
        where = f"{pointer}/args"
        faults.append(
            Fault(where, "invalid-command", "the arguments of a command are words of command, after the program")
        )
    if "kwargs" in given and work and "function" not in given:
        faults.append(Fault(f"{pointer}/kwargs", "invalid-command", "kwargs are allowed only with a function"))
    if "resume" in given and work and "stages" not in given:
        faults.append(Fault(f"{pointer}/resume", "invalid-command", "resume is allowed only with stages"))
    return faults


def merged(defaults: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """A task with its defaults. Mappings are merged; null removes a default."""
    left_out: set[str] = set()
    for group in (WORK, ("at", "delay")):
        if any(task.get(name) is not None for name in group):
            left_out.update(group)
    fields = {name: value for name, value in defaults.items() if name not in left_out}
    for name, value in task.items():
        base = fields.get(name)
        fields[name] = {**base, **value} if isinstance(base, dict) and isinstance(value, dict) else value
    return {name: value for name, value in fields.items() if value is not None}


def _advised(fault: Fault, task: object) -> str:
    """The fault's text with a hint: YAML reads 8080 as a number, and brackets are easily forgotten."""
    detail = fault.detail.removesuffix(" or null")
    if detail.endswith(" is not a string") and re.match(r"-?\d|true |false ", detail):
        return f"{detail}; put it in quotes"
    name = fault.pointer.removeprefix("/")
    given = task.get(name) if isinstance(task, dict) else None
    if detail.endswith(" is not a list") and isinstance(given, str) and len(given) <= 60:
        return f"{detail}; write [{given if name in SHORTHANDS else ', '.join(given.split())}]"
    return detail


# ---- checks of single values --------------------------------------------------------------------------------------


def _amount(convert: Callable[[Any], int]) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if convert(value) < 0:
            raise ValueError(f"{value!r} is below zero")

    return check


def _unless(holds: Callable[[Any], object], detail: str) -> Callable[[Any], None]:
    """A check that refuses a value with `detail`, in which {} is the value."""

    def check(value: Any) -> None:
        if not holds(value):
            raise ValueError(detail.format(repr(value[:80]) if isinstance(value, str) else value))

    return check


def _moment(value: str) -> None:
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise ValueError(f"{value[:60]!r} is not a time with a zone; write 2030-01-31T09:00:00Z or …+02:00")


def _secret(name: str) -> None:
    trouble = name_trouble(name)
    if trouble is not None:
        raise ValueError(trouble)


def _pattern(path: str) -> None:
    fault = path_fault(path)
    if fault is not None:
        raise ValueError(f"{path[:80]!r} is not a pattern inside the work folder: {fault}")


_absolute = _unless(lambda path: path.startswith("/"), "{} is not an absolute path on the node")
_artifact = _unless(digits_of, "{} is not an artifact; write sha256:… or 8 to 64 of its digits (rota upload FILE)")
_dependency = _unless(lambda task: isinstance(task, str) or task >= 1, "{} is not a task's id")
_function = _unless(_FUNCTION.fullmatch, "{} is not a function; write package.module:function")
_lines = _unless(lambda lines: any(line.strip() for line in lines), "the list is empty; write at least one line")
_positive = _unless(lambda number: number >= 1, "{} is less than 1")
_text = _unless(lambda script: not isinstance(script, str) or script.strip(), "the script is empty")
_words = _unless(lambda words: words and words[0], "the program is missing; write [program, argument, …]")
_DURATION = "Seconds, or a text such as 90s, 2h30m, PT3H."
_duration = _amount(units.milliseconds_of)
_gpus = _amount(lambda value: units.gpus_of(value)[0])

NOTES: dict[str, Note] = {
    "command": Note("The program and its arguments, word by word; no shell reads them.", (["python", "train.py"],),
                    check=_words),
    "script": Note("The text of a script, run by its #! line, else by `interpreter`, else by sh; or {file: path}, a "
                   "file beside the manifest, for which the suffix of its name chooses before sh.",
                   ("#!/bin/bash\n./nightly.sh\n", {"file": "nightly.sh"}), check=_text),
    "commands": Note("Shell commands, run in this order; the first that fails ends the task (set -e).",
                     (["make", "make test"],), check=_lines),
    "stages": Note("The steps of a long task, run in this order: each has a name, and a command or a script. The "
                   "first that fails ends the attempt.", ([{"name": "fetch", "command": ["./fetch.sh"]},
                                          {"name": "train", "script": "python3 train.py\n"}],),
                   faults=stage_faults),
    "resume": Note("A retry begins at the stage that failed; the checkpoint records the finished stages.", (True,)),
    "path": Note("The absolute path of a script or program on the node.", ("/opt/jobs/nightly.sh",),
                 check=_absolute),
    "upload": Note("An uploaded script or program to run: by its #! line, else by `interpreter`, else by the "
                   "program of its suffix, else directly.",
                   ("sha256:9f86d081884c",), check=_artifact),
    "files": Note("Uploaded files that are copied into the work folder before the start: path and artifact.",
                  ({"data/train.csv": "sha256:9f86d081884c"},), each=_artifact),
    "archive": Note("An uploaded tar or zip, unpacked into the work folder before the start.",
                    ("sha256:9f86d081884c",), check=_artifact),
    "package": Note("An uploaded wheel, zip or tar with the function's code; modules are imported from it first.",
                    ("sha256:9f86d081884c",), check=_artifact),
    "outputs": Note("Files of the work folder to store as artifacts after the task: names, or patterns with * and **.",
                    (["model.bin", "report/**"],), each=_pattern),
    "interpreter": Note("The program that runs the script, and its options.", (["python3", "-u"],), check=_words),
    "function": Note("A Python function on the worker: package.module:name.", ("shop.mail:send",), check=_function),
    "args": Note("The positional arguments of a function, or the arguments of a script.", ([1, "two"],)),
    "kwargs": Note("The keyword arguments of a function.", ({"width": 800},)),
    "array": Note("One task for each index (ROTA_INDEX): 0-999; 0-999%50 runs at most 50 concurrently.", ("0-999%50",),
                  check=array_of),
    "items": Note("For an array of a function: the argument of each task.", ([1, 2, 3],)),
    "name": Note("A name to find the task by; in a graph, its name in this file unless given.", ("nightly",)),
    "env": Note("Environment variables. Values are text: put numbers in quotes.", ({"REGION": "eu"},)),
    "secrets": Note("Names of secrets that become environment variables; `rota secret set` sets their values.",
                    (["API_KEY"],), each=_secret),
    "may_submit": Note("Whether it may submit tasks while it runs: they join its graph."),
    "tags": Note("Names and values to find the task by.", ({"team": "ml"},)),
    "tier": Note("A named amount of resources, instead of numbers.", ("basic", "regular", "premium")),
    "cpu": Note("Cores: 1.5, or 500m for thousandths.", (1.5, "500m"), check=_amount(units.cpu_milli_of)),
    "cpu_limit": Note("quota: never more CPU than is granted; burst: idle CPU beyond it, if the plan allows that.", (),
                      CPU_LIMITS),
    "memory": Note("Bytes, or a text such as 512M, 2Gi.", ("512M", "2Gi"), check=_amount(units.bytes_of)),
    "disk": Note("Bytes, or a text such as 10G.", ("10G",), check=_amount(units.bytes_of)),
    "iops": Note("Disk operations a second: 500, 5k.", (500, "5k"), check=_amount(units.count_of)),
    "bandwidth": Note("Bits a second: 100M.", ("100M",), check=_amount(units.kbit_of)),
    "gpus": Note("Whole GPUs, or a fraction of one.", (1, 0.5), check=_gpus),
    "ports": Note("How many TCP ports it needs.", (1,), check=_positive),
    "custom": Note("Amounts of resources that the operator has defined.", ({"license": 1},)),
    "require": Note("Only nodes with these labels.", ({"zone": "a"},)),
    "image": Note("The image of a container for a command or script; or rootfs:NAME, a root that the operator offers.",
                  ("docker.io/library/alpine:3", "rootfs:debian")),
    "isolation": Note("How the task is isolated; the default depends on the trust in its tenant.", (), ISOLATIONS),
    "network": Note("Whether a sandboxed task may use the node's network."),
    "processes": Note("The most processes and threads at once.", (100,), check=_positive),
    "log_limit": Note("How much output of each attempt is kept: its beginning and its end.", ("10Mi",),
                      check=_amount(units.bytes_of)),
    "mounts": Note("Folders that the node's operator offers, by name.", (["team"],)),
    "pool": Note("The pool of nodes.", ("default",)),
    "unplaceable": Note("When the task fits on no present node: refuse it, or let it wait.", (), ("refuse", "wait")),
    "category": Note("A kind of work that the operator defined, with defaults for tolerance, lane, cap and isolation.",
                     ("report",)),
    "lane": Note("The lane: tasks are ordered by lane first.", ("urgent", "normal", "periodic", "off-peak")),
    "priority": Note("The order among your own tasks; higher first.", (10,)),
    "tolerance": Note(f"How long its start may be delayed. {_DURATION}", ("10m",), check=_duration),
    "cap": Note(f"The longest an attempt may run. {_DURATION}", ("1h",), check=_duration),
    "preemptible": Note("It may be stopped for more urgent work; it runs again later."),
    "attempts": Note("The most attempts; 1 means no retry.", (3,), check=_positive),
    "backoff": Note(f"The pause before the second attempt; doubles each time. {_DURATION}", ("30s",), check=_duration),
    "backoff_limit": Note(f"The longest pause between attempts. {_DURATION}", ("10m",), check=_duration),
    "retry_on": Note("Retry only these failures: exit=75, exit=70-79, error=ConnectionError, timeout; :30s behind "
                     "one sets the pause.", (["exit=75:30s", "error=ConnectionError"],),
                     each=partial(rule_of, retry=True)),
    "fail_on": Note("Never retry these failures, written as for `retry_on`.", (["exit=2", "error=ValueError"],),
                    each=partial(rule_of, retry=False)),
    "at": Note("The earliest start: a time with its zone.", ("2030-01-31T09:00:00Z",), check=_moment),
    "delay": Note(f"The earliest start, counted from submission. {_DURATION}", ("10m",), check=_duration),
    "after": Note("Start after these are done: names of tasks in this file, or ids of other tasks.", (["extract", 17],),
                  each=_dependency),
    "after_end": Note("Start after these have ended, in whatever state.", (["extract"],), each=_dependency),
    "after_failed": Note("Start only if these have failed; else this task is skipped.", (["extract"],),
                         each=_dependency),
    "on_late": Note("When it can't start within its tolerance: keep it, or drop it (expired).", (), ("keep", "drop")),
    "upstream": Note("When one of `after` is not done: skip this task, or run it anyway.", (), ("skip", "run")),
    "concurrency_key": Note("Tasks with the same concurrency key share a limit.", ("database-7",)),
    "concurrency_limit": Note("The most tasks with the key that run concurrently; default 1.", (2,), check=_positive),
    "concurrency_scope": Note("Whether the limit counts the tasks of one pool or of all.", (), ("pool", "global")),
    "idempotency_key": Note("Submitting the same idempotency key again returns the same task.", ("order-7",)),
}  # fmt: skip
