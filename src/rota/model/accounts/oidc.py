"""Single sign-on with OpenID Connect: its settings, which roles groups give, and who may use a password. Pure.

`oidc_settings` reads the table `[oidc]` of `rota.toml`. A fault names the field, what it is, and what would be right.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rota.model.accounts.granting import binding_fault
from rota.model.accounts.permissions import Binding, Role
from rota.model.units import milliseconds_of

LONGEST_TEXT = 500
MOST_GROUPS = 5_000  # of a person; those after them do not count

_EXAMPLE = "write member@acme, operator@pool:gpu or admin@*"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z", re.ASCII)
_SCOPE = re.compile(r"^[\x21\x23-\x5b\x5d-\x7e]{1,100}\Z", re.ASCII)
_SESSION_SECONDS = (300.0, 7 * 86_400.0)
_FIELDS = (
    *("issuer", "client_id", "client_secret_file", "scopes", "groups_claim", "map", "default"),
    *("jit", "only", "logout", "name", "session"),
)


class OidcFault(ValueError):
    """A field of the settings is wrong."""

    def __init__(self, field_name: str, text: str) -> None:
        super().__init__(f"[oidc] {field_name}: {text}")
        self.field = field_name


@dataclass(frozen=True, slots=True, order=True)
class MappedRole:
    """A role at a tenant or a pool that may not exist yet, or everywhere."""

    role: str
    tenant: str | None = None
    pool: str | None = None

    def __str__(self) -> str:
        return f"{self.role}@{self.tenant or (f'pool:{self.pool}' if self.pool else '*')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)  # "": a public client, which PKCE alone protects
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    roles: Mapping[str, tuple[MappedRole, ...]] = field(default_factory=dict)  # by group
    default: tuple[MappedRole, ...] = ()  # of whoever the provider signs in
    jit: bool = True  # people without an account get one when they first sign in
    only: bool = False  # passwords are for emergencies
    logout: bool = True  # who signs out here is asked to sign out of the provider too
    name: str = "single sign-on"  # on the button
    session_seconds: float = 12 * 3600.0  # a session ends unless the provider confirmed it for so long

    def roles_of(self, groups: Iterable[str]) -> dict[MappedRole, str]:
        """What somebody in these groups gets, and of which group each role comes; "" is for everybody."""
        found = dict.fromkeys(self.default, "")
        for group in sorted(set(groups)):
            for role in self.roles.get(group, ()):
                found.setdefault(role, group)
        return found


def password_allowed(
    oidc: OidcSettings | None, *, administers_all: bool, second_factor: bool, by_link: bool = False
) -> bool:
    """Whether somebody may sign in by password: with `only`, administrators everywhere with a second factor.

    `by_link`: they set a password by a link. An administrator must get in so far to set up the second factor.
    `administers_all` is for roles that are given here: those of the provider's groups are no help if it is away.
    """
    return oidc is None or not oidc.only or (administers_all and (second_factor or by_link))


def oidc_settings(table: Mapping[str, object], secret: str = "") -> OidcSettings:
    """`secret`: the client secret, from its file or the environment. Raises `OidcFault`."""
    unknown = sorted(set(table) - set(_FIELDS))
    if unknown:
        raise OidcFault(unknown[0][:60], f"there is no such setting; there are {', '.join(_FIELDS)}")
    defaults = OidcSettings(issuer="", client_id="")
    return OidcSettings(
        issuer=_issuer(_text(table, "issuer", None)),
        client_id=_text(table, "client_id", None),
        client_secret=secret,
        scopes=_scopes(table.get("scopes", list(defaults.scopes))),
        groups_claim=_text(table, "groups_claim", defaults.groups_claim),
        roles=_map(table.get("map", {})),
        default=_roles("default", table.get("default", "")),
        jit=_flag(table, "jit", defaults.jit),
        only=_flag(table, "only", defaults.only),
        logout=_flag(table, "logout", defaults.logout),
        name=_text(table, "name", defaults.name),
        session_seconds=_session(table.get("session", "12h")),
    )


def is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def address_fault(text: str, *, query: bool = False) -> str | None:
    """What is wrong with an address of a provider: passwords and tokens go there. None: nothing."""
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return f"{text[:100]!r} is not an address"
    if not host or parts.scheme not in ("https", "http"):
        return f"{text[:100]!r} is not an address like https://login.example.org"
    if parts.scheme == "http" and not is_loopback(host):
        return f"{text[:100]!r} must begin with https://; http:// is for this machine only"
    if parts.username is not None or parts.fragment or (parts.query and not query):
        return f"{text[:100]!r} must have no user, no fragment{'' if query else ' and no query'}"
    return None


def _issuer(text: str) -> str:
    fault = address_fault(text)
    if fault is not None:
        raise OidcFault("issuer", fault)
    return text


def _text(table: Mapping[str, object], name: str, default: str | None) -> str:
    value = table.get(name, default)
    if value is None:
        raise OidcFault(name, "it is missing; the provider's page of the client has it")
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT or not value.isprintable():
        raise OidcFault(name, f"it must be a text of 1 to {LONGEST_TEXT} characters, not {str(value)[:60]!r}")
    return value.strip()


def _flag(table: Mapping[str, object], name: str, default: bool) -> bool:
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise OidcFault(name, f"it must be true or false, not {str(value)[:60]!r}")
    return value


def _scopes(value: object) -> tuple[str, ...]:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and _SCOPE.match(word) for word in words):
        raise OidcFault("scopes", 'it must be a list of words, such as ["openid", "profile", "email", "groups"]')
    return tuple(dict.fromkeys(["openid", *words]))


def _session(value: object) -> float:
    least, most = _SESSION_SECONDS
    try:
        seconds = milliseconds_of(value) / 1000 if isinstance(value, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not least <= seconds <= most:
        raise OidcFault("session", f'it must be a duration from 5m to 7d, such as "12h", not {str(value)[:60]!r}')
    return seconds


def _map(value: object) -> dict[str, tuple[MappedRole, ...]]:
    if not isinstance(value, Mapping):
        raise OidcFault("map", 'it must be a table of groups and roles, such as {"ml" = "member@ml"}')
    return {group: _roles(f'map."{group[:60]}"', roles, empty=False) for group, roles in value.items()}


def _roles(name: str, value: object, *, empty: bool = True) -> tuple[MappedRole, ...]:
    given = value if isinstance(value, list) else [value]
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) != len(given):
        raise OidcFault(name, f"it must be a role, or a list of roles, not {str(value)[:60]!r}; {_EXAMPLE}")
    found = tuple(_role(name, text) for text in texts if text.strip())
    if not found and not empty:
        raise OidcFault(name, f"it names no role; {_EXAMPLE}")
    return found


def _role(name: str, text: str) -> MappedRole:
    role, at, place = text.strip().partition("@")
    if role not in set(Role) - {Role.WORKER} or not at:
        raise OidcFault(name, f"{text[:60]!r} is not a role at a place; {_EXAMPLE}")
    pool = place.removeprefix("pool:") if place.startswith("pool:") else None
    tenant = None if place == "*" or pool is not None else place
    named = pool if pool is not None else tenant
    if named is not None and not _NAME.match(named):
        raise OidcFault(name, f"{text[:60]!r} names no tenant or pool; {_EXAMPLE}")
    fault = binding_fault(Binding(role=Role(role), tenant=None if tenant is None else 1, pool=pool))
    if fault is not None:
        raise OidcFault(name, f"{text[:60]!r}: {fault}; {_EXAMPLE}")
    return MappedRole(role, tenant, pool)
