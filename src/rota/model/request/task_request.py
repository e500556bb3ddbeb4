"""The request for a task as it is written in JSON, before checks and defaults.

One structure serves the HTTP body, the Python client and manifests. Amounts are numbers or human units (`"512M"`,
`"2h30m"`). `args` and `kwargs` stay raw bytes all the way to the task.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_BATCH = 10_000
ABSENT = (b"", b"null")  # raw arguments that were not given
KINDS = ("command", "script", "path", "upload", "function")  # what to run: a task names exactly one
# Fields that only the agent decodes, and their types.
RAW_FIELDS: dict[str, Any] = {
    "args": list[Any] | msgspec.UnsetType,
    "kwargs": dict[str, Any] | msgspec.UnsetType,
    "items": list[Any] | msgspec.UnsetType,
}


class TaskRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task. Exactly one of `command`, `script`, `path`, `upload`, `function` says what to run."""

    command: list[str] | None = None  # argv
    script: str | None = None  # text; run by its shebang, else by `interpreter`, else by sh
    path: str | None = None  # a script or program on the node
    upload: str | None = None  # an artifact: a script or program
    interpreter: list[str] | None = None  # argv before the script's file name
    function: str | None = None  # "package.module:name"
    args: msgspec.Raw = msgspec.Raw()  # JSON array: a function's positional arguments, a script's argv
    kwargs: msgspec.Raw = msgspec.Raw()  # JSON object: keyword arguments of the function

    files: dict[str, str] = {}  # put into the work folder before the start: relative path → artifact
    archive: str | None = None  # an artifact, tar or zip, unpacked into the work folder before the start
    package: str | None = None  # an artifact, a wheel, zip or tar with the function's code
    outputs: list[str] = []  # patterns of files in the work folder that become artifacts if the task succeeds

    name: str | None = None
    env: dict[str, str] = {}
    secrets: list[str] = []  # names of the tenant's secrets; each becomes a variable of that name
    may_submit: bool = False  # while it runs, it may submit tasks, with a key of its own
    tags: dict[str, str] = {}

    tier: str | None = None
    cpu: int | float | str | None = None  # cores
    memory: int | str | None = None  # bytes
    disk: int | str | None = None  # bytes
    iops: int | str | None = None  # disk operations per second
    bandwidth: int | str | None = None  # bits per second
    gpus: int | float | None = None  # whole devices, or a fraction of one
    ports: int | None = None
    custom: dict[str, int] = {}
    require: dict[str, str] = {}  # node labels

    image: str | None = None  # a container's image, for a command or script; or rootfs:NAME
    isolation: str | None = None  # none | sandbox | container
    network: bool = False  # a sandboxed task may use the node's network
    processes: int | None = None  # processes and threads at once
    cpu_limit: str | None = None  # "quota": never more CPU than the grant; "burst": idle CPU beyond it; else the plan's
    log_limit: int | str | None = None  # bytes of output kept of each attempt
    mounts: list[str] = []  # folders that the node's operator has named

    pool: str | None = None
    unplaceable: str = "refuse"  # refuse | wait: if no present node could ever hold it
    category: str | None = None  # defaults for tolerance, lane, cap and isolation
    lane: str | None = None
    priority: int = 0  # among the tenant's own tasks; higher first
    tolerance: int | float | str | None = None  # how long the start may be delayed
    on_late: str = "keep"  # keep | drop: if it could not start within its tolerance
    cap: int | float | str | None = None  # longest execution
    preemptible: bool = False  # may be stopped for more urgent work and run again
    attempts: int = 1  # total runs allowed
    backoff: int | float | str | None = None  # before the second attempt; doubles
    backoff_limit: int | float | str | None = None
    retry_on: list[str] = []  # only these ends are retried: exit=75, error=ConnectionError:30s, timeout
    fail_on: list[str] = []  # these ends are not retried
    at: str | None = None  # not before: RFC 3339 with a zone
    delay: int | float | str | None = None  # not before now + delay
    after: list[int | str] = []  # ids, or `ref`s of other tasks in the same batch
    after_end: list[int | str] = []  # as `after`, but however they end
    after_failed: list[int | str] = []  # as `after`, but only if they fail
    upstream: str = "skip"  # skip | run: if one of `after` did not end done
    ref: str | None = None  # the name of this task inside its batch
    concurrency_key: str | None = None
    concurrency_limit: int | None = None  # at most so many tasks with this key at once; default 1
    concurrency_scope: str = "pool"  # pool | global: count the tasks of the pool, or of all pools
    idempotency_key: str | None = None
    array: str | None = None  # one task per index: 0-999, or 0-999%50 for 50 at once
    items: list[msgspec.Raw] = []  # for an array of a function: the argument of each task


class GraphRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Tasks under one name. The name of a task inside its graph is its `ref`, else its `name`."""

    name: str
    tasks: list[TaskRequest]


class BatchRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    tasks: list[TaskRequest]
