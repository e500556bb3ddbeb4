"""`rota tenant`: who may use this Rota. For administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.connection import show
from rota.cli.output import Format, Output
from rota.cli.render import examples

NAMES = ("tenant",)


def add_to(app: typer.Typer) -> None:
    tenant = typer.Typer(help="Tenants (administrators).", rich_markup_mode="rich")
    tenant.command("add", epilog=examples("rota tenant add acme --plan regular"))(add)
    tenant.command("list", epilog=examples("rota tenant list"))(list_tenants)
    app.add_typer(tenant, name="tenant")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new tenant's name.")],
    plan: Annotated[str, typer.Option(metavar="PLAN", help="Its plan; see rota plan list.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Make a tenant."""
    from rota.client import cluster_calls

    call = cluster_calls.add_tenant(name, plan)
    show(call, output_format, lambda answer: f"tenant {answer.name} is made")


def list_tenants(output_format: Output = Format.TABLE) -> None:
    """All tenants and their plans."""
    from rota.cli import cluster_tables
    from rota.client import cluster_calls

    show(cluster_calls.tenants(), output_format, cluster_tables.tenants)
