"""The options that name a role, which users and service accounts share, and the names of both."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.client.calls.account_calls import Role

ROLES = ("viewer", "member", "admin", "operator")

RoleName = Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, member, admin or operator.")]
MaybeRole = Annotated[
    str | None, typer.Option("--role", metavar="ROLE", help="First role: viewer, member, admin or operator.")
]
AtTenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="At this tenant. Without --tenant and --pool: everywhere."),
]
AtPool = Annotated[str | None, typer.Option("--pool", metavar="POOL", help="At this pool (operators).")]

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,253}\Z", re.ASCII)


def account_name(text: str, where: str = "NAME") -> str:
    """Of a user, a service account or a token; it becomes part of an address."""
    if not _NAME.match(text):
        raise checks.wrong(
            where, f"{text[:60]!r} is not a name; names have letters, digits and . _ @ + -, a letter or digit first"
        )
    return text


def role_of(role: str | None, tenant: str | None, pool: str | None) -> Role | None:
    """None: no role was named."""
    if role is None:
        if tenant is not None or pool is not None:
            raise checks.wrong("--role", f"name the role at {tenant or pool}: --role member")
        return None
    checks.one_of("--role", role, ROLES)
    if tenant is not None and pool is not None:
        raise checks.wrong("--pool", "a role is at a tenant or at a pool; give --tenant or --pool")
    if pool is not None and role != "operator":
        raise checks.wrong("--pool", f"only operators have a role at a pool, not {role}")
    if tenant is not None and role == "operator":
        raise checks.wrong("--tenant", "operators have no tenant; give --pool, or neither for all pools")
    if role == "member" and tenant is None:
        raise checks.wrong("--tenant", "a member belongs to a tenant: --role member --tenant NAME")
    found = {"role": role}
    if tenant is not None:
        found["tenant"] = checks.word("--tenant", tenant)
    if pool is not None:
        found["pool"] = checks.word("--pool", pool)
    return found


def needed_role(role: str, tenant: str | None, pool: str | None) -> Role:
    return role_of(role, tenant, pool) or {}
