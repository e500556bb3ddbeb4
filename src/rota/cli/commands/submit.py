"""`rota submit` submits a task and prints its id; `rota run` shows its output and exits with its exit code.

`run` writes nothing of its own to stdout, which belongs to the task. Ctrl-C never stops the task.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rota.cli.commands import manifests
from rota.cli.commands.artifacts import planned, uploaded
from rota.cli.commands.manifests import ManifestFile, Variables
from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, SUBMIT_RETRY_SECONDS, connect, leaving_tasks_running
from rota.cli.shell.output import Format, Output, Raw
from rota.cli.shell.task_options import takes_task_options
from rota.cli.shell.terminal import TaskOutput, escape
from rota.cli.shell.trouble import OWN_TROUBLE, TRY_LATER
from rota.cli.tables import task_tables
from rota.cli.tables.progress_line import ProgressLine
from rota.cli.tables.render import add_command
from rota.client.calls import manifest_calls, task_calls, waiting_calls
from rota.client.calls.outcomes import failure_of
from rota.client.errors import RotaError
from rota.client.options import TaskSpec, request_of
from rota.client.transport.log_reader import LogChunk, LogEnd, LogProgress
from rota.model.output import MarkedText
from rota.model.request.task_request import TaskRequest
from rota.model.units import amount_text

if TYPE_CHECKING:
    from rota.client._sync.client import Client
    from rota.client.manifest.load import Manifest

# Everything after the command's first word belongs to it: `rota run ls -l` needs no `--`.
_WORDS_END_OPTIONS = {"allow_interspersed_args": False}


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "run",
        run,
        "rota run -- echo hello",
        "rota run --memory 2G --cap 10m -- python train.py --epochs 3",
        "rota run --script - < nightly.sh",
        "rota run --upload ./train.sh --bring data.csv=./data.csv -- --epochs 3",
        context_settings=_WORDS_END_OPTIONS,
    )
    add_command(
        app,
        "submit",
        submit,
        "rota submit --name nightly --cap 1h -- ./backup.sh /srv",
        "rota submit -f rota.yaml --set DAY=2030-01-31 --wait",
        "rota submit -f nightly.yaml --dry-run   # of a schedule: what would change",
        "rota submit --dry-run --cpu 8 --memory 32G -- ./train.sh",
        "rota submit --script report.py --after 7,8 --attempts 3 --backoff 30s",
        "rota submit --function shop.mail:send --kwargs '{\"to\": 7}' --in 10m --wait",
        context_settings=_WORDS_END_OPTIONS,
    )


@takes_task_options
def submit(
    spec: TaskSpec,
    file: ManifestFile = None,
    variables: Variables = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the task ends; exit 1 if it failed.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing; show what would happen. Exit 4 if refused.")
    ] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Submit a task or a manifest and print the id.

    A manifest with `schedule:` makes the schedule, changes it to be like the file, or says that it is unchanged. Once
    the id is printed, the task is stored durably.
    """
    if dry_run and wait:
        raise checks.wrong("--wait", "there is nothing to wait for in a --dry-run")

    manifest = _manifest(file, variables)
    if manifest is not None and manifest.schedule is not None:
        if wait:
            raise checks.wrong("--wait", f"{manifest.file} has a schedule, which has no end to wait for")
        apply = manifests.preview_schedule if dry_run else manifests.apply_schedule
        apply(manifest, spec, output_format=output_format)
        return
    if manifest is not None and manifest.is_graph:
        key = manifests.graph_key(manifest, spec) or _fresh_key()
        if dry_run:
            manifests.preview(manifest_calls.preview(manifest), manifest, output_format)
        else:
            manifests.submit_graph(manifest, key, wait=wait, output_format=output_format)
        return
    if dry_run:
        ready, uploads = planned(spec)
        manifests.preview(waiting_calls.preview_request(_request(ready, manifest), uploads), manifest, output_format)
        return
    with connect(FOLLOW_RETRY_SECONDS if wait else SUBMIT_RETRY_SECONDS) as client:
        request = _request(uploaded(client, spec), manifest)
        call = task_calls.submit_request(request, fresh_key=_fresh_key())
        with manifests.placing(manifest):
            body = client.exchange(call)
        made = call.read(body)
        task_id = made.id
        output.result(output_format, body, lambda: str(task_id))
        if wait:
            with leaving_tasks_running([task_id]):
                if made.array is not None:
                    _until_array_ended(client, task_id)
                    return
                ended = client.handle(task_id).wait()
            failure = failure_of(ended)
            if failure is not None:
                raise failure
            if ended.own_graph is not None and not _whole_is_done(client, ended.own_graph):
                raise typer.Exit(1)


def _whole_is_done(client: Client, graph: int) -> bool:
    """Waits for all that a task submitted; a note says if not all of it is done."""
    ended = client.graphs.wait(graph)
    if ended.status != "done":
        output.note(f"graph {graph}: {ended.counts.get('done', 0)} of {ended.size} are done (rota graph show {graph})")
    return ended.status == "done"


def _until_array_ended(client: Client, array_id: int) -> None:
    ended = client.graphs.wait(array_id)
    if ended.status != "done":
        output.note(f"array {array_id}: {ended.counts.get('done', 0)} of {ended.size} are done (rota show {array_id})")
        raise typer.Exit(1)


def _manifest(file: str | None, variables: list[str] | None) -> Manifest | None:
    if file is not None:
        return manifests.read(file, variables)
    manifests.without_file(variables)
    return None


def _request(spec: TaskSpec, manifest: Manifest | None) -> TaskRequest:
    return request_of(spec) if manifest is None else manifests.one_task(manifest, spec)


@takes_task_options
def run(
    spec: TaskSpec,
    file: ManifestFile = None,
    variables: Variables = None,
    raw: Raw = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Run a task and show its output as if it ran here.

    Exits with the task's exit code, with 75 if it expired (see --expire), or with 125 if Rota failed. A function's
    return value is printed as JSON. With -o json, prints one document at the end: the task with its output. With
    --may-submit, ends when all that the task submits has ended, and exits with 1 if not all of that is done.
    """
    if spec.get("array") is not None:
        raise checks.wrong("--array", "rota run shows one task; use rota submit --array")
    manifest = _manifest(file, variables)
    if manifest is not None and manifest.schedule is not None:
        raise checks.wrong("--file", f"{manifest.file} has a schedule, and rota run shows one task; use rota submit -f")
    started: list[int] = []
    with leaving_tasks_running(started), connect(SUBMIT_RETRY_SECONDS) as client:
        request = _request(uploaded(client, spec), manifest)
        with manifests.placing(manifest):
            started.append(client.perform(task_calls.submit_request(request, fresh_key=_fresh_key())).id)
        with connect(FOLLOW_RETRY_SECONDS) as patient:
            if output_format is Format.JSON:
                code = _print_document(patient, started[0])
                graph = patient.get(started[0]).own_graph if request.may_submit else None
                raise typer.Exit(code if graph is None or _whole_is_done(patient, graph) else code or 1)
            end = _show_output(patient, started[0], raw=raw)
            code = _exit_code(patient, started[0], end)
            if request.function is not None and end.state == "done":
                _show_result(patient, started[0])
            if request.outputs and end.state == "done":
                _name_outputs(patient, started[0])
            if request.may_submit:
                graph = patient.get(started[0]).own_graph
                code = code if graph is None or _whole_is_done(patient, graph) else code or 1
    raise typer.Exit(code)


def _show_output(client: Client, task_id: int, *, raw: bool) -> LogEnd:
    line = ProgressLine()
    targets = {
        "stdout": TaskOutput(sys.stdout.buffer, raw=raw or not sys.stdout.isatty()),
        "stderr": TaskOutput(sys.stderr.buffer, raw=raw or not sys.stderr.isatty()),
    }
    marked = {stream: MarkedText() for stream in targets}
    for item in client.follow(task_id, progress=line.is_wanted):
        if isinstance(item, LogProgress):
            line.say(item.fraction, item.message)
            continue
        line.hide()
        if isinstance(item, LogEnd):
            for target in targets.values():
                target.finish()
            if item.dropped_bytes:
                output.note(f"task {task_id}: {task_tables.cut(item.kept_bytes, item.dropped_bytes)}")
            return item
        shown = marked[item.stream].add(item.stream, item.data, left_out_bytes=item.left_out_bytes)
        targets[item.stream].write(shown)
        if item.data.endswith(b"\n"):  # else the task is in the middle of a line
            line.show()
    raise AssertionError("a followed log ends with a LogEnd or an error")


def _print_document(client: Client, task_id: int) -> int:
    """Print the ended task's document with its output; returns its exit code."""
    written = {"stdout": bytearray(), "stderr": bytearray()}
    marked = {stream: MarkedText() for stream in written}
    for item in client.follow(task_id):
        if isinstance(item, LogChunk):
            shown = marked[item.stream].add(item.stream, item.data, left_out_bytes=item.left_out_bytes)
            written[item.stream] += shown
        elif isinstance(item, LogEnd):
            call = task_calls.task(task_id)
            body = client.exchange(call)
            texts = {stream: bytes(data).decode(errors="backslashreplace") for stream, data in written.items()}
            output.document(msgspec.json.encode(msgspec.json.decode(body) | {"output": texts}))
            return _code(item, call.read(body).state)
    raise AssertionError("a followed log ends with a LogEnd or an error")


def _show_result(client: Client, task_id: int) -> None:
    result = client.get(task_id).result
    if result is not None:
        output.document(msgspec.json.encode(result))


def _name_outputs(client: Client, task_id: int) -> None:
    """Where to find what the task kept, because nothing of it is shown."""
    kept = len(client.get(task_id).outputs)
    files = amount_text(kept, "file") if kept else "no file"
    output.note(f"task {task_id} kept {files}" + (f": rota outputs {task_id} --download FOLDER" if kept else ""))


def _exit_code(client: Client, task_id: int, end: LogEnd) -> int:
    """The task's exit code, if it has one. Another cause (a limit, its cap, a bad result) is noted on stderr."""
    if end.state == "done":
        return end.exit_code or 0
    try:
        failure = failure_of(client.get(task_id))
    except RotaError as trouble:
        if not end.exit_code:
            raise
        output.note(f"the reason why task {task_id} failed can't be read: {trouble}")
        return _code(end, end.state)
    if failure is None:
        return 0
    if failure.traceback:
        sys.stderr.write(escape(failure.traceback.rstrip("\n")) + "\n")
    if failure.type != "exit-code":
        output.note(str(failure))
    return _code(end, failure.state)


def _code(end: LogEnd, state: str) -> int:
    if end.exit_code:
        return 128 - end.exit_code if end.exit_code < 0 else end.exit_code  # a signal, as shells number it
    return {"done": 0, "failed": 1, "expired": TRY_LATER}.get(state, OWN_TROUBLE)


def _fresh_key() -> str:
    return uuid.uuid4().hex
