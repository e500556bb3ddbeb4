"""`rota tenant`: adds, changes, pauses and lists tenants. For administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant.")]


def add_to(app: typer.Typer) -> None:
    tenant = add_group(app, "tenant", "Manage tenants (administrators).")
    add_command(tenant, "add", add, "rota tenant add acme --plan standard")
    add_command(tenant, "set", change, "rota tenant set acme --plan business", "rota tenant set acme --trusted")
    add_command(tenant, "pause", pause, "rota tenant pause acme")
    add_command(tenant, "resume", resume, "rota tenant resume acme")
    add_command(tenant, "list", list_tenants, "rota tenant list")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new tenant.")],
    plan: Annotated[str, typer.Option(metavar="PLAN", help="Its plan (rota plan list).")],
    trusted: Annotated[bool, typer.Option("--trusted", help="Its code may run without a sandbox.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Add a tenant. Unless it is trusted, its code runs in a sandbox."""
    call = cluster_calls.add_tenant(name, plan, trusted=trusted)
    show(call, output_format, lambda answer: f"tenant {answer.name} is made")


def change(
    name: _Name,
    plan: Annotated[str | None, typer.Option(metavar="PLAN", help="Its new plan.")] = None,
    trusted: Annotated[
        bool | None, typer.Option("--trusted/--untrusted", help="Whether its code may run without a sandbox.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change a tenant's plan, or whether it is trusted."""
    changes = checks.given(plan=plan, trusted=trusted)
    checks.some("tenant set", changes, "thing to change")
    show(
        cluster_calls.change_tenant(checks.word("NAME", name), changes),
        output_format,
        lambda answer: f"tenant {answer.name}: plan {answer.plan}, {'trusted' if answer.trusted else 'not trusted'}",
    )


def pause(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Pause a tenant: none of its tasks starts, in any pool, until it is resumed. Running tasks continue."""
    call = cluster_calls.pause_tenant(checks.word("NAME", name))
    show(call, output_format, lambda answer: cluster_tables.paused("tenant", answer))


def resume(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Resume a tenant, so that its tasks start again."""
    call = cluster_calls.resume_tenant(checks.word("NAME", name))
    show(call, output_format, lambda answer: f"tenant {answer.name} goes on")


def list_tenants(output_format: Output = Format.TABLE) -> None:
    """List all tenants and their plans."""
    show(cluster_calls.tenants(), output_format, cluster_tables.tenants)
