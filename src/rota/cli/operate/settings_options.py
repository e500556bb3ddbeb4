"""Options that may also come from the environment (`ROTA_…`) or from `rota.toml`: the flag wins."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from rota.cli.shell.checks import wrong
from rota.model.units import bytes_of, milliseconds_of
from rota.settings import SettingsError, choose, read_file

Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="PostgreSQL 15+, e.g. postgresql://user@host/db; several hosts are fine. Else ROTA_DATABASE.",
    ),
]


def setting(name: str, flag: str | None, default: str) -> str:
    try:
        return str(choose(name, flag, read_file(None), default))
    except SettingsError as error:
        raise wrong("rota.toml", str(error)) from None


def size_setting(name: str, flag: str | None, default: str) -> int:
    option = f"--{name.replace('_', '-')}"
    try:
        amount = bytes_of(setting(name, flag, default))
    except ValueError as error:
        raise wrong(option, str(error)) from None
    if not 1 <= amount <= 2**40:
        raise wrong(option, "the size must be from 1 byte to 1Ti")
    return amount


def count_setting(name: str, flag: str | None, default: str, *, most: int) -> int:
    text = setting(name, flag, default)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise wrong(f"--{name.replace('_', '-')}", f"it is a whole number from 1 to {most:,}, not {text[:40]!r}")
    return int(text)


def seconds_setting(name: str, flag: str | None, default: str) -> float:
    option = f"--{name.replace('_', '-')}"
    text = setting(name, flag, default)
    try:
        seconds = milliseconds_of(text) / 1000
    except ValueError as error:
        raise wrong(option, str(error)) from None
    if not 0.1 <= seconds <= 3600:
        raise wrong(option, f"it is a duration from 100ms to 1h, not {text[:40]!r}")
    return seconds


def days_setting(name: str, flag: str | None, default: str) -> int:
    text = setting(name, flag, default)
    if not text.isascii() or not text.isdigit() or int(text) > 36_500:
        raise wrong(f"--{name.replace('_', '-')}", f"it is a whole number of days from 0 to 36,500, not {text[:40]!r}")
    return int(text)


def database_url(given: str | None) -> str:
    url = given or os.environ.get("ROTA_DATABASE")
    if not url:
        raise wrong("--database", "give --database or ROTA_DATABASE (or use `rota up`, which brings its own)")
    if not url.startswith(("postgresql://", "postgres://")):
        raise wrong("--database", "it must begin with postgresql://")
    fault = _port_fault(url)
    if fault is not None:
        raise wrong("--database", fault)
    return url


def _port_fault(url: str) -> str | None:
    """PostgreSQL's client would fail on a port that is no number without naming it."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    for host in hosts.split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            return f"{port[:40]!r} is not a port from 1 to 65535"
    return None
