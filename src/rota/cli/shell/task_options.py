"""The options that describe a task, for `submit`, `run` and `schedule add`: declared, checked, put into one TaskSpec.

`takes_task_options` adds them to a command's signature, so that Typer shows them in its help. A bad value ends the
command before any request is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer

from rota.cli.shell import checks
from rota.cli.shell.functions import with_own_options
from rota.cli.shell.shared_options import with_options
from rota.client.options import TaskSpec
from rota.model.resources import CPU_LIMITS

_WHAT = "What to run"
_RESOURCES = "Resources and isolation"
_WHEN = "When"

Text = str | None

_WORK = ("command", "script", "path", "upload", "function")  # parameters that say what to run


def what_to_run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] COMMAND...", help="The program and its arguments.")
    ] = None,
    script: Annotated[
        Text,
        typer.Option(metavar="FILE", rich_help_panel=_WHAT, help="Send this script and run it; - reads stdin."),
    ] = None,
    path: Annotated[
        Text, typer.Option(metavar="FILE", rich_help_panel=_WHAT, help="Run this program or script of the node.")
    ] = None,
    upload: Annotated[
        Text,
        typer.Option(metavar="FILE|ARTIFACT", rich_help_panel=_WHAT, help="Upload this script or program and run it."),
    ] = None,
    bring: Annotated[
        list[str] | None,
        typer.Option(
            "--bring",
            metavar="PATH=FILE|ARTIFACT",
            rich_help_panel=_WHAT,
            help="Put a file into the work folder; repeatable.",
        ),
    ] = None,
    archive: Annotated[
        Text,
        typer.Option(
            metavar="FILE|ARTIFACT", rich_help_panel=_WHAT, help="Unpack this tar or zip into the work folder."
        ),
    ] = None,
    package: Annotated[
        Text,
        typer.Option(
            metavar="FILE|ARTIFACT", rich_help_panel=_WHAT, help="Wheel, zip or tar with the code of --function."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="PATTERN",
            rich_help_panel=_WHAT,
            help="Keep these files of the work folder (rota outputs ID); repeatable.",
        ),
    ] = None,
    function: Annotated[
        Text,
        typer.Option(
            metavar="PKG.MOD:NAME", rich_help_panel=_WHAT, help="Call this Python function, with its @task options."
        ),
    ] = None,
    args: Annotated[
        Text, typer.Option(metavar="JSON", rich_help_panel=_WHAT, help="Positional arguments, a JSON array.")
    ] = None,
    kwargs: Annotated[
        Text, typer.Option(metavar="JSON", rich_help_panel=_WHAT, help="Named arguments, a JSON object.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", rich_help_panel=_WHAT, help="Environment variable; repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", rich_help_panel=_WHAT, help="Pass this secret as an environment variable; repeatable."
        ),
    ] = None,
    name: Annotated[Text, typer.Option(rich_help_panel=_WHAT, help="Name of the task.")] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", rich_help_panel=_WHAT, help="Tag to filter by; repeatable."),
    ] = None,
    from_file: bool = False,
) -> TaskSpec:
    """`from_file`: a manifest says what to run, so these options may not."""
    work = [given for given in (script, path, upload, function) if given is not None]
    if from_file and (work or command or args is not None or kwargs is not None):
        raise checks.wrong("--file", "the manifest says what to run; leave out the command, or -f")
    words, script_text = command or None, checks.script("--script", script)
    if len(work) > 1:
        raise checks.wrong("--script", "give one of --script, --path, --upload, --function")
    if not work and words is None and not from_file:
        raise checks.wrong("COMMAND", "say what to run: -- COMMAND…, --script, --path, --upload or --function")
    _check_arguments(words, function=function, args=args, kwargs=kwargs, package=package)
    arguments = checks.json_list("--args", args)
    return {
        "command": None if work else words,
        "script": script_text,
        "interpreter": checks.interpreter("--script", script, script_text),
        "path": path,
        "upload": checks.attachment("--upload", upload),
        "files": checks.named_attachments("--bring", bring or ()),
        "archive": checks.attachment("--archive", archive),
        "package": checks.attachment("--package", package),
        "outputs": keep or None,
        "function": checks.function_path("--function", function),
        "args": arguments if arguments is not None else words if work else None,
        "kwargs": checks.json_object("--kwargs", kwargs),
        "env": checks.pairs("--env", env or ()),
        "secrets": secret or None,
        "name": name,
        "tags": checks.pairs("--tag", tag or ()),
    }


def _check_arguments(words: list[str] | None, *, function: Text, args: Text, kwargs: Text, package: Text) -> None:
    if function is not None and words is not None:
        raise checks.wrong("--function", "a function takes its arguments from --args and --kwargs, not from a command")
    if function is None and kwargs is not None:
        raise checks.wrong("--kwargs", "only a --function takes named arguments")
    if function is None and package is not None:
        raise checks.wrong("--package", "only a --function has a package; use --archive for the files of other work")
    if args is not None and words is not None:
        raise checks.wrong("--args", "the arguments are already given as words; leave out --args")


def room_to_run_in(
    cpu: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="CPU cores: 1.5 or 500m.")] = None,
    cpu_limit: Annotated[
        Text,
        typer.Option(
            metavar="burst|quota",
            rich_help_panel=_RESOURCES,
            help="quota: never more CPU than granted, for repeatable timings; burst: idle CPU too, if the plan allows.",
        ),
    ] = None,
    memory: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="Memory: 512M, 2Gi.")] = None,
    disk: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="Disk space: 10G.")] = None,
    iops: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="Disk operations per second: 500, 5k.")] = None,
    bandwidth: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="Network bits per second: 100M.")] = None,
    gpu: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="GPUs: 2, or a fraction of one: 0.5.")] = None,
    port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="COUNT", min=1, rich_help_panel=_RESOURCES, help="Number of TCP ports; repeated counts add up."
        ),
    ] = None,
    custom: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AMOUNT", rich_help_panel=_RESOURCES, help="Amount of a custom resource; repeatable."
        ),
    ] = None,
    tier: Annotated[
        Text, typer.Option(rich_help_panel=_RESOURCES, help="Named amounts: basic, regular, premium, …")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=VALUE", rich_help_panel=_RESOURCES, help="Run only on nodes with this label; repeatable."
        ),
    ] = None,
    image: Annotated[
        Text,
        typer.Option(metavar="IMAGE", rich_help_panel=_RESOURCES, help="Run in this container image, or rootfs:NAME."),
    ] = None,
    isolation: Annotated[
        Text,
        typer.Option(metavar="none|sandbox|container", rich_help_panel=_RESOURCES, help="Isolation from other tasks."),
    ] = None,
    may_submit: Annotated[
        bool, typer.Option("--may-submit", rich_help_panel=_WHAT, help="Let the running task submit tasks.")
    ] = False,
    network: Annotated[
        bool, typer.Option("--network", rich_help_panel=_RESOURCES, help="Give a sandboxed task network access.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_RESOURCES, help="Limit of processes and threads.")
    ] = None,
    log_limit: Annotated[
        Text, typer.Option(metavar="SIZE", rich_help_panel=_RESOURCES, help="Output to keep of each attempt.")
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", rich_help_panel=_RESOURCES, help="Mount a folder that the operator named; repeatable."
        ),
    ] = None,
    pool: Annotated[Text, typer.Option(rich_help_panel=_RESOURCES, help="Pool of nodes to run in.")] = None,
    unplaceable: Annotated[
        Text,
        typer.Option(metavar="refuse|wait", rich_help_panel=_RESOURCES, help="What to do if no node is large enough."),
    ] = None,
) -> TaskSpec:
    return {
        "cpu": checks.cores("--cpu", cpu),
        "cpu_limit": checks.one_of("--cpu-limit", cpu_limit, CPU_LIMITS),
        "memory": checks.size("--memory", memory),
        "disk": checks.size("--disk", disk),
        "iops": checks.amount("--iops", iops),
        "bandwidth": checks.bandwidth("--bandwidth", bandwidth),
        "gpus": checks.gpus("--gpu", gpu),
        "ports": sum(port) if port else None,
        "custom": checks.counts("--custom", custom or ()),
        "tier": tier,
        "require": checks.pairs("--require", require or ()),
        "image": image,
        "isolation": checks.one_of("--isolation", isolation, ("none", "sandbox", "container")),
        "may_submit": may_submit or None,
        "network": network or None,
        "processes": processes,
        "log_limit": checks.size("--log-limit", log_limit),
        "mounts": mount or None,
        "pool": pool,
        "unplaceable": checks.one_of("--unplaceable", unplaceable, ("refuse", "wait")),
    }


def when_to_run(
    category: Annotated[
        Text, typer.Option(rich_help_panel=_WHEN, help="Defaults: tolerance, lane, cap, isolation (category list).")
    ] = None,
    lane: Annotated[
        Text, typer.Option(rich_help_panel=_WHEN, help="Lane: urgent, normal, periodic, off-peak, …")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(rich_help_panel=_WHEN, help="Order among your own tasks; higher runs first.")
    ] = None,
    cap: Annotated[Text, typer.Option(rich_help_panel=_WHEN, help="Time limit of an attempt: 90, 30s, 2h30m.")] = None,
    tolerance: Annotated[Text, typer.Option(rich_help_panel=_WHEN, help="How long the start may be delayed.")] = None,
    preemptible: Annotated[
        bool,
        typer.Option(
            "--preemptible", rich_help_panel=_WHEN, help="May be stopped for other tasks, and run again later."
        ),
    ] = False,
    attempts: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_WHEN, help="Total attempts; 1 means no retry.")
    ] = None,
    backoff: Annotated[
        Text, typer.Option(rich_help_panel=_WHEN, help="Delay before the second attempt; doubles each time.")
    ] = None,
    backoff_limit: Annotated[Text, typer.Option(rich_help_panel=_WHEN, help="Longest delay between attempts.")] = None,
    retry_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE[,RULE]", rich_help_panel=_WHEN, help="Retry only on: exit=75:30s, error=NAME, timeout."
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE[,RULE]", rich_help_panel=_WHEN, help="Never retry on: exit=2, error=ValueError."),
    ] = None,
    at: Annotated[
        Text, typer.Option(metavar="TIME", rich_help_panel=_WHEN, help="Earliest start: 2030-01-31T09:00:00Z.")
    ] = None,
    in_: Annotated[
        Text,
        typer.Option("--in", metavar="DURATION", rich_help_panel=_WHEN, help="Delay before the earliest start."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[,ID]", rich_help_panel=_WHEN, help="Start after these tasks are done; repeatable."),
    ] = None,
    after_end: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[,ID]", rich_help_panel=_WHEN, help="Start after these tasks end, however they end."),
    ] = None,
    after_failed: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[,ID]", rich_help_panel=_WHEN, help="Start only if these tasks fail."),
    ] = None,
    expire: Annotated[
        bool,
        typer.Option("--expire", rich_help_panel=_WHEN, help="Drop the task if it can't start within --tolerance."),
    ] = False,
    upstream: Annotated[
        Text, typer.Option(metavar="skip|run", rich_help_panel=_WHEN, help="What to do if a task of --after fails.")
    ] = None,
    array: Annotated[
        Text, typer.Option(metavar="A-B[%N]", rich_help_panel=_WHEN, help="Run one task per index, at most N at once.")
    ] = None,
    concurrency_key: Annotated[
        Text, typer.Option(rich_help_panel=_WHEN, help="Limit how many tasks with this key run at once.")
    ] = None,
    concurrency_limit: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_WHEN, help="Tasks with the key that run at once. [default: 1]")
    ] = None,
    concurrency_scope: Annotated[
        Text,
        typer.Option(metavar="pool|global", rich_help_panel=_WHEN, help="Where the key is counted. [default: pool]"),
    ] = None,
    idempotency_key: Annotated[
        Text, typer.Option(rich_help_panel=_WHEN, help="Submitting the same key again returns the same task.")
    ] = None,
) -> TaskSpec:
    if at is not None and in_ is not None:
        raise checks.wrong("--at", "give --at or --in, not both")
    return {
        "category": category,
        "lane": lane,
        "priority": priority,
        "cap": checks.duration("--cap", cap),
        "tolerance": checks.duration("--tolerance", tolerance),
        "on_late": "drop" if expire else None,
        "preemptible": preemptible or None,
        "attempts": attempts,
        "backoff": checks.duration("--backoff", backoff),
        "backoff_limit": checks.duration("--backoff-limit", backoff_limit),
        "retry_on": checks.retry_rules("--retry-on", retry_on or (), retry=True),
        "fail_on": checks.retry_rules("--fail-on", fail_on or (), retry=False),
        "at": checks.moment("--at", at),
        "delay": checks.duration("--in", in_),
        "after": checks.ids("--after", after or ()),
        "after_end": checks.ids("--after-end", after_end or ()),
        "after_failed": checks.ids("--after-failed", after_failed or ()),
        "upstream": checks.one_of("--upstream", upstream, ("skip", "run")),
        "array": checks.array("--array", array),
        "concurrency_key": concurrency_key,
        "concurrency_limit": concurrency_limit,
        "concurrency_scope": checks.one_of("--concurrency-scope", concurrency_scope, ("pool", "global")),
        "idempotency_key": checks.idempotency_key(idempotency_key),
    }


def takes_task_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options that describe a task; it receives them as its argument `spec`.

    If the command's own `file` is given, the manifest says what to run.
    """
    return _with_task_options(command, without=(), check=lambda given: None)


def takes_schedule_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same without the options that a schedule replaces; the schedule's name comes before the command."""
    replaced = ("at", "in_", "after", "after_end", "after_failed", "upstream", "idempotency_key")
    return _with_task_options(command, without=replaced, check=_check_name)


def _check_name(given: dict[str, Any]) -> None:
    """The first word is the schedule's name; without it, the command was taken for the name."""
    name, work = given["schedule"], [given[option] for option in _WORK]
    if name is None and given["file"] is None:
        raise checks.wrong("NAME", "name the schedule: rota schedule add backup --daily 02:30 -- backup.sh")
    if name is not None and not any((*work, given["file"])):
        raise checks.wrong(
            "COMMAND", f"say what to run: rota schedule add NAME … -- COMMAND; {name!r} was taken for the name"
        )


def _with_task_options(
    command: Callable[..., None], *, without: tuple[str, ...], check: Callable[[dict[str, Any]], None]
) -> Callable[..., None]:
    parts: dict[Callable[..., Any], dict[str, inspect.Parameter]] = {
        part: {
            name: option
            for name, option in inspect.signature(part, eval_str=True).parameters.items()
            if name not in ("from_file", *without)
        }
        for part in (what_to_run, room_to_run_in, when_to_run)
    }

    withheld = {"delay" if name == "in_" else name for name in without}

    def spec_of(given: dict[str, Any]) -> TaskSpec:
        check(given)
        spec: dict[str, Any] = {}
        for part, options in parts.items():
            from_file = {"from_file": given["file"] is not None} if part is what_to_run else {}
            spec |= part(**{name: given.pop(name) for name in options}, **from_file)
        return with_own_options(cast(TaskSpec, spec), without=withheld)

    every = {name: option for options in parts.values() for name, option in options.items()}
    return with_options(command, "spec", every, spec_of)
