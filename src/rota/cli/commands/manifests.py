"""`-f rota.yaml` for `submit`, `run`, `validate` and `schedule`: reads, checks and sends a manifest."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.commands.artifacts import planned, uploaded
from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, SUBMIT_RETRY_SECONDS, connect, leaving_tasks_running
from rota.cli.shell.output import Format
from rota.cli.tables import graph_tables, schedule_tables, waiting_tables
from rota.client.calls import manifest_calls, schedule_calls
from rota.client.calls.call import Call
from rota.client.calls.conversations import wait_for_all
from rota.client.calls.outcomes import failure_of
from rota.client.errors import Refused
from rota.client.options import TaskSpec, overridden
from rota.model.answers.schedules import ScheduleDocument, SchedulePreview
from rota.model.answers.waiting import PreviewDocument
from rota.model.request.task_request import TaskRequest

if TYPE_CHECKING:
    from rota.client._sync.client import Client
    from rota.client.manifest.load import Manifest

ManifestFile = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="Manifest (rota.yaml); - reads stdin.")
]
Variables = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Variable of the manifest; repeatable.")
]

# Options whose name is not that of their field.
_OPTION_OF = {
    "delay": "--in",
    "files": "--bring",
    "gpus": "--gpu",
    "mounts": "--mount",
    "outputs": "--keep",
    "ports": "--port",
    "secrets": "--secret",
    "tags": "--tag",
}
_OF_THE_WHOLE = ("idempotency_key",)  # options that may be given with a graph


def read(file: str, variables: list[str] | None) -> Manifest:
    from rota.client.manifest import load, tree, values  # noqa: PLC0415 - slow: YAML and time zones

    given = checks.pairs("--set", variables or ()) or {}
    for name in given:
        if not values.VARIABLE_NAME.fullmatch(name):
            raise checks.wrong(
                "--set", f"{name!r} is not a variable's name; names have letters, digits and underscores"
            )
    if file != "-":
        return load.load_manifest(Path(file), given)
    data = sys.stdin.buffer.read(tree.LARGEST_BYTES + 1)
    return load.read_manifest(data, file="standard input", folder=Path(), variables=given)


def without_file(variables: list[str] | None) -> None:
    if variables:
        raise checks.wrong("--set", "only a manifest has variables; give one with -f")


def one_task(manifest: Manifest, spec: TaskSpec) -> TaskRequest:
    """The manifest's task, with the options of the command line. A graph is refused: it has many tasks."""
    if manifest.is_graph:
        raise checks.wrong("--file", f"{manifest.file} is a graph, and rota run shows one task; use rota submit -f")
    return overridden(manifest.tasks[0], spec)


def graph_key(manifest: Manifest, spec: TaskSpec) -> str | None:
    """The idempotency key of a whole graph. Any other option is refused as ambiguous."""
    for name, value in spec.items():
        if value is not None and name not in _OF_THE_WHOLE:
            option = _OPTION_OF.get(name, "--" + name.replace("_", "-"))
            raise checks.wrong(option, f"{manifest.file} is a graph; set this in its defaults or in one of its tasks")
    return spec.get("idempotency_key")


@contextmanager
def placing(manifest: Manifest | None, *, of_schedule: bool = False) -> Iterator[None]:
    """Adds the manifest's lines to a refusal by the server."""
    try:
        yield
    except Refused as refusal:
        if manifest is None or not refusal.faults:
            raise
        raise manifest.located(refusal, of_schedule=of_schedule) from None


def add_schedule(
    manifest: Manifest, spec: TaskSpec, *, name: str | None, said: dict[str, Any], output_format: Format
) -> None:
    """Add a schedule for the manifest. Options of the command line override the file."""
    with connect(SUBMIT_RETRY_SECONDS) as client:
        tasks = _tasks(client, manifest, spec)
        call = manifest_calls.scheduled(manifest, name=name, options=said, tasks=tasks)
        _show_schedule(client, manifest, call, output_format)


def apply_schedule(manifest: Manifest, spec: TaskSpec, *, output_format: Format) -> None:
    """Make the manifest's schedule, or change it to be like the file."""
    with connect(SUBMIT_RETRY_SECONDS) as client:
        call = manifest_calls.applied(manifest, options={}, tasks=_tasks(client, manifest, spec))
        with placing(manifest, of_schedule=True):
            body = client.exchange(call)
    output.result(output_format, body, lambda: schedule_tables.applied(call.read(body)))


def preview_schedule(
    manifest: Manifest,
    spec: TaskSpec,
    *,
    name: str | None = None,
    said: dict[str, Any] | None = None,
    only_new: bool = False,
    output_format: Format,
) -> None:
    """Show what applying the manifest's schedule would do, and its next runs. `only_new`: it may not exist yet."""
    ready, uploads = planned(spec)
    call = manifest_calls.preview_schedule(
        manifest, name=name, options=said or {}, tasks=_scheduled_tasks(manifest, ready), uploads=uploads
    )
    show_schedule_preview(call, manifest, only_new=only_new, output_format=output_format)


def show_schedule_preview(
    call: Call[SchedulePreview], manifest: Manifest | None, *, only_new: bool, output_format: Format
) -> None:
    """Show the preview; exit 4 if the server would refuse the schedule."""
    with connect() as client, placing(manifest, of_schedule=True):
        body = client.exchange(call)
    found = call.read(body)
    output.result(output_format, body, lambda: schedule_tables.preview(found))
    if only_new and found.result != "created":
        output.note(
            f"there is a schedule {found.name} already: add would refuse it; change it with rota schedule edit "
            f"{found.name}, or apply a manifest of it with rota submit -f"
        )
        raise typer.Exit(4)
    if not found.accepted:
        raise typer.Exit(4)


def edit_schedule(
    manifest: Manifest, name: str, version: int | None, *, said: dict[str, Any], output_format: Format
) -> None:
    """Replace a schedule's work by the manifest's, and its rule if the manifest has one."""
    options = manifest_calls.schedule_options(manifest, said)
    with connect() as client:
        version = version or client.schedules.get(name).version
        call = schedule_calls.edit(name, version, options, manifest_calls.schedule_work(manifest))
        _show_schedule(client, manifest, call, output_format)


def _show_schedule(client: Client, manifest: Manifest, call: Call[ScheduleDocument], output_format: Format) -> None:
    with placing(manifest, of_schedule=True):
        body = client.exchange(call)
    output.result(output_format, body, lambda: schedule_tables.one(call.read(body)))


def _tasks(client: Client, manifest: Manifest, spec: TaskSpec) -> list[TaskRequest]:
    return _scheduled_tasks(manifest, spec if manifest.is_graph else uploaded(client, spec))


def _scheduled_tasks(manifest: Manifest, spec: TaskSpec) -> list[TaskRequest]:
    """The tasks with the options of the command line, whose files were uploaded or planned."""
    if not manifest.is_graph:
        return [one_task(manifest, spec)]
    if graph_key(manifest, spec) is not None:
        raise checks.wrong("--idempotency-key", "every run of a schedule is new; leave the key out")
    return list(manifest.tasks)


def submit_graph(manifest: Manifest, key: str, *, wait: bool, output_format: Format) -> None:
    """Submit a graph and print its id and the ids of its tasks; with `wait`, wait until all have ended."""
    with connect(FOLLOW_RETRY_SECONDS if wait else SUBMIT_RETRY_SECONDS) as client:
        call = manifest_calls.submit_graph(manifest, key)
        with placing(manifest):
            body = client.exchange(call)
        graph = call.read(body)
        ids = graph.tasks
        output.result(output_format, body, lambda: graph_tables.ids({"graph": graph.id, **ids}))
        if wait:
            with leaving_tasks_running(list(ids.values())):
                _until_ended(client, ids)


def _until_ended(client: Client, ids: dict[str, int]) -> None:
    """Names the tasks that are not done, and exits with 1 if there are any."""
    ended = client.converse(
        wait_for_all(list(ids.values()), None, time.monotonic, longest_seconds=client.longest_wait_seconds)
    )
    failures = {name: failure_of(ended[task_id]) for name, task_id in ids.items()}
    for name, failure in failures.items():
        if failure is not None:
            output.note(f"{name}: {failure}")
    if any(failures.values()):
        raise typer.Exit(1)


def preview(call: Call[PreviewDocument], manifest: Manifest | None, output_format: Format) -> None:
    """Show what would happen; exit 4 if the server would refuse it."""
    with connect() as client, placing(manifest):
        body = client.exchange(call)
    found = call.read(body)
    output.result(output_format, body, lambda: waiting_tables.preview(found))
    if not found.accepted:
        raise typer.Exit(4)
