"""`rota plan`: the limits of subscriptions. For administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls
from rota.model.resources import CPU_LIMITS

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the plan.")]


def add_to(app: typer.Typer) -> None:
    plan = add_group(app, "plan", "Manage plans (administrators).")
    add_command(plan, "list", list_plans, "rota plan list")
    add_command(plan, "show", show_plan, "rota plan show standard")
    add_command(
        plan,
        "set",
        set_plan,
        "rota plan set standard --tasks-per-hour 5000 --burst 500",
        "rota plan set business --waiting-tasks none --longest-cap 24h --tiers basic,regular,premium",
        "rota plan set free --tolerance 4h",
        "rota plan set business --cpu-limit burst --tiers all",
    )


def list_plans(output_format: Output = Format.TABLE) -> None:
    """List all plans."""
    show(cluster_calls.plans(), output_format, cluster_tables.plans)


def show_plan(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Show the limits of a plan."""
    show(cluster_calls.plan(checks.word("NAME", name)), output_format, cluster_tables.plan)


def set_plan(
    name: _Name,
    tasks_per_hour: Annotated[
        str | None, typer.Option(metavar="N|none", help="Tasks submitted per hour, on average.")
    ] = None,
    burst: Annotated[
        str | None, typer.Option(metavar="N|none", help="Tasks submitted at once, beyond the average.")
    ] = None,
    waiting_tasks: Annotated[
        str | None, typer.Option(metavar="N|none", help="Tasks that have not ended, at any time.")
    ] = None,
    running_cpu: Annotated[str | None, typer.Option(metavar="CORES|none", help="CPU of all running tasks.")] = None,
    running_memory: Annotated[
        str | None, typer.Option(metavar="SIZE|none", help="Memory of all running tasks.")
    ] = None,
    longest_cap: Annotated[str | None, typer.Option(metavar="DURATION", help="Longest cap of a task.")] = None,
    tiers: Annotated[
        str | None,
        typer.Option(metavar="A,B|all", help="Tiers that its tasks may use; all: also those that are added later."),
    ] = None,
    weight: Annotated[int | None, typer.Option(min=1, help="Weight of its share against other plans.")] = None,
    running_tasks: Annotated[str | None, typer.Option(metavar="N|none", help="Tasks that run at once.")] = None,
    urgent_percent: Annotated[
        int | None, typer.Option(min=0, max=100, help="Share of the pool for urgent tasks while others wait.")
    ] = None,
    network: Annotated[
        bool | None, typer.Option("--network/--no-network", help="Sandboxed tasks may request network access.")
    ] = None,
    storage: Annotated[str | None, typer.Option(metavar="SIZE|none", help="Total size of artifacts.")] = None,
    log_limit: Annotated[str | None, typer.Option(metavar="SIZE|none", help="Most output kept of one attempt.")] = None,
    cpu_limit: Annotated[
        str | None,
        typer.Option(
            metavar="burst|quota|default",
            help="burst: its tasks may use idle CPU beyond their grant; quota: never more than the grant; default: "
            "burst for trusted tenants, quota for others.",
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|none", help="How long a start may be delayed if a task has no tolerance, category or cap."
        ),
    ] = None,
    schedules: Annotated[str | None, typer.Option(metavar="N|none", help="Schedules of a tenant.")] = None,
    webhooks: Annotated[str | None, typer.Option(metavar="N|none", help="Webhooks of a tenant.")] = None,
    tokens: Annotated[str | None, typer.Option(metavar="N|none", help="Valid tokens of a tenant.")] = None,
    secrets: Annotated[str | None, typer.Option(metavar="N|none", help="Secrets of a tenant.")] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="N|none", help="Stored graphs and arrays that a tenant submitted.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change a plan. Options that are not given keep their values; none means unlimited."""
    changes = checks.given(
        longest_cap=checks.duration("--longest-cap", longest_cap),
        weight=weight,
        urgent_percent=urgent_percent,
        network=network,
    )
    for field, text, check in (
        ("tasks_per_hour", tasks_per_hour, checks.limit),
        ("burst", burst, checks.limit),
        ("waiting_tasks", waiting_tasks, checks.limit),
        ("running_tasks", running_tasks, checks.limit),
        ("running_cpu", running_cpu, checks.cores),
        ("running_memory", running_memory, checks.size),
        ("schedules", schedules, checks.limit),
        ("webhooks", webhooks, checks.limit),
        ("tokens", tokens, checks.limit),
        ("secrets", secrets, checks.limit),
        ("graphs", graphs, checks.limit),
        ("storage", storage, checks.size),
        ("log_limit", log_limit, checks.size),
        ("tolerance", tolerance, checks.duration),
    ):
        if text is not None:
            changes[field] = None if text == "none" else check(f"--{field.replace('_', '-')}", text)
    if tiers is not None:
        named = [tier.strip() for tier in tiers.split(",") if tier.strip()]
        changes["tiers"] = None if named == ["all"] else named
    if checks.one_of("--cpu-limit", cpu_limit, (*CPU_LIMITS, "default")) is not None:
        changes["cpu_limit"] = None if cpu_limit == "default" else cpu_limit
    checks.some("plan set", changes, "limit to change")
    show(cluster_calls.change_plan(checks.word("NAME", name), changes), output_format, cluster_tables.plan)
