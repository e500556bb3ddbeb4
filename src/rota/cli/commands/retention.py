"""`rota retention`: how long ended tasks, their logs, events, deliveries and the audit log are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables.render import add_command, add_group, facts
from rota.client.calls import catalogue_calls
from rota.model.answers.catalogue import RetentionDocument
from rota.model.units import amount_text

_Days = Annotated[str | None, typer.Option(metavar="DAYS|none", help="Days after the end; none keeps forever.")]

_AuditDays = Annotated[
    str | None, typer.Option(metavar="DAYS|none", help="Days after the row; whole months are dropped together.")
]


def add_to(app: typer.Typer) -> None:
    retention = add_group(app, "retention", "Show and change how long data is kept.")
    add_command(retention, "show", show_retention, "rota retention show")
    add_command(
        retention, "set", set_retention, "rota retention set --tasks 90 --logs 14", "rota retention set --events none"
    )


def show_retention(output_format: Output = Format.TABLE) -> None:
    """Show how long data is kept."""
    show(catalogue_calls.retention(), output_format, _facts)


def set_retention(
    tasks: _Days = None,
    logs: _Days = None,
    events: _Days = None,
    deliveries: _Days = None,
    audit: _AuditDays = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change how long data is kept: from the next round of deletions, within 30 s (administrators).

    Options that are not given keep their values.
    """
    given = checks.given(tasks=tasks, logs=logs, events=events, deliveries=deliveries, audit=audit)
    changes = {f"{name}_days": checks.limit(f"--{name}", str(text).removesuffix("d")) for name, text in given.items()}
    checks.some("retention set", changes, "thing to keep")
    show(catalogue_calls.change_retention(changes), output_format, _facts)


def _facts(kept: RetentionDocument) -> str:
    pairs = {"tasks": kept.tasks_days, "logs": kept.logs_days, "events": kept.events_days}
    pairs |= {"deliveries": kept.deliveries_days, "audit": kept.audit_days}
    return facts((name, "forever" if days is None else amount_text(days, "day")) for name, days in pairs.items())
