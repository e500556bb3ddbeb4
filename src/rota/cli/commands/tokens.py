"""`rota token`: tokens for people, programs and workers. For administrators.

A new token is printed once, alone on stdout, so that it can go straight into a file; the server keeps only its
hash.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import cluster_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import cluster_calls
from rota.model.accounts.permissions import Role


def add_to(app: typer.Typer) -> None:
    token = add_group(app, "token", "Manage tokens (administrators).")
    add_command(
        token,
        "add",
        add,
        "rota token add --tenant acme --user ann --role member",
        "rota token add --tenant acme --user ci --role member --expires 2030-01-01T00:00:00Z > token",
    )
    add_command(token, "list", list_tokens, "rota token list")
    add_command(token, "revoke", revoke, "rota token revoke 3")


def add(
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Tenant whose tasks the token gives access to.")],
    user: Annotated[str, typer.Option(metavar="USER", help="User of the token.")],
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role: member, viewer, worker, operator, admin.")
    ] = "member",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Expiry, e.g. 2030-01-31T09:00:00Z.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Make a token and print it. It is not shown again."""
    checks.one_of("--role", role, [one.value for one in Role])
    call = cluster_calls.add_token(tenant=tenant, user=user, role=role, expires=checks.moment("--expires", expires))
    show(call, output_format, lambda answer: answer.token)


def list_tokens(output_format: Output = Format.TABLE) -> None:
    """List tokens, without their secret part."""
    show(cluster_calls.tokens(), output_format, cluster_tables.tokens)


def revoke(
    token_id: Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the token (rota token list).")],
    output_format: Output = Format.TABLE,
) -> None:
    """Revoke a token, effective at once."""
    show(cluster_calls.revoke_token(token_id), output_format, lambda _: f"token {token_id} is revoked")
