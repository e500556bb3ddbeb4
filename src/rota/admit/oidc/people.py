"""Which user an identity is, and which roles its groups give: in one transaction, after `lock_accounts`.

An identity is bound to its user by issuer and subject. One that nobody knows is bound to a user that an administrator
prepared: with the same mail address, without a password, and without another identity. Else it becomes a new user, if
the settings let it. What changed is returned as entries of the audit log, for the caller to complete and to write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.admit.oidc.identity import Identity
from rota.admit.oidc.trouble import SignInRefused
from rota.model.accounts.oidc import MappedRole, OidcSettings
from rota.model.accounts.permissions import Binding, Role
from rota.model.audit import Entry
from rota.store.database import AnyConnection
from rota.store.oidc import (
    Places,
    add_identity,
    confirm_identity,
    find_identity,
    find_places,
    has_identity,
    name_in_use,
    signs_in_by_password,
)
from rota.store.principals import (
    BindingRow,
    PrincipalRow,
    add_binding,
    add_principal,
    find_principal,
    find_user,
    remove_binding,
)

_MOST_TRIES = 9  # to find a free name like the one that the provider says


@dataclass(frozen=True, slots=True)
class Person:
    """A user whom the provider signed in."""

    principal: int
    name: str
    identity: int
    has_roles: bool
    entries: tuple[Entry, ...]


async def recognise(connection: AnyConnection, settings: OidcSettings, identity: Identity) -> Person:
    """Raises `SignInRefused`; then nothing is to be kept. One without roles is returned: they may just have gone."""
    found = await find_identity(connection, identity.issuer, identity.subject)
    entries: list[Entry] = []
    if found is None:
        user = await _prepared(connection, identity)
        if user is None:
            user = await _new_user(connection, settings, identity)
            entries.append(entry("user.add", user.name, after={"email": user.email, "issuer": identity.issuer}))
        number = await add_identity(connection, identity.issuer, identity.subject, user.id)
        entries.append(entry("user.link", user.name, after={"issuer": identity.issuer, "subject": identity.subject}))
    else:
        number, principal = found
        user = _existing(await find_principal(connection, principal))
        await confirm_identity(connection, number)
    if user.disabled_at is not None:
        raise _disabled(user.name)
    entries += await give_roles(connection, settings, user, identity.groups)
    after = _existing(await find_principal(connection, user.id))
    return Person(user.id, user.name, number, bool(after.bindings), tuple(entries))


async def _prepared(connection: AnyConnection, identity: Identity) -> PrincipalRow | None:
    """The user that an administrator added for this mail address; one with a password may be somebody else."""
    user = None if identity.mail is None else await find_user(connection, identity.mail)
    if user is None:
        return None
    if user.disabled_at is not None:
        raise _disabled(user.name)
    password = await signs_in_by_password(connection, user.id)
    if password or await has_identity(connection, user.id):
        how = "by password" if password else "as somebody else"
        raise SignInRefused(
            "mail-taken",
            f"the user {user.name} has your mail address already and signs in {how}",
            "Sign in in that way, or ask an administrator everywhere to remove that user and add it again.",
        )
    return user


async def _new_user(connection: AnyConnection, settings: OidcSettings, identity: Identity) -> PrincipalRow:
    if not settings.jit:
        raise SignInRefused(
            "not-invited",
            f"nobody added you here{_as_whom(identity)}",
            "Ask an administrator to add you with your mail address: rota user add NAME --email ADDRESS.",
        )
    if not settings.roles_of(identity.groups):
        raise no_roles(identity)
    made = await add_principal(
        connection,
        kind="user",
        name=await _free_name(connection, identity),
        tenant_id=None,
        email=identity.mail,
        by="oidc",
    )
    return _existing(made)


async def _free_name(connection: AnyConnection, identity: Identity) -> str:
    if identity.name:
        for number in range(1, _MOST_TRIES + 1):
            name = identity.name if number == 1 else f"{identity.name}-{number}"
            if not await name_in_use(connection, name):
                return name
    return "user-" + hashlib.sha256(f"{identity.issuer}\n{identity.subject}".encode()).hexdigest()[:16]


async def give_roles(
    connection: AnyConnection, settings: OidcSettings, user: PrincipalRow, groups: tuple[str, ...]
) -> list[Entry]:
    """Makes the user's roles of the provider those of its groups. Others stay as they are."""
    wanted = settings.roles_of(groups)
    places = await find_places(
        connection, [role.tenant for role in wanted if role.tenant], [role.pool for role in wanted if role.pool]
    )
    asked = {binding: (role, wanted[role]) for role in wanted if (binding := _binding(role, places)) is not None}
    held = {row.binding: row for row in user.bindings if row.source == "oidc"}
    entries = []
    for binding, row in held.items():
        if binding not in asked:
            await remove_binding(connection, user.id, binding, source="oidc")
            entries.append(entry("user.revoke", user.name, tenant=binding.tenant, before={"role": _held(row)}))
    for binding, (role, group) in asked.items():
        if binding not in held:
            by = f"group {group}" if group else "default"
            await add_binding(connection, user.id, binding, by=by[:100], source="oidc")
            entries.append(
                entry("user.grant", user.name, tenant=binding.tenant, after={"role": str(role), "group": group})
            )
    return entries


def _binding(role: MappedRole, places: Places) -> Binding | None:
    """None: there is no such tenant or pool yet."""
    if role.tenant is not None:
        number = places.tenants.get(role.tenant)
        return None if number is None else Binding(role=Role(role.role), tenant=number)
    if role.pool is not None and role.pool not in places.pools:
        return None
    return Binding(role=Role(role.role), pool=role.pool)


def _held(row: BindingRow) -> str:
    return str(MappedRole(row.role.value, row.tenant, row.pool))


def entry(
    action: str,
    name: str,
    *,
    tenant: int | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "as the sign-in provider says",
) -> Entry:
    """What the provider's word changed. The caller adds where it came from."""
    return Entry(
        tenant=tenant,
        actor_kind="system",
        actor="oidc",
        action=action,
        object_kind=action.partition(".")[0],
        object_id=name,
        reason=reason,
        before=before,
        after=after,
    )


def no_roles(identity: Identity) -> SignInRefused:
    groups = ", ".join(identity.groups[:10])[:200] or "none"
    return SignInRefused(
        "no-role",
        f"you have no role here{_as_whom(identity)}; the provider says that your groups are: {groups}",
        "Ask an administrator for a role, or to map one of your groups to one ([oidc] map in rota.toml).",
    )


def _as_whom(identity: Identity) -> str:
    return f" as {identity.mail}" if identity.mail else f" as {identity.name}" if identity.name else ""


def _disabled(name: str) -> SignInRefused:
    return SignInRefused("disabled", f"the account {name} is disabled", "Ask an administrator to enable it.")


def _existing(user: PrincipalRow | None) -> PrincipalRow:
    assert user is not None, "accounts are locked, and the name was free"
    return user
