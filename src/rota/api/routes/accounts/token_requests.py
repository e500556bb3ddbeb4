"""What a request for a token asks for, judged: its scopes, what it is for, and how long it lasts.

Nobody makes a token that can do more than they can. A token that makes another gives it no more scopes, no wider
restrictions and no longer life than it has itself; what the request leaves out is then as the maker has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from rota.api.requests import check_scope
from rota.api.routes.accounts.managing import beyond, check_name
from rota.model.accounts.granting import inherited, wider
from rota.model.accounts.permissions import BUNDLES, SCOPES, Reach, Role, Scope
from rota.model.accounts.restrictions import Restrictions
from rota.model.errors import FaultList
from rota.model.tenant import Caller
from rota.model.units import milliseconds_of

DEFAULT_LIFE = timedelta(days=90)
LONGEST_LIFE = timedelta(days=366)  # unless an administrator everywhere makes it
LONGEST_OVERLAP = timedelta(days=30)
NEVER = "never"
MOST_LISTED = 50  # names, pools or networks of one token

_DATE = re.compile(r"^\d{4}-", re.ASCII)
_GRANTABLE = SCOPES[Role.ADMIN, Reach.EVERYWHERE]

Expiry = timedelta | datetime | None


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A token of the caller, or of `service_account` or `owner`. With `user` and `role` it has no owner.

    `scopes` and `bundles`: null for all that the owner has, but those for tokens and users. `expires`: a duration or a
    time; `never` only by administrators everywhere. `pools`, `names` (globs), `own` and `addresses` restrict it.
    """

    tenant: str | None = None
    user: str | None = None
    role: str | None = None
    expires: int | float | str | None = None
    owner: str | None = None
    service_account: str | None = None
    name: str | None = None
    scopes: list[str] | None = None
    bundles: list[str] | None = None
    pools: list[str] | None = None
    names: list[str] | None = None
    own: bool = False
    addresses: list[str] | None = None


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How long the old text is valid too, and how long the new one: by default as long as the old one was."""

    overlap: int | float | str = "24h"
    expires: int | float | str | None = None


# ---- scopes ---------------------------------------------------------------------------------------------------------


def scopes_of(body: TokenRequest, caller: Caller, faults: FaultList) -> list[str] | None:
    """None: all that its owner has, but those that a token must name."""
    if body.scopes is None and body.bundles is None:
        whole = not caller.token_id or caller.scopes >= _GRANTABLE
        return None if whole else sorted(caller.scopes)
    asked: set[Scope] = set()
    for text in body.scopes or ():
        if text not in _GRANTABLE:
            faults.add("scopes", "unknown-scope", f"{text[:40]!r} is not a scope; there are {', '.join(_in_order())}")
        else:
            asked.add(Scope(text))
    for text in body.bundles or ():
        if text not in BUNDLES:
            faults.add("bundles", "unknown-bundle", f"{text[:40]!r} is not a bundle; there are {', '.join(BUNDLES)}")
        else:
            asked |= BUNDLES[text]
    if not asked and not faults.faults:
        faults.add("scopes", "missing-field", "name at least one scope, or leave scopes and bundles out")
    return sorted(asked)


def _in_order() -> list[str]:
    return [scope.value for scope in Scope if scope in _GRANTABLE]


def check_held(caller: Caller, scopes: Sequence[str] | None) -> None:
    """Raises if the caller would give a scope that it does not have."""
    for scope in scopes or ():
        check_scope(caller, Scope(scope))


# ---- restrictions ---------------------------------------------------------------------------------------------------


def restrictions_of(body: TokenRequest, caller: Caller, pools: set[str], faults: FaultList) -> Restrictions:
    """`pools`: those that there are."""
    for name in (name for name in body.pools or () if name not in pools):
        faults.add("pools", "unknown-pool", f"there is no pool {name[:40]!r}")
    for name in (name for name in body.names or () if not 1 <= len(name) <= 200 or not name.isprintable()):
        faults.add("names", "invalid-name", f"{name[:40]!r} is not a name of tasks; write one such as 'etl-*'")
    networks = tuple(found for text in body.addresses or () if (found := _network(text, faults)) is not None)
    for field, listed in (("pools", body.pools), ("names", body.names), ("addresses", body.addresses)):
        if listed is not None and not 1 <= len(listed) <= MOST_LISTED:
            faults.add(field, "out-of-range", f"{field} has 1 to {MOST_LISTED} entries; leave it out for all")
    asked = Restrictions(pools=_once(body.pools), names=_once(body.names), own=body.own, networks=networks)
    return inherited(asked, caller.restrictions) if caller.token_id else asked


def check_narrow(caller: Caller, asked: Restrictions) -> None:
    """Raises if a token that the caller's token makes would be for more than that."""
    field = wider(asked, caller.restrictions)
    if field is not None:
        raise beyond(f"this token is for {whole_text(caller.restrictions)} only: {field} of the other must be within")


def whole_text(limits: Restrictions) -> str:
    """What a token is for, with its networks."""
    networks = f" from {', '.join(map(str, limits.networks))}" if limits.networks else ""
    return limits.text() + networks


def _network(text: str, faults: FaultList) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        right = "write one such as 10.0.0.0/8 or 192.0.2.7, without bits beyond its length"
        faults.add("addresses", "invalid-address", f"{text[:60]!r} is not a network; {right}")
        return None


def _once(listed: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(listed or ()))


# ---- name and life --------------------------------------------------------------------------------------------------


def check_token_name(name: str | None, faults: FaultList) -> None:
    if name is not None and name.isdigit():
        faults.add("name", "invalid-name", f"{name[:40]!r} would be taken for an id; use a letter too")
    elif name is not None:
        check_name(name, "name", faults)


def expiry_of(value: float | str | None, faults: FaultList) -> Expiry:
    """A time (2030-01-31T08:00:00Z), a duration from now (90d), or `never`."""
    if value is None or value == NEVER:
        return None
    if isinstance(value, str) and _DATE.match(value):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None or not 2000 <= at.year <= 2500:
            faults.add(
                "expires", "invalid-time", f"{value[:60]!r} is not a time with a zone; write 2030-01-31T08:00:00Z"
            )
            return None
        return at
    expires = _duration(value, "expires", faults)
    if expires is not None and not timedelta(0) < expires <= timedelta(days=3660):
        faults.add("expires", "out-of-range", "a token expires after now and within ten years")
    return expires


def life_of(value: float | str | None, caller: Caller, faults: FaultList, *, usual: timedelta | None) -> Expiry:
    """When a token expires that has an owner. `usual`: how long it lasts if the request does not say so; None: ever.

    Only an administrator everywhere makes one that lasts longer than a year, and a token makes none that outlives it.
    """
    asked = expiry_of(value, faults) if value is not None else usual
    if faults.faults:
        return None
    now = datetime.now(UTC)
    ends = now + asked if isinstance(asked, timedelta) else asked
    latest = None if caller.may_everywhere(Scope.ADMIN) else now + LONGEST_LIFE
    if caller.token_id and caller.expires_at is not None:
        latest = caller.expires_at if latest is None else min(latest, caller.expires_at)
    if latest is None or (ends is not None and ends <= latest):
        return asked
    if value is None:
        return latest
    if latest == caller.expires_at:
        why = f"a token makes none that outlives it; yours ends at {latest.isoformat(timespec='seconds')}"
    else:
        why = f"it is at most {LONGEST_LIFE.days}d; only an administrator everywhere makes tokens that last longer"
    faults.add("expires", "out-of-range", why)
    return None


def overlap_of(value: float | str, faults: FaultList) -> timedelta:
    overlap = _duration(value, "overlap", faults)
    if overlap is not None and not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        faults.add("overlap", "out-of-range", f"overlap is a duration from 0 to {LONGEST_OVERLAP.days}d, such as 24h")
    return overlap or timedelta(0)


def _duration(value: float | str, field: str, faults: FaultList) -> timedelta | None:
    try:
        return timedelta(milliseconds=milliseconds_of(value))
    except (ValueError, OverflowError) as error:
        faults.add(field, "out-of-range", str(error))
        return None


def as_itself(caller: Caller) -> Caller:
    """A token that rotates itself begins a new life as long as its first."""
    return replace(caller, expires_at=None)
