"""Accounts: users, service accounts and their roles, tokens, and who the caller is."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time


class RoleDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A role at a tenant, at a pool, or everywhere if neither is named."""

    role: str
    tenant: str | None = None
    pool: str | None = None
    source: str = "local"  # or oidc: it comes and goes with the groups of the sign-in provider
    granted_at: Time | None = None
    granted_by: str = ""


class UserDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who signs in, with those roles that the caller may see."""

    name: str
    email: str | None = None
    roles: list[RoleDocument] = []
    created_at: Time | None = None
    created_by: str = ""
    disabled_at: Time | None = None  # since then neither its tokens nor its sessions count
    signed_in_at: Time | None = None


class UserList(msgspec.Struct, frozen=True, kw_only=True):
    """One page of users, by name. `next` is the `after` of the page after it, null on the last one."""

    users: list[UserDocument]
    next: str | None = None


class ServiceAccountDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is: it belongs to a tenant, has roles, and owns tokens. It cannot sign in."""

    name: str
    tenant: str = ""
    roles: list[RoleDocument] = []
    created_at: Time | None = None
    created_by: str = ""
    disabled_at: Time | None = None


class ServiceAccountList(msgspec.Struct, frozen=True, kw_only=True):
    """One page of service accounts, by name. `next` is the `after` of the page after it, null on the last one."""

    service_accounts: list[ServiceAccountDocument]
    next: str | None = None


class TokenDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret text. It can do no more than its owner, whatever its scopes say."""

    id: int
    public_id: str = ""
    tenant: str = ""
    user: str = ""
    role: str = ""
    created_at: Time | None = None
    expires_at: Time | None = None
    revoked_at: Time | None = None
    name: str | None = None
    owner: str | None = None  # whose rights bound it; null: it has those of its role
    scopes: list[str] | None = None  # null: all that its owner has, but those for tokens and users
    pools: list[str] = []  # only for tasks in these; empty: all
    names: list[str] = []  # only for tasks with names like these; empty: all
    own: bool = False  # only for tasks of its own user
    addresses: list[str] = []  # only from these networks; empty: all
    created_by: str = ""
    used_at: Time | None = None  # within five minutes
    used_from: str | None = None
    replaced_by: int | None = None  # by rotation


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that the caller may see."""

    tokens: list[TokenDocument]


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. Its text is in this answer only; the server keeps a hash."""

    id: int
    token: str
    public_id: str = ""
    tenant: str = ""
    user: str = ""
    role: str = ""
    name: str | None = None
    expires_at: Time | None = None
    replaces: int | None = None  # the token that this one was rotated from
    old_ends_at: Time | None = None  # until when that one is valid too

    def __repr__(self) -> str:
        return f"NewToken(id={self.id}, public_id={self.public_id!r})"


class TenantRole(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant that the caller may send requests to, and its role there."""

    tenant: str
    role: str


class Whoami(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and what its credential may do at the tenant of the request."""

    user: str
    kind: str  # user, service, node or task
    tenant: str
    role: str
    scopes: list[str] = []
    credential: str = ""  # such as: token ci-7
    expires_at: Time | None = None  # null: never
    pools_to_change: list[str] | None = None  # whose nodes it may change; null: of all pools
    pools: list[str] = []
    names: list[str] = []
    own: bool = False
    addresses: list[str] = []
    graph: int | None = None  # of a running task's key: what it submits joins this graph, and it reads no other
    roles: list[RoleDocument] = []
    tenants: list[TenantRole] = []  # where it has a role of its own
