"""`rota sign-in`: which roles ask for a second factor."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import sign_in_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import account_calls


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "sign-in", "Show and set who signs in with a second factor.")
    add_command(
        group,
        "rules",
        rules,
        "rota sign-in rules",
        "rota sign-in rules --second-factor admin --second-factor operator",
        "rota sign-in rules --second-factor none",
    )


def rules(
    second_factor: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE|none", help="A role whose holders need a second factor. Repeatable; none: no role."),
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Show, or set, which roles ask for a second factor (administrators).

    Whoever has such a role and no second factor sets one up when signing in next; their sessions end.
    """
    if not second_factor:
        show(account_calls.sign_in_rules(), output_format, sign_in_tables.rules)
        return
    if "none" in second_factor and len(second_factor) > 1:
        raise checks.wrong("--second-factor", "give roles, or none alone")
    roles = [] if second_factor == ["none"] else second_factor
    show(account_calls.set_sign_in_rules(roles), output_format, sign_in_tables.rules)
