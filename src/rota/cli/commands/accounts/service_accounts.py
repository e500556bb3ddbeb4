"""`rota service-account`: what programs are. Each belongs to a tenant, has roles and owns tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.commands.accounts.role_options import (
    AtPool,
    AtTenant,
    MaybeRole,
    RoleName,
    account_name,
    needed_role,
    role_of,
)
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import account_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import account_calls

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the service account.")]


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "service-account", "Manage service accounts: what programs are.")
    add_command(
        group,
        "add",
        add,
        "rota service-account add ci --role member --tenant acme",
        "rota --tenant acme service-account add ci --role member --tenant acme",
    )
    add_command(group, "list", list_accounts, "rota service-account list")
    add_command(group, "show", show_account, "rota service-account show ci")
    add_command(group, "grant", grant, "rota service-account grant ci --role viewer --tenant acme")
    add_command(group, "revoke", revoke, "rota service-account revoke ci --role member --tenant acme")
    add_command(group, "disable", disable, "rota service-account disable ci")
    add_command(group, "enable", enable, "rota service-account enable ci")
    add_command(group, "remove", remove, "rota service-account remove ci")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new service account.")],
    role: MaybeRole = None,
    tenant: AtTenant = None,
    pool: AtPool = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Add a service account to your tenant. To use it, make a token: rota token add --service-account NAME."""
    call = account_calls.add_service_account(account_name(name), role=role_of(role, tenant, pool))
    show(
        call,
        output_format,
        lambda answer: (
            f"service account {answer.name} of {answer.tenant} is made: {account_tables.roles(answer.roles)}"
        ),
    )


def list_accounts(
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Begin after this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most to show.")] = 100,
    output_format: Output = Format.TABLE,
) -> None:
    """List the service accounts of your tenant with their roles."""
    show(account_calls.service_accounts(after=after, limit=limit), output_format, account_tables.service_accounts)


def show_account(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Show a service account, its roles, and who gave them when."""
    show(account_calls.service_account(account_name(name)), output_format, account_tables.service_account)


def grant(
    name: _Name,
    role: RoleName,
    tenant: AtTenant = None,
    pool: AtPool = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Give a service account a role. Nobody gives more than they have."""
    call = account_calls.grant_service_account(account_name(name), needed_role(role, tenant, pool))
    show(call, output_format, account_tables.changed)


def revoke(
    name: _Name,
    role: RoleName,
    tenant: AtTenant = None,
    pool: AtPool = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Take a role from a service account. Its tokens lose it within two seconds."""
    call = account_calls.revoke_service_account(account_name(name), needed_role(role, tenant, pool))
    show(call, output_format, account_tables.changed)


def disable(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Disable a service account: within two seconds none of its tokens counts."""
    call = account_calls.disable_service_account(account_name(name), True)
    show(call, output_format, lambda answer: f"service account {answer.name} is disabled")


def enable(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Enable a disabled service account again, with the roles and tokens that it had."""
    call = account_calls.disable_service_account(account_name(name), False)
    show(call, output_format, lambda answer: f"service account {answer.name} is enabled")


def remove(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Remove a service account, with its roles and tokens. Its tasks stay."""
    call = account_calls.remove_service_account(account_name(name))
    show(call, output_format, lambda _: f"service account {name} is removed")
