"""What a client asks for: one task as it is written in JSON, before any of it is checked or given a default.

The same structure serves the HTTP body, the Python client and the batch route; admission turns it into rows. Amounts
may be numbers or human units (`"512M"`, `"2h30m"`). `args` and `kwargs` stay raw bytes all the way to the task.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_BATCH = 10_000
ABSENT = (b"", b"null")  # raw arguments that were not given
KINDS = ("command", "script", "path", "upload", "function")  # what to run: a task names exactly one
# Fields that are decoded by whoever runs the task, by what they must be.
RAW_FIELDS: dict[str, Any] = {"args": list[Any] | msgspec.UnsetType, "kwargs": dict[str, Any] | msgspec.UnsetType,
                              "items": list[Any] | msgspec.UnsetType}  # fmt: skip


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
    outputs: list[str] = []  # patterns of files in the work folder that are kept as artifacts when it has ended well

    name: str | None = None
    env: dict[str, str] = {}
    secrets: list[str] = []  # names of the tenant's secrets; each becomes a variable of that name
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
    network: bool = False  # for a task behind walls: the node's network
    processes: int | None = None  # processes and threads at once
    mounts: list[str] = []  # folders that the node's operator has named

    pool: str | None = None
    unplaceable: str = "refuse"  # refuse | wait: when no present node could ever hold it
    category: str | None = None  # defaults for tolerance, lane and cap
    lane: str | None = None
    priority: int = 0  # among the tenant's own tasks; higher first
    tolerance: int | float | str | None = None  # how long a start may be delayed
    on_late: str = "keep"  # keep | drop: when its tolerance has run out before it could start
    cap: int | float | str | None = None  # longest execution
    preemptible: bool = False  # may be stopped for more urgent work, and runs again
    attempts: int = 1  # total runs allowed
    backoff: int | float | str | None = None  # before the second attempt; doubles
    backoff_limit: int | float | str | None = None
    retry_on: list[str] = []  # only these ends are retried: exit=75, error=ConnectionError:30s, timeout
    fail_on: list[str] = []  # these ends are not retried
    at: str | None = None  # not before: RFC 3339 with a zone
    delay: int | float | str | None = None  # not before now + delay
    after: list[int | str] = []  # ids, or `ref`s of other tasks in the same batch
    after_end: list[int | str] = []  # the same, but however they end
    after_failed: list[int | str] = []  # the same, but only if they fail
    upstream: str = "skip"  # skip | run: what to do when one of `after` did not end done
    ref: str | None = None  # name of this task inside its batch
    concurrency_key: str | None = None
    concurrency_limit: int | None = None  # at most so many with this key at once; 1 unless given
    concurrency_scope: str = "pool"  # pool | global: whether tasks of other pools with the key count too
    idempotency_key: str | None = None
    array: str | None = None  # many of it, one an index: 0-999, 0-999%50 for 50 at once
    items: list[msgspec.Raw] = []  # of an array of a function: the argument for each


class GraphRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Tasks under one name. Inside it each goes by its `ref`, or by its `name` where it has none."""

    name: str
    tasks: list[TaskRequest]


class BatchRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    tasks: list[TaskRequest]
