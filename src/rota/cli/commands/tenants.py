"""`rota tenant`: adds, changes, pauses and lists tenants. For administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls
from rota.model.answers.cluster import TenantDocument

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant.")]


def add_to(app: typer.Typer) -> None:
    tenant = add_group(app, "tenant", "Manage tenants (administrators).")
    add_command(tenant, "add", add, "rota tenant add acme --plan standard")
    add_command(
        tenant,
        "set",
        change,
        "rota tenant set acme --plan business",
        "rota tenant set acme --trusted",
        "rota tenant set acme --support on",
        "rota tenant set acme --share-control off",
    )
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
    support: Annotated[
        str | None,
        typer.Option(metavar="on|off", help="Whether viewers and operators everywhere see its logs, results, files."),
    ] = None,
    share_control: Annotated[
        str | None,
        typer.Option(metavar="on|off", help="Whether its members may cancel, hold and change each other's tasks."),
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change a tenant's plan, whether it is trusted, who looks into its tasks for support, and who changes them.

    --support and --share-control are also for administrators of the tenant, the others for administrators everywhere.
    """
    changes = checks.given(plan=plan, trusted=trusted)
    checks.one_of("--support", support, ("on", "off"))
    checks.one_of("--share-control", share_control, ("on", "off"))
    settings = {
        name: chosen == "on"
        for name, chosen in (("support", support), ("share_control", share_control))
        if chosen is not None
    }
    checks.some("tenant set", {**changes, **settings}, "thing to change")
    calls = [cluster_calls.change_tenant(checks.word("NAME", name), changes)] if changes else []
    if settings:
        calls.append(cluster_calls.change_settings(checks.word("NAME", name), settings))
    for call in calls[:-1]:
        with connect() as client:
            client.exchange(call)
    show(calls[-1], output_format, _tenant)


def _tenant(answer: TenantDocument) -> str:
    trust = "trusted" if answer.trusted else "not trusted"
    control = "" if answer.share_control else ", members change only their own tasks"
    return f"tenant {answer.name}: plan {answer.plan}, {trust}{', support on' if answer.support else ''}{control}"


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
