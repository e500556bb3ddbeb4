"""`rota tier` and `rota category`: what clients may name instead of numbers. Anyone reads, administrators change."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import catalogue_tables
from rota.cli.tables.render import examples
from rota.client.calls import catalogue_calls

_Tier = Annotated[str, typer.Argument(metavar="NAME", help="A tier's name.")]
_Category = Annotated[str, typer.Argument(metavar="NAME", help="A category's name.")]
_Text = str | None


def add_to(app: typer.Typer) -> None:
    tier = typer.Typer(help="Tiers: amounts under a name.", rich_markup_mode="rich")
    tier.command("list", epilog=examples("rota tier list"))(list_tiers)
    tier.command(
        "set",
        epilog=examples("rota tier set huge --cpu 16 --memory 64G --gpu 1", "rota tier set basic --memory 512M"),
    )(set_tier)
    tier.command("remove", epilog=examples("rota tier remove huge"))(remove_tier)
    app.add_typer(tier, name="tier")
    category = typer.Typer(help="Categories: tolerance, lane and cap under a name.", rich_markup_mode="rich")
    category.command("list", epilog=examples("rota category list"))(list_categories)
    category.command(
        "set",
        epilog=examples(
            "rota category set report --tolerance 2h --lane off-peak --cap 1h",
            "rota category set report --cap none",
        ),
    )(set_category)
    category.command("remove", epilog=examples("rota category remove report"))(remove_category)
    app.add_typer(category, name="category")


def list_tiers(output_format: Output = Format.TABLE) -> None:
    """All tiers, and what each stands for."""
    show(catalogue_calls.tiers(), output_format, catalogue_tables.tiers)


def set_tier(
    name: _Tier,
    cpu: Annotated[_Text, typer.Option(metavar="CORES")] = None,
    memory: Annotated[_Text, typer.Option(metavar="SIZE")] = None,
    disk: Annotated[_Text, typer.Option(metavar="SIZE")] = None,
    iops: Annotated[_Text, typer.Option(metavar="N", help="Disk operations a second.")] = None,
    gpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="Whole GPUs.")] = None,
    bandwidth: Annotated[_Text, typer.Option(metavar="BITS", help="Bits a second: 100M.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Make a tier, or change one. What is not named stays as it is; a new one needs --cpu and --memory."""
    given: dict[str, object] = {
        "cpu": checks.cores("--cpu", cpu),
        "memory": checks.size("--memory", memory),
        "disk": checks.size("--disk", disk),
        "iops": checks.amount("--iops", iops),
        "gpus": gpu,
        "bandwidth": checks.bandwidth("--bandwidth", bandwidth),
    }
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("name at least one amount", param_hint="tier set")
    show(catalogue_calls.set_tier(name, changes), output_format, catalogue_tables.tier)


def remove_tier(name: _Tier, output_format: Output = Format.TABLE) -> None:
    """Remove a tier that no plan names. Tasks keep the amounts they got."""
    show(catalogue_calls.remove_tier(name), output_format, lambda _: f"tier {name} is removed")


def list_categories(output_format: Output = Format.TABLE) -> None:
    """All categories, and what each stands for."""
    show(catalogue_calls.categories(), output_format, catalogue_tables.categories)


def set_category(
    name: _Category,
    tolerance: Annotated[_Text, typer.Option(metavar="DURATION|none", help="How long a start may wait.")] = None,
    lane: Annotated[_Text, typer.Option(metavar="LANE|none")] = None,
    cap: Annotated[_Text, typer.Option(metavar="DURATION|none", help="Longest execution.")] = None,
    isolation: Annotated[_Text, typer.Option(metavar="NAME|none", help="Kept for later.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Make a category, or change one. What is not named stays as it is; none means that it says nothing."""
    changes: dict[str, object] = {}
    for field, text in (("tolerance", tolerance), ("cap", cap)):
        if text is not None:
            changes[field] = None if text == "none" else checks.duration(f"--{field}", text)
    for field, text in (("lane", lane), ("isolation", isolation)):
        if text is not None:
            changes[field] = None if text == "none" else text
    show(catalogue_calls.set_category(name, changes), output_format, catalogue_tables.category)


def remove_category(name: _Category, output_format: Output = Format.TABLE) -> None:
    """Remove a category. Tasks keep what they took from it."""
    show(catalogue_calls.remove_category(name), output_format, lambda _: f"category {name} is removed")
