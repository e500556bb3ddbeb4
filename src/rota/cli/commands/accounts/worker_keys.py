"""`rota worker-key`: what new machines join a pool with.

A join token is printed once, alone on stdout, so that it can go straight into a file; the server keeps only its hash.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import account_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls

_Key = Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the worker key.", min=1)]


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "worker-key", "Manage worker keys: what new nodes join a pool with (operators).")
    add_command(group, "add", add, "rota worker-key add --pool gpu --uses 10 --for 1h > join.token")
    add_command(group, "list", list_keys, "rota worker-key list")
    add_command(group, "revoke", revoke, "rota worker-key revoke 3")


def add(
    pool: Annotated[str, typer.Option(metavar="NAME", help="Pool that the nodes join.")] = "default",
    uses: Annotated[int, typer.Option(metavar="N", help="How many nodes may join with it.", min=1, max=10_000)] = 1,
    lasts: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long it is good, from 1m to 30d.")
    ] = "1h",
    output_format: Output = Format.TABLE,
) -> None:
    """Make a worker key and print its join token, for rota worker --join. A node needs it at its first start only."""
    call = cluster_calls.add_worker_key(pool, uses=uses, lasts=checks.duration("--for", lasts) or lasts)
    show(call, output_format, lambda answer: answer.token)


def list_keys(output_format: Output = Format.TABLE) -> None:
    """List worker keys: uses left, last use, and until when each is good."""
    show(cluster_calls.worker_keys(), output_format, account_tables.worker_keys)


def revoke(key: _Key, output_format: Output = Format.TABLE) -> None:
    """Revoke a worker key: nothing joins with it any more. Nodes that joined with it stay."""
    show(cluster_calls.revoke_worker_key(key), output_format, lambda _: f"worker key {key} is revoked")
