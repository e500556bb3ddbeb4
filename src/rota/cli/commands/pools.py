"""`rota pool` and `rota lane`: the rules of scheduling. Everyone reads them, administrators change them."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables import catalogue_tables, cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import catalogue_calls

_Pool = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pool.")]
_Lane = Annotated[str, typer.Argument(metavar="NAME", help="Name of the lane.")]


def add_to(app: typer.Typer) -> None:
    pool = add_group(app, "pool", "Manage pools of nodes.")
    add_command(pool, "list", list_pools, "rota pool list")
    add_command(pool, "show", show_pool, "rota pool show default")
    add_command(pool, "add", add_pool, "rota pool add render --elastic --peak 70")
    add_command(pool, "set", set_pool, "rota pool set default --running-tasks 500", "rota pool set render --no-elastic")
    add_command(pool, "pause", pause_pool, "rota pool pause default")
    add_command(pool, "resume", resume_pool, "rota pool resume default")
    lane = add_group(app, "lane", "Manage lanes: the order in which tasks are served.")
    add_command(lane, "list", list_lanes, "rota lane list")
    add_command(lane, "add", add_lane, "rota lane add batch --level 2 --gated --no-promotes")
    add_command(lane, "set", set_lane, "rota lane set batch --no-gated")


def list_pools(output_format: Output = Format.TABLE) -> None:
    """List all pools and their rules."""
    show(catalogue_calls.pools(), output_format, catalogue_tables.pools)


def show_pool(name: _Pool, output_format: Output = Format.TABLE) -> None:
    """Show the rules of a pool."""
    show(catalogue_calls.pool(name), output_format, catalogue_tables.pool)


def _pool_rules(
    elastic: Annotated[
        bool | None, typer.Option("--elastic/--no-elastic", help="Nodes can be added: refuse no task as too large.")
    ] = None,
    peak: Annotated[
        int | None, typer.Option(metavar="PERCENT", min=1, max=100, help="Peak mark. [default: 80]")
    ] = None,
    urgent_kept: Annotated[
        int | None, typer.Option(metavar="PERCENT", min=0, max=90, help="Share kept for urgent tasks. [default: 10]")
    ] = None,
    running_tasks: Annotated[str | None, typer.Option(metavar="N|none", help="Tasks that run at once.")] = None,
    isolation: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Isolations its tasks may use: none, sandbox, container; repeatable."),
    ] = None,
    identified_nodes: Annotated[
        bool | None,
        typer.Option(
            "--identified-nodes/--no-identified-nodes", help="Refuse workers' tokens: nodes join with a worker key."
        ),
    ] = None,
) -> dict[str, object]:
    rules = checks.given(
        elastic=elastic, peak_percent=peak, urgent_kept_percent=urgent_kept, identified_nodes=identified_nodes
    )
    if running_tasks is not None:
        rules["running_tasks"] = checks.limit("--running-tasks", running_tasks)
    if isolation is not None:
        rules["isolations"] = [word.strip() for words in isolation for word in words.split(",") if word.strip()]
    return rules


@takes("rules", _pool_rules)
def add_pool(name: _Pool, rules: dict[str, object], output_format: Output = Format.TABLE) -> None:
    """Add a pool. Workers join it with rota worker --pool NAME."""
    show(catalogue_calls.add_pool(name, rules), output_format, catalogue_tables.pool)


@takes("rules", _pool_rules)
def set_pool(name: _Pool, rules: dict[str, object], output_format: Output = Format.TABLE) -> None:
    """Change the rules of a pool. Options that are not given keep their values; none means unlimited."""
    checks.some("pool set", rules, "rule to change")
    show(catalogue_calls.change_pool(name, rules), output_format, catalogue_tables.pool)


def pause_pool(name: _Pool, output_format: Output = Format.TABLE) -> None:
    """Pause a pool: no task starts until it is resumed. Running tasks continue."""
    show(catalogue_calls.pause_pool(name), output_format, lambda one: cluster_tables.paused("pool", one))


def resume_pool(name: _Pool, output_format: Output = Format.TABLE) -> None:
    """Resume a pool, so that tasks start again."""
    show(catalogue_calls.resume_pool(name), output_format, lambda one: f"pool {one.name} goes on")


def list_lanes(output_format: Output = Format.TABLE) -> None:
    """List all lanes in the order in which they are served."""
    show(catalogue_calls.lanes(), output_format, catalogue_tables.lanes)


def _lane_rules(
    level: Annotated[
        int | None, typer.Option(min=0, help="Lower levels are served first; lanes of one level together. [default: 1]")
    ] = None,
    gated: Annotated[
        bool | None, typer.Option("--gated/--no-gated", help="Serve only below the pool's peak mark.")
    ] = None,
    promotes: Annotated[
        bool | None, typer.Option("--promotes/--no-promotes", help="Tasks become urgent when their tolerance runs out.")
    ] = None,
) -> dict[str, object]:
    return checks.given(level=level, gated=gated, promotes=promotes)


@takes("rules", _lane_rules)
def add_lane(
    *,
    name: _Lane,
    number: Annotated[
        int | None, typer.Option(min=0, help="Number of the lane; never changes. [default: the next free one]")
    ] = None,
    rules: dict[str, object],
    output_format: Output = Format.TABLE,
) -> None:
    """Add a lane. Tasks can use it within seconds; it can't be removed."""
    show(catalogue_calls.add_lane(name, checks.given(number=number) | rules), output_format, catalogue_tables.lane)


@takes("rules", _lane_rules)
def set_lane(name: _Lane, rules: dict[str, object], output_format: Output = Format.TABLE) -> None:
    """Change a lane. Options that are not given keep their values; its number never changes."""
    checks.some("lane set", rules, "thing to change")
    show(catalogue_calls.change_lane(name, rules), output_format, catalogue_tables.lane)
