"""`rota upload`, `rota artifact`, `rota outputs`: files for tasks, and files that tasks keep.

An artifact is named by its digest (`sha256:…`); the first eight digits or more are enough. Progress bars are drawn on
stderr, and only on a terminal.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, TaskId, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import artifact_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import artifact_calls, task_calls
from rota.client.calls.artifact_calls import Progress, no_progress
from rota.client.options import TaskSpec, local_files, with_artifacts
from rota.model.answers.tasks import OutputDocument, TaskDocument
from rota.model.artifact import digits_of, path_fault
from rota.model.request.preview_request import PlannedUpload

if TYPE_CHECKING:
    from rota.client._sync.client import Client

_Artifact = Annotated[str, typer.Argument(metavar="ARTIFACT", help="sha256:… or its first 8 or more digits.")]


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "upload",
        upload,
        "rota upload model.bin",
        "rota upload run.sh --name nightly.sh",
        "tar cz src | rota upload -",
    )
    add_command(app, "outputs", outputs, "rota outputs 7", "rota outputs 7 --download results")
    artifact = add_group(app, "artifact", "Manage uploaded files and the outputs of tasks.")
    add_command(artifact, "list", list_artifacts, "rota artifact list", "rota artifact list --limit 10 -o json")
    add_command(artifact, "show", show_artifact, "rota artifact show sha256:9f86d081884c")
    add_command(
        artifact,
        "download",
        download,
        "rota artifact download 9f86d081 model.bin",
        "rota artifact download 9f86d081 - | tar tz",
    )
    add_command(artifact, "remove", remove, "rota artifact remove 9f86d081")


def upload(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to upload; - reads stdin.")],
    name: Annotated[str | None, typer.Option(help="Name of the artifact. [default: the file's name]")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Store a file for tasks to use, and print its id."""
    if file != "-":
        _check_readable(file)
    with connect(FOLLOW_RETRY_SECONDS) as client, bar("uploading") as progress:
        source = sys.stdin.buffer if file == "-" else file
        try:
            made = client.artifacts.upload(source, name=name, progress=progress)
        except OSError as error:  # of the file: network errors are RotaErrors
            raise checks.wrong("FILE", f"{file}: {error.strerror or error}") from None
    output.result(output_format, msgspec.json.encode(made), lambda: made.short_id)


def list_artifacts(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List artifacts, newest first."""
    show(artifact_calls.artifacts(limit=limit, cursor=cursor), output_format, artifact_tables.artifacts)


def show_artifact(artifact: _Artifact, output_format: Output = Format.TABLE) -> None:
    """Show an artifact: size, name, owner and expiry."""
    show(artifact_calls.artifact(_checked(artifact)), output_format, artifact_tables.artifact)


def download(
    artifact: _Artifact,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Target file; - writes to stdout. [default: its name]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Download an artifact and check its digest."""
    reference = _checked(artifact)
    with connect(FOLLOW_RETRY_SECONDS) as client:
        found = client.artifacts.get(reference)
        # The name comes from the uploader: it must not lead out of this folder.
        target = file or os.path.basename(found.name) or found.sha256[:12]
        if target == "-":
            _refuse_terminal()
            with bar("downloading") as progress:
                client.artifacts.receive(found, sys.stdout.buffer, progress=progress)
            sys.stdout.buffer.flush()
            return
        path = Path(target)
        with _writing("FILE", path):
            if path.is_dir():
                path = path / (os.path.basename(found.name) or found.sha256[:12])
            if path.exists() and not force:
                raise checks.wrong("FILE", f"{path} exists; name another, or give --force")
            if not path.parent.is_dir():
                raise checks.wrong("FILE", f"the folder {path.parent} does not exist")
            with bar("downloading") as progress:
                client.artifacts.download(found.sha256, path, progress=progress)
    if output_format is Format.JSON:
        output.document(msgspec.json.encode({"artifact": found, "file": str(path)}))
    else:
        output.note(f"{path} is written")


def remove(artifact: _Artifact, output_format: Output = Format.TABLE) -> None:
    """Remove an artifact. Refused while a task that has not ended uses it."""
    show(artifact_calls.remove_artifact(_checked(artifact)), output_format, lambda _: "removed")


def outputs(
    task_id: TaskId,
    folder: Annotated[
        str | None, typer.Option("--download", metavar="DIR", help="Write the files into this folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """List or download the files that a task kept (submit --keep)."""
    with connect(FOLLOW_RETRY_SECONDS) as client:
        task = client.perform(task_calls.task(task_id))
        found = task.outputs
        if folder is not None:
            for one in found:
                _fetch(client, one, Path(folder), force=force)
    if output_format is Format.JSON:
        output.document(msgspec.json.encode({"outputs": found}))
    elif folder is None:
        output.say(artifact_tables.outputs(found, why_none=_why_none(task)))


def _why_none(task: TaskDocument) -> str:
    patterns = task.spec.get("outputs") or []
    if not patterns:
        return "name them with rota submit --keep PATTERN"
    if not task.ended:
        return f"they are kept when it has ended well; it is {task.status or task.state}"
    if task.state != "done":
        return f"they are kept when a task ends well, and it ended {task.state}"
    return f"it left nothing that fits {', '.join(map(repr, patterns))}"


def _fetch(client: Client, one: OutputDocument, folder: Path, *, force: bool) -> None:
    """The name comes from the task: it must not lead out of the folder."""
    if path_fault(one.name) is not None:
        raise checks.wrong("--download", f"the task gave an output the bad name {one.name!r}; it is not written")
    path = folder / one.name
    with _writing("--download", path):
        if path.exists() and not force:
            raise checks.wrong("--download", f"{path} exists; name another, or give --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        with bar("downloading") as progress:
            client.artifacts.download(one.artifact, path, progress=progress)
    output.note(f"{path} is written")


@contextmanager
def _writing(option: str, path: Path) -> Iterator[None]:
    """An OSError within is one of the file: network errors are RotaErrors."""
    try:
        yield
    except OSError as error:
        raise checks.wrong(option, f"{path} can't be written: {error.strerror or error}") from None


def _checked(reference: str) -> str:
    if digits_of(reference) is None:
        raise checks.wrong(
            "ARTIFACT", f"{reference[:80]!r} is not an artifact; write sha256:… or 8 to 64 of its digits"
        )
    return reference


def _check_readable(file: str) -> None:
    """Refuses folders, missing files and unreadable files before anything is sent."""
    try:
        mode = os.stat(file).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            hint = f"pipe its content to rota upload - < {file}"
            raise checks.wrong("FILE", f"{file} is not a regular file; {hint}")
        if stat.S_ISDIR(mode):
            hint = f"pack it first (tar cz {file} | rota upload -)"
            raise checks.wrong("FILE", f"{file} is a folder; {hint}")
        with open(file, "rb") as opened:
            opened.read(1)  # some files can be opened but not read
    except OSError as error:
        raise checks.wrong("FILE", f"{file}: {error.strerror}") from None


def _refuse_terminal() -> None:
    if sys.stdout.isatty():
        raise checks.wrong("FILE", "the bytes would go to the terminal; pipe them, or name a file")


def uploaded(client: Client, spec: TaskSpec) -> TaskSpec:
    """Uploads the local files of a task's spec; returns the spec with artifacts in their stead."""
    made = {}
    for source, name in local_files([spec]).items():
        with bar("uploading") as progress:
            made[source] = client.artifacts.upload(source, name=name, progress=progress).id
    return with_artifacts(spec, made) if made else spec


def planned(spec: TaskSpec) -> tuple[TaskSpec, list[PlannedUpload]]:
    """The spec with the artifacts that its local files would become, for a dry run: nothing is sent."""
    with bar("reading") as progress:
        [ready], uploads = artifact_calls.planned_uploads([spec], progress)
    return ready, uploads


@contextmanager
def bar(word: str) -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console  # noqa: PLC0415 - slow
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn  # noqa: PLC0415 - slow

    columns = (TextColumn(word), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(word, total=None)

        def advance(so_far: int, of: int | None) -> None:
            drawn.update(task, completed=so_far, total=of)

        yield advance
