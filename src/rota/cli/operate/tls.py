"""`rota tls`: an authority of one's own, the certificate of server nodes, and what to type with them.

`rota.cli.operate.authority` makes them; it is imported when a command runs, because only servers have its packages.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.operate.own_process import say
from rota.cli.shell.checks import wrong
from rota.cli.shell.output import Format, Output
from rota.cli.tables.render import add_command, add_group, table

_DAYS = 365
_MOST_DAYS = 3650

_Folder = Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Folder of the certificates and their keys.")]
_Name = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST[,HOST,IP…]", help="Names and addresses of server nodes; repeatable."),
]
_Days = Annotated[int, typer.Option(help="How long the certificate is valid.", metavar="DAYS")]


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "tls", "Make and renew certificates for server nodes.")
    add_command(group, "init", init, "rota tls init --name a.example.org,b.example.org,10.0.0.7")
    add_command(group, "renew", renew, "rota tls renew", "rota tls renew --name a,b,c --days 90")
    add_command(group, "show", show, "rota tls show", "rota tls show -o json")


def init(
    name: _Name = None,
    folder: _Folder = Path("rota-tls"),
    days: _Days = _DAYS,
    force: Annotated[bool, typer.Option("--force", help="Replace an authority that is there.")] = False,
) -> None:
    """Make an authority of your own, and a certificate for server nodes.

    Everybody who connects is given the file of the authority; nothing has to be bought or registered.
    """
    names = _names(name)
    if not names:
        raise wrong("--name", "name what clients and workers write in the address: a host, or several with commas")
    made = _done(lambda tools: tools.init(folder, names, days=_checked(days), now=_now(), replace=force))
    cert, key, ca = (shlex.quote(str(folder / part)) for part in ("server.pem", "server.key", "ca.pem"))
    host = f"[{names[0]}]" if ":" in names[0] else names[0]
    lines = [
        f"{folder}: an authority, and a certificate for {', '.join(made.names)} until {made.until:%Y-%m-%d}.",
        "",
        "Server nodes:         copy server.pem, server.key and ca.pem, then",
        f"  rota serve --tls-cert {cert} --tls-key {key} --ca {ca} --host 0.0.0.0 --url https://{host}:7070 …",
        "Workers and clients:  copy ca.pem, then",
        f"  rota worker --ca {ca} --server https://{host}:7070 …",
        f"  export ROTA_CA={ca} ROTA_SERVER=https://{host}:7070",
        "",
        "Keep ca.key to yourself: whoever has it can pass for your servers. Before the certificate expires,",
        "`rota tls renew` makes a new one; servers take it up without a restart.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def renew(
    folder: _Folder = Path("rota-tls"),
    name: _Name = None,
    days: _Days = _DAYS,
) -> None:
    """Make a new certificate by the same authority. Servers that read these files take it up without a restart.

    It is for the names of the present one, unless you give others.
    """
    names = _names(name)
    made = _done(lambda tools: tools.renew(folder, names, days=_checked(days), now=_now()))
    text = f"{made.path}: for {', '.join(made.names)} until {made.until:%Y-%m-%d} (serial {made.serial})"
    sys.stdout.write(f"{text}\nServer nodes on other machines need a copy of server.pem and server.key.\n")


def show(folder: _Folder = Path("rota-tls"), output_format: Output = Format.TABLE) -> None:
    """Show the authority and the certificate: names, serial numbers, dates."""
    made, now = _done(lambda tools: tools.show(folder)), _now()
    found = [
        {
            "path": one.path,
            "names": list(one.names),
            "serial": one.serial,
            "valid_from": one.since.isoformat(),
            "valid_until": one.until.isoformat(),
            "days_left": (one.until - now).days,
        }
        for one in made
    ]
    if output_format is Format.JSON:
        sys.stdout.write(json.dumps({"certificates": found}) + "\n")
        return
    rows = [
        (
            one.path,
            ", ".join(one.names) or "(the authority)",
            f"{one.until:%Y-%m-%d}",
            _left(one.until, now),
            one.serial,
        )
        for one in made
    ]
    sys.stdout.write(table(("FILE~", "NAMES~", "UNTIL", "DAYS LEFT>", "SERIAL~"), rows, empty="") + "\n")


def _left(until: datetime, now: datetime) -> str:
    days = (until - now).days
    return str(days) if until > now else "expired"


def _done(what: Callable[[Any], Any]) -> Any:
    """Does it with the tools that need cryptography; trouble becomes one sentence and an exit code."""
    tools = import_module("rota.cli.operate.authority")
    try:
        return what(tools)
    except tools.Trouble as trouble:
        raise typer.Exit(say(str(trouble), trouble.code)) from None


def _names(given: list[str] | None) -> tuple[str, ...]:
    if not given:
        return ()
    tools = import_module("rota.cli.operate.authority")
    try:
        found: tuple[str, ...] = tools.names_of(",".join(given))
    except ValueError as error:
        raise wrong("--name", str(error)) from None
    return found


def _checked(days: int) -> int:
    if not 1 <= days <= _MOST_DAYS:
        raise wrong("--days", f"it is a whole number from 1 to {_MOST_DAYS}, not {days}")
    return days


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
