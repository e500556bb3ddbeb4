"""`rota user`: people who sign in, and their roles."""

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
from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import account_tables, sign_in_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import account_calls

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or mail address of the user.")]


def add_to(app: typer.Typer) -> None:
    user = add_group(app, "user", "Manage users and their roles (administrators).")
    add_command(
        user,
        "add",
        add,
        "rota user add ann --role member --tenant acme",
        "rota user add bob --role admin --tenant acme --email bob@example.org",
        "rota user add root --role admin",
        "rota user add kim --role operator --pool gpu",
    )
    add_command(user, "list", list_users, "rota user list", "rota user list -o json")
    add_command(user, "show", show_user, "rota user show ann")
    add_command(
        user,
        "grant",
        grant,
        "rota user grant ann --role viewer --tenant acme",
        "rota user grant ann@example.org --role operator",
    )
    add_command(user, "revoke", revoke, "rota user revoke ann --role viewer --tenant acme")
    add_command(user, "set", change, "rota user set ann --email ann@example.org")
    add_command(user, "disable", disable, "rota user disable ann")
    add_command(user, "enable", enable, "rota user enable ann")
    add_command(user, "remove", remove, "rota user remove ann")
    add_command(user, "invite", invite, "rota user invite ann")
    add_command(user, "reset-second-factor", reset_second_factor, "rota user reset-second-factor ann")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new user.")],
    role: MaybeRole = None,
    tenant: AtTenant = None,
    pool: AtPool = None,
    email: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Mail address.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Add a user, and print a link with which the user sets a password. It can do what its roles allow.

    The link counts once, within three days. Of several formats, only the table has it; rota user invite makes another.
    """
    call = account_calls.add_user(account_name(name), email=email, role=role_of(role, tenant, pool))
    show(call, output_format, lambda answer: f"user {answer.name} is made: {account_tables.roles(answer.roles)}")
    if output_format is Format.TABLE:
        show(account_calls.invite_user(account_name(name)), output_format, sign_in_tables.invitation)


def invite(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Print a link with which a user sets a password: the first one, or a new one for a forgotten one.

    It counts once, within three days, and ends the link before it.
    """
    show(account_calls.invite_user(account_name(name)), output_format, sign_in_tables.invitation)


def reset_second_factor(name: _Name) -> None:
    """Remove the second factor of a user who lost the app and the recovery codes. Its sessions end."""
    call = account_calls.reset_second_factor(account_name(name))
    show(call, Format.TABLE, lambda _: f"the second factor of {name} is removed, and its sessions are ended")


def list_users(
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Begin after this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most to show.")] = 100,
    output_format: Output = Format.TABLE,
) -> None:
    """List users with their roles: all, or for administrators of a tenant those with a role there."""
    show(account_calls.users(after=after, limit=limit), output_format, account_tables.users)


def show_user(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Show a user, its roles, and who gave them when."""
    show(account_calls.user(account_name(name)), output_format, account_tables.user)


def grant(
    name: _Name,
    role: RoleName,
    tenant: AtTenant = None,
    pool: AtPool = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Give a user a role. Nobody gives more than they have."""
    call = account_calls.grant_user(account_name(name), needed_role(role, tenant, pool))
    show(call, output_format, account_tables.changed)


def revoke(
    name: _Name,
    role: RoleName,
    tenant: AtTenant = None,
    pool: AtPool = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Take a role from a user. Its tokens and sessions lose it within two seconds."""
    call = account_calls.revoke_user(account_name(name), needed_role(role, tenant, pool))
    show(call, output_format, account_tables.changed)


def change(
    name: _Name,
    email: Annotated[str | None, typer.Option(metavar="ADDRESS|none", help="New mail address, or none.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change the mail address of a user."""
    checks.some("user set", checks.given(email=email), "thing to change, such as --email")
    call = account_calls.change_user(account_name(name), {"email": None if email == "none" else email})
    show(call, output_format, lambda answer: f"user {answer.name}: {answer.email or 'no mail address'}")


def disable(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Disable a user: within two seconds none of its tokens and sessions counts."""
    call = account_calls.change_user(account_name(name), {"disabled": True})
    show(call, output_format, lambda answer: f"user {answer.name} is disabled")


def enable(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Enable a disabled user again, with the roles and tokens that it had."""
    call = account_calls.change_user(account_name(name), {"disabled": False})
    show(call, output_format, lambda answer: f"user {answer.name} is enabled")


def remove(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Remove a user, with its roles, tokens and sessions. Its tasks stay."""
    show(account_calls.remove_user(account_name(name)), output_format, lambda _: f"user {name} is removed")
