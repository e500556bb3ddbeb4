"""`rota validate`: checks a manifest without a server; with `--server`, the server checks it too."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from rota.cli.commands import manifests
from rota.cli.commands.manifests import ManifestFile, Variables
from rota.cli.shell import checks, output
from rota.cli.shell.output import Format, Output
from rota.cli.tables.render import add_command
from rota.client.calls import manifest_calls


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "validate",
        validate,
        "rota validate rota.yaml",
        "rota validate etl.yaml --set DAY=2030-01-31 --server",
        "rota validate --schema > rota.schema.json",
    )


def validate(
    manifest_file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Manifest (rota.yaml); - reads stdin.", show_default=False)
    ] = None,
    file: ManifestFile = None,
    variables: Variables = None,
    server: Annotated[
        bool, typer.Option("--server", help="Also ask the server about limits, pools and resources. Exit 4 if refused.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of manifests, for editors.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Check a manifest and list all faults.

    Exit 0 if it is valid, 2 if not.
    """
    if file is not None and manifest_file is not None:
        raise checks.wrong("--file", f"{manifest_file} is given too; name the manifest once")
    file = file or manifest_file
    if schema:
        if file is not None or server:
            raise checks.wrong("--schema", "the schema is the same for every file; leave out the file and --server")
        from rota.client.manifest import schema as json_schema  # noqa: PLC0415 - slow: time zones

        output.say(json_schema.schema_text().rstrip("\n"))
        return
    if file is None:
        raise checks.wrong("FILE", "name the manifest: rota validate rota.yaml")
    manifest = manifests.read(file, variables)
    if server and manifest.schedule is not None:
        manifests.preview_schedule(manifest, {}, output_format=output_format)
    elif server:
        manifests.preview(manifest_calls.preview(manifest), manifest, output_format)
    elif output_format is Format.JSON:
        fields = ("file", "name", "tasks", "schedule")
        output.document(msgspec.json.encode({field: getattr(manifest, field) for field in fields}))
    else:
        count = len(manifest.tasks)
        graph = f"a graph of {count:,} task{'s' * (count != 1)}"
        when = "" if manifest.schedule is None else f", for schedule {manifest.schedule.name}"
        output.say(f"{manifest.file} is right: {graph if manifest.is_graph else 'one task'}{when}")
