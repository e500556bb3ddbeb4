"""Who the provider says that somebody is: the claims that count, and how far each is believed. Pure.

A person is an issuer and a subject. The mail address may change hands, so it only ever helps to find an account that an
administrator prepared, and only if the provider verified it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.accounts.oidc import MOST_GROUPS

LONGEST_GROUP = 200

# ASCII alone: letters that look like others, or become others in lower case, name nobody.
_MAIL = re.compile(r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}\Z", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Identity:
    issuer: str
    subject: str
    mail: str | None  # verified by the provider
    name: str  # what to call them; "" if the provider says nothing usable
    groups: tuple[str, ...]
    asked_at: float | None = None  # when the provider last asked who they are, if it says so


def identity_of(claims: Mapping[str, Any], more: Mapping[str, Any], groups_claim: str) -> Identity:
    """`claims`: of the ID token; `more`: what the provider tells besides, of the same subject."""
    mail = _mail(claims) or _mail(more)
    named = (_name(source.get("preferred_username")) for source in (claims, more))
    groups = _at(claims, groups_claim)
    asked_at = claims.get("auth_time")
    return Identity(
        issuer=str(claims["iss"]),
        subject=str(claims["sub"]),
        mail=mail,
        name=next(filter(None, named), "") or _name((mail or "").partition("@")[0]),
        groups=_groups(groups if groups is not None else _at(more, groups_claim)),
        asked_at=float(asked_at) if isinstance(asked_at, int | float) and not isinstance(asked_at, bool) else None,
    )


def lacks(claims: Mapping[str, Any], groups_claim: str) -> bool:
    """Whether the provider is to be asked for more than its ID token says."""
    return _at(claims, groups_claim) is None or claims.get("email") is None


def _mail(source: Mapping[str, Any]) -> str | None:
    """The address and the word that it was verified come from one place."""
    mail = source.get("email")
    verified = source.get("email_verified") is True
    return mail if verified and isinstance(mail, str) and _MAIL.match(mail) else None


def _name(value: object) -> str:
    """A name that looks like a mail address would be taken for one when roles are given by it, so only its start is."""
    if not isinstance(value, str):
        return ""
    return _NOT_IN_NAMES.sub("-", value[:200].partition("@")[0]).strip("-._")[:_LONGEST_NAME]


def _at(source: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, else by the path to it: `realm_access.roles`."""
    if path in source:
        return source[path]
    found: Any = source
    for word in path.split("."):
        found = found.get(word) if isinstance(found, Mapping) else None
    return found


def _groups(value: object) -> tuple[str, ...]:
    """A list of names, a single name, or an object whose keys are names."""
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, list | dict) else []
    return tuple(
        name
        for name in names[:MOST_GROUPS]
        if isinstance(name, str) and 0 < len(name) <= LONGEST_GROUP and name.isprintable()
    )
