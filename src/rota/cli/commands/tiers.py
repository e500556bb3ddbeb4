"""`rota tier` and `rota category`: names for amounts and defaults. Everyone reads them, administrators change them."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import catalogue_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import catalogue_calls
from rota.model.isolation import ISOLATIONS

_Tier = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tier.")]
_Category = Annotated[str, typer.Argument(metavar="NAME", help="Name of the category.")]
_Text = str | None


def add_to(app: typer.Typer) -> None:
    tier = add_group(app, "tier", "Manage tiers: named amounts of resources.")
    add_command(tier, "list", list_tiers, "rota tier list")
    add_command(
        tier, "set", set_tier, "rota tier set huge --cpu 16 --memory 64G --gpu 1", "rota tier set basic --memory 512M"
    )
    add_command(tier, "remove", remove_tier, "rota tier remove huge")
    category = add_group(app, "category", "Manage categories: named defaults for tolerance, lane, cap and isolation.")
    add_command(category, "list", list_categories, "rota category list")
    add_command(
        category,
        "set",
        set_category,
        "rota category set report --tolerance 2h --lane off-peak --cap 1h",
        "rota category set report --cap none",
        "rota category set untested --isolation sandbox",
    )
    add_command(category, "remove", remove_category, "rota category remove report")


def list_tiers(output_format: Output = Format.TABLE) -> None:
    """List all tiers and their amounts."""
    show(catalogue_calls.tiers(), output_format, catalogue_tables.tiers)


def set_tier(
    name: _Tier,
    cpu: Annotated[_Text, typer.Option(metavar="CORES")] = None,
    memory: Annotated[_Text, typer.Option(metavar="SIZE")] = None,
    disk: Annotated[_Text, typer.Option(metavar="SIZE", help="Disk space; 1G for a new tier.")] = None,
    iops: Annotated[_Text, typer.Option(metavar="N", help="Disk operations per second.")] = None,
    gpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="Whole GPUs.")] = None,
    bandwidth: Annotated[_Text, typer.Option(metavar="BITS", help="Network bits per second: 100M.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Add or change a tier. Options that are not given keep their values; a new tier needs --cpu and --memory."""
    changes = checks.given(
        cpu=checks.cores("--cpu", cpu),
        memory=checks.size("--memory", memory),
        disk=checks.size("--disk", disk),
        iops=checks.amount("--iops", iops),
        gpus=gpu,
        bandwidth=checks.bandwidth("--bandwidth", bandwidth),
    )
    checks.some("tier set", changes, "amount")
    show(catalogue_calls.set_tier(name, changes), output_format, catalogue_tables.tier)


def remove_tier(name: _Tier, output_format: Output = Format.TABLE) -> None:
    """Remove a tier that no plan uses. Tasks keep their amounts."""
    show(catalogue_calls.remove_tier(name), output_format, lambda _: f"tier {name} is removed")


def list_categories(output_format: Output = Format.TABLE) -> None:
    """List all categories and their defaults."""
    show(catalogue_calls.categories(), output_format, catalogue_tables.categories)


def set_category(
    name: _Category,
    tolerance: Annotated[_Text, typer.Option(metavar="DURATION|none", help="How long a start may be delayed.")] = None,
    lane: Annotated[_Text, typer.Option(metavar="LANE|none", help="Lane of tasks that name none.")] = None,
    cap: Annotated[_Text, typer.Option(metavar="DURATION|none", help="Time limit of an attempt.")] = None,
    isolation: Annotated[
        _Text,
        typer.Option(
            metavar="NAME|default",
            help="Isolation of tasks that name none: none, sandbox or container; default removes it.",
        ),
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Add or change a category: defaults for tasks that name it. Options that are not given keep their values.

    The value none removes a default; for --isolation the value default does. Tasks that were submitted do not change.
    """
    changes: dict[str, object] = {}
    for field, text in (("tolerance", tolerance), ("cap", cap)):
        if text is not None:
            changes[field] = None if text == "none" else checks.duration(f"--{field}", text)
    if lane is not None:
        changes["lane"] = None if lane == "none" else lane
    if checks.one_of("--isolation", isolation, (*ISOLATIONS, "default")) is not None:
        changes["isolation"] = None if isolation == "default" else isolation
    show(catalogue_calls.set_category(name, changes), output_format, catalogue_tables.category)


def remove_category(name: _Category, output_format: Output = Format.TABLE) -> None:
    """Remove a category. Tasks keep the values they took from it."""
    show(catalogue_calls.remove_category(name), output_format, lambda _: f"category {name} is removed")
