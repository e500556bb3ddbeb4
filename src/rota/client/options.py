"""The keyword arguments of `submit`, `submit_many` and `@task`, and how they become a `TaskRequest`.

`TaskOptions` says how to run a task, `WorkOptions` adds what to run, `TaskSpec` is a whole task as one dictionary. The
names are those of `TaskRequest`. The server validates the values and names every fault at once; only a value that can't
be sent is refused here, with a TypeError that names the argument.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypedDict, cast

import msgspec

from rota.client.arguments import encoded
from rota.model.request.interpreters import interpreter_by_suffix
from rota.model.request.task_request import KINDS, TaskRequest


class HasId(Protocol):
    """A task handle, sync or async."""

    @property
    def id(self) -> int: ...


Duration: TypeAlias = int | float | str | timedelta  # seconds, or "2h30m", or "PT3H"
Dependency: TypeAlias = int | str | HasId  # an id, a `ref` in the same batch, or a handle


Attachment: TypeAlias = str | os.PathLike[str] | bytes  # an artifact's id; or a file or bytes, uploaded first


class TaskOptions(TypedDict, total=False):
    """How to run a task. An option that is None or absent has the server's default."""

    name: str | None
    env: Mapping[str, str] | None
    secrets: Sequence[str] | None  # names; each secret becomes an environment variable of the task
    may_submit: bool | None  # while it runs, it may submit tasks, with a key of its own
    tags: Mapping[str, str] | None
    tier: str | None
    cpu: int | float | str | None
    cpu_limit: str | None  # "quota": never more CPU than granted; "burst": idle CPU too, if the plan allows it
    memory: int | str | None
    disk: int | str | None
    iops: int | str | None  # disk operations per second
    bandwidth: int | str | None  # bits per second: "100M"
    gpus: int | float | None  # whole devices, or a fraction of one
    ports: int | None
    custom: Mapping[str, int] | None
    require: Mapping[str, str] | None
    image: str | None  # a container's image, for a command or script; or "rootfs:NAME"
    isolation: str | None  # "none", "sandbox" or "container"
    network: bool | None  # a sandboxed task may use the node's network
    processes: int | None
    log_limit: int | str | None  # output kept of each attempt: "10Mi"
    mounts: Sequence[str] | None  # folders that the node's operator offers, by name
    pool: str | None
    unplaceable: str | None  # "wait": accept it although it fits on no present node
    category: str | None
    lane: str | None
    priority: int | None
    tolerance: Duration | None
    on_late: str | None  # "drop": expire it if it can't start within its tolerance
    cap: Duration | None
    preemptible: bool | None
    attempts: int | None
    backoff: Duration | None
    backoff_limit: Duration | None
    retry_on: Sequence[str] | None  # retry only these failures: "exit=75", "error=ConnectionError:30s", "timeout"
    fail_on: Sequence[str] | None  # retry all failures but these
    at: str | datetime | None
    delay: Duration | None
    after: Sequence[Dependency] | None
    after_end: Sequence[Dependency] | None  # in whatever state they end
    after_failed: Sequence[Dependency] | None  # only if they fail
    upstream: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    concurrency_scope: str | None  # "global": the limit counts the tasks of all pools
    idempotency_key: str | None


class WorkOptions(TaskOptions, total=False):
    """What to run if it is not a command, and the files it needs."""

    script: str | None
    path: str | None
    upload: Attachment | None  # a script or program; its #! line or `interpreter` runs a script
    files: Mapping[str, Attachment] | None  # copied into the work folder under these paths
    archive: Attachment | None  # tar or zip, unpacked into the work folder
    package: Attachment | None  # the code of the function: a wheel, zip or tar
    outputs: Sequence[str] | None  # patterns of files to keep as artifacts
    interpreter: Sequence[str] | None
    function: str | None
    array: str | None  # one task for each index: "0-999"; "0-999%50" runs at most 50 concurrently
    items: Sequence[Any] | None  # for an array of a function: the argument of each task
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    ref: str | None


class TaskSpec(WorkOptions, total=False):
    """One whole task. Exactly one of command, script, path, upload, function is given."""

    command: Sequence[str] | None


class EditOptions(TypedDict, total=False):
    """The options of a waiting task that can be changed; those not named stay as they are."""

    priority: int
    lane: str
    cap: Duration
    tolerance: Duration
    pool: str
    at: datetime | str
    delay: Duration


class TaskFilter(TypedDict, total=False):
    """Selects tasks, and a page of them. A field that is None or absent selects all."""

    state: str | None
    status: str | None
    name: str | None
    tag: tuple[str, str] | None
    schedule: str | None
    graph: int | None
    ancestors_of: int | str | None  # tasks that this task, array or graph depends on; an id, or a name: "12/extract"
    descendants_of: int | str | None  # tasks that depend on it
    worker: str | None
    user: str | None
    since: str | None  # by the time of submission: "10m" ago, or a time with its offset
    until: str | None
    tenant: str | None
    limit: int | None
    cursor: str | None


class LogOptions(TypedDict, total=False):
    """Selects the output of a task."""

    attempt: int | None  # None: the latest
    stream: str | None  # stdout or stderr; None: both
    since: str | None  # "10m" ago, or a time with its offset
    tail: int | None  # a number of lines from the end


class EventFilter(TypedDict, total=False):
    """Selects events. A field that is None or absent selects all."""

    task: int | None
    schedule: str | None
    name: str | None
    tag: tuple[str, str] | None


class EventOptions(EventFilter, total=False):
    """Selects events, and a part of their stream."""

    types: Iterable[str] | None
    after: str | None  # the id of the last event seen
    since: str | None  # "10m" ago, or a time with its offset
    follow: bool


def check_names(options: Mapping[str, object], kind: type) -> None:
    """Refuses a keyword argument that `kind`, a TypedDict, does not have."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"there is no argument {name!r}; there are {', '.join(kind.__annotations__)}")


def request_of(spec: TaskSpec) -> TaskRequest:
    """The request for a task; TypeError for arguments that can't be sent."""
    fields: dict[str, Any] = {name: plain(value) for name, value in spec.items() if value is not None}
    if isinstance(spec.get("command"), str):
        raise TypeError('command is a list of words, e.g. ["echo", "hi"]; a shell command line goes in script=')
    if isinstance(spec.get("secrets"), str):
        raise TypeError('secrets is a list of names, e.g. ["API_KEY"]')
    if sum(name in fields for name in KINDS) != 1:
        raise TypeError(f"give exactly one of {', '.join(KINDS)}")
    for rules in ("retry_on", "fail_on"):
        if isinstance(spec.get(rules), str):
            raise TypeError(f'{rules} is a list of rules, e.g. ["exit=75"]')
    if isinstance(spec.get("outputs"), str):
        raise TypeError('outputs is a list of patterns, e.g. ["report/*.html"]')
    for where, given in attachments(spec):
        if not isinstance(given, str):
            raise TypeError(f"{where} is a local file, which only submit() uploads; give an artifact's id")
    for name in ("command", "interpreter", "mounts", "outputs", "secrets", "retry_on", "fail_on"):
        if name in fields:
            fields[name] = list(fields[name])
    for name in ("after", "after_end", "after_failed"):
        if name in fields:
            fields[name] = [task if isinstance(task, int | str) else task.id for task in fields[name]]
    called = fields.get("function") or "the task"
    if "args" in fields:
        fields["args"] = _json_array(fields["args"], called)
    if "items" in fields:
        fields["items"] = [msgspec.Raw(encoded(item, f"an item of {called}")) for item in fields["items"]]
    if "kwargs" in fields:
        fields["kwargs"] = _json_object(fields["kwargs"], called)
    return TaskRequest(**fields)


class Submittable(Protocol):
    """A `@task` function: see `functions.TaskFunction`."""

    def template(self) -> TaskSpec: ...
    def sendable_calls(self, calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]: ...


def array_spec(
    function: Submittable | str, items: Iterable[Any], at_once: int | None, options: TaskOptions
) -> TaskSpec:
    """An array that calls the function once for each item; at most `at_once` of its tasks run concurrently."""
    values = list(items)
    if not values:
        raise ValueError("there are no items")
    work: TaskSpec = {"function": function} if isinstance(function, str) else function.template()
    if not isinstance(function, str):
        values = [item for (item,) in function.sendable_calls([(value,) for value in values])]
    indexes = f"0-{len(values) - 1}" + ("" if at_once is None else f"%{at_once}")
    return cast(TaskSpec, {**work, **options, "items": values, "array": indexes})


_ATTACHED = ("upload", "archive", "package")


def attachments(spec: TaskSpec) -> list[tuple[str, Attachment]]:
    """The artifacts and local files of a task, each with the name of its option."""
    single = [(name, given) for name in _ATTACHED if (given := _attached(spec, name)) is not None]
    return single + [(f"files[{path!r}]", given) for path, given in (spec.get("files") or {}).items()]


def local_files(specs: Iterable[TaskSpec]) -> dict[os.PathLike[str] | bytes, str | None]:
    """The local files to upload before these can be sent, each once, with its artifact's name; None: the file's own."""
    files: dict[os.PathLike[str] | bytes, str | None] = {}
    for spec in specs:
        for name in _ATTACHED:
            given = _attached(spec, name)
            if isinstance(given, bytes | os.PathLike):
                files.setdefault(given, None)
        for path, source in (spec.get("files") or {}).items():
            if not isinstance(source, str):
                files.setdefault(source, path.rpartition("/")[2] or None if isinstance(source, bytes) else None)
    return files


def with_artifacts(spec: TaskSpec, made: Mapping[os.PathLike[str] | bytes, str]) -> TaskSpec:
    """The same spec with artifact ids instead of local files. An uploaded script runs by its suffix."""

    def named(given: Attachment | None) -> Attachment | None:
        return given if given is None or isinstance(given, str) else made[given]

    program = spec.get("upload")
    interpreter = spec.get("interpreter")
    if interpreter is None and isinstance(program, os.PathLike):
        interpreter = interpreter_by_suffix(os.fspath(program))
    files = {path: named(given) for path, given in (spec.get("files") or {}).items()}
    attached = {name: named(_attached(spec, name)) for name in _ATTACHED}
    return cast(TaskSpec, {**spec, **attached, "files": files or None, "interpreter": interpreter})


def _attached(spec: TaskSpec, name: str) -> Attachment | None:
    given: Attachment | None = spec.get(name)  # type: ignore[assignment]
    return given


def overridden(request: TaskRequest, spec: TaskSpec) -> TaskRequest:
    """The request with the options of `spec` instead of its own. Mappings are merged."""
    changes: dict[str, Any] = {name: plain(value) for name, value in spec.items() if value is not None}
    for name, value in changes.items():
        if isinstance(value, Mapping):
            changes[name] = {**getattr(request, name), **value}
    for given, other in (("at", "delay"), ("delay", "at")):
        if given in changes and other not in changes:
            changes[other] = None
            break
    return msgspec.structs.replace(request, **changes)


def plain_duration(value: Duration | None) -> int | float | str | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else value


def _json_array(values: Sequence[Any], called: str) -> msgspec.Raw:
    parts = [encoded(value, f"argument {number} of {called}") for number, value in enumerate(values, start=1)]
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


def _json_object(values: Mapping[str, Any], called: str) -> msgspec.Raw:
    parts = [
        encoded(str(name), "a name") + b":" + encoded(value, f"argument {name!r} of {called}")
        for name, value in values.items()
    ]
    return msgspec.Raw(b"{" + b",".join(parts) + b"}")
