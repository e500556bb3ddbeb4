"""Options of `rota serve` that bound what its HTTP clients may use: connections, header bytes, time."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.operate.settings_options import count_setting, seconds_setting, size_setting
from rota.cli.shell.checks import wrong
from rota.settings import HttpLimits


def http_options(
    connections: Annotated[
        str | None, typer.Option(metavar="COUNT", help="HTTP connections of this node. (default: 10000)")
    ] = None,
    connections_per_address: Annotated[
        str | None,
        typer.Option(metavar="COUNT", help="HTTP connections from one address. (default: 1000)"),
    ] = None,
    header_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Address and headers of a request. (default: 32Ki)")
    ] = None,
    header_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time for the headers of a request. (default: 10s)")
    ] = None,
    stall_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="End an upload or an answer that stalls for this long. (default: 60s)"),
    ] = None,
) -> HttpLimits:
    limits = HttpLimits(
        connections=count_setting("connections", connections, "10000", most=1_000_000),
        connections_per_address=count_setting(
            "connections_per_address", connections_per_address, "1000", most=1_000_000
        ),
        header_bytes=size_setting("header_limit", header_limit, "32Ki"),
        header_seconds=seconds_setting("header_timeout", header_timeout, "10s"),
        stall_seconds=seconds_setting("stall_timeout", stall_timeout, "60s"),
    )
    if not 1024 <= limits.header_bytes <= 2**20:
        raise wrong("--header-limit", "the size must be from 1Ki to 1Mi")
    return limits
