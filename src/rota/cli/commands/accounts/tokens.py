"""`rota token`: what programs send instead of a password.

A new token is printed once, alone on stdout, so that it can go straight into a file; the server keeps only its
hash.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated

import typer

from rota.cli.commands.accounts.role_options import account_name
from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import account_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import account_calls
from rota.model.accounts.permissions import BUNDLES, Role, Scope

NEVER = "never"

_Token = Annotated[str, typer.Argument(metavar="ID|NAME", help="Id or name of the token (rota token list).")]
_Expires = Annotated[
    str | None, typer.Option(metavar="WHEN", help="30d, 2030-01-31T09:00:00Z, or never (administrators everywhere).")
]


def add_to(app: typer.Typer) -> None:
    token = add_group(app, "token", "Manage tokens: what programs send instead of a password.")
    add_command(
        token,
        "add",
        add,
        "rota token add --name laptop",
        "rota token add --service-account ci --bundle ci --names 'etl-*' --expires 90d > token",
        "rota token add --name reader --scope tasks:read --scope logs:read --from 10.0.0.0/8",
        "rota token add --tenant acme --user ann --role member --expires 2030-01-01T00:00:00Z",
    )
    add_command(token, "list", list_tokens, "rota token list")
    add_command(token, "show", show_token, "rota token show laptop")
    add_command(token, "rotate", rotate, "rota token rotate laptop --overlap 1h > token", "rota token rotate 3")
    add_command(token, "revoke", revoke, "rota token revoke 3", "rota token revoke laptop")


def add(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Tenant whose tasks the token gives access to.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="USER", help="User of a token with a --role of its own, without an owner.")
    ] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Role of such a token: member, viewer, worker, operator, admin.")
    ] = None,
    expires: _Expires = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the token.")] = None,
    service_account: Annotated[
        str | None, typer.Option("--service-account", metavar="NAME", help="Owner: a service account.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="USER", help="Owner: another user (administrators everywhere).")
    ] = None,
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", metavar="SCOPE", help="What it may do, e.g. tasks:submit; repeat.")
    ] = None,
    bundles: Annotated[
        list[str] | None, typer.Option("--bundle", metavar="BUNDLE", help="ci, dashboard, autoscaler, prometheus.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Option("--names", metavar="GLOB", help="Only for tasks named like this; repeat.")
    ] = None,
    pools: Annotated[
        list[str] | None, typer.Option("--pool", metavar="POOL", help="Only for tasks in this pool; repeat.")
    ] = None,
    own: Annotated[bool, typer.Option("--own", help="Only for tasks that its own user submitted.")] = False,
    addresses: Annotated[
        list[str] | None, typer.Option("--from", metavar="NETWORK", help="Only from this network; repeat.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Make a token and print it. It is not shown again.

    It is yours unless you name an owner, and never does more than its owner may. It expires after 90 days unless you
    say otherwise.
    """
    checks.one_of("--role", role, [one.value for one in Role])
    if (user is not None or role is not None) and (service_account is not None or owner is not None):
        raise checks.wrong("--user", "a token with a user and a role has no owner; give one or the other")
    if (user is None or tenant is None) and role is not None:
        raise checks.wrong("--role", "a token with a role needs --tenant and --user")
    if user is not None and tenant is None:
        raise checks.wrong("--tenant", "a token with a --user needs a --tenant")
    if service_account is not None and owner is not None:
        raise checks.wrong("--owner", "give --owner or --service-account, not both")
    for scope in scopes or ():
        checks.one_of("--scope", scope, [one.value for one in Scope])
    for bundle in bundles or ():
        checks.one_of("--bundle", bundle, BUNDLES)
    wanted = checks.given(
        tenant=tenant,
        user=user,
        role="member" if user is not None and role is None else role,
        expires=_when(expires),
        name=None if name is None else account_name(name, "--name"),
        service_account=None if service_account is None else account_name(service_account, "--service-account"),
        owner=None if owner is None else account_name(owner, "--owner"),
        scopes=scopes or None,
        bundles=bundles or None,
        names=names or None,
        pools=pools or None,
        own=own or None,
        addresses=[_network(text) for text in addresses or ()] or None,
    )
    show(account_calls.add_token(wanted), output_format, lambda answer: answer.token)


def list_tokens(output_format: Output = Format.TABLE) -> None:
    """List your tokens, without their secret part; as an administrator, those of your tenant or of all."""
    show(account_calls.tokens(), output_format, account_tables.tokens)


def show_token(token: _Token, output_format: Output = Format.TABLE) -> None:
    """Show what a token may do, what it is for, and when it was used."""
    show(account_calls.token(account_name(token, "ID|NAME")), output_format, account_tables.token)


def rotate(
    token: _Token,
    overlap: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long the old text is valid too: 24h.")
    ] = None,
    expires: _Expires = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Print a new text for a token, with the same rights. The old text is valid for the overlap, a day by default.

    The new one is valid as long as the old one was made for, unless you say otherwise.
    """
    call = account_calls.rotate_token(
        account_name(token, "ID|NAME"), overlap=checks.duration("--overlap", overlap), expires=_when(expires)
    )
    show(call, output_format, lambda answer: answer.token)


def revoke(token: _Token, output_format: Output = Format.TABLE) -> None:
    """Revoke a token, effective at once."""
    show(
        account_calls.revoke_token(account_name(token, "ID|NAME")), output_format, lambda _: f"token {token} is revoked"
    )


def _when(text: str | None) -> str | None:
    """A duration from now, a time, or never."""
    if text is None or text == NEVER:
        return text
    for check in (checks.duration, checks.moment):
        try:
            return check("--expires", text)
        except typer.BadParameter:
            continue
    raise checks.wrong(
        "--expires", f"{text!r} is no duration like 90d, no time like 2030-01-31T09:00:00Z, and not never"
    )


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise checks.wrong("--from", f"{text!r} is not a network; write one such as 10.0.0.0/8 or 192.0.2.7") from None
