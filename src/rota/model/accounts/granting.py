"""Who may give which role or token: nobody gives more than they have. Pure.

`may_grant` decides about one binding. Whoever may give all bindings that a principal has may also act for it: disable
it, remove it, or make tokens for it. A token made or rotated with a token is `narrower` than that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rota.model.accounts.permissions import Binding, Reach, Role, Scope, scopes_at
from rota.model.accounts.restrictions import Restrictions
from rota.model.tenant import Caller

AT_TENANTS = (Role.VIEWER, Role.MEMBER, Role.ADMIN)
AT_POOLS = (Role.OPERATOR,)
EVERYWHERE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


def may_grant(caller: Caller, binding: Binding) -> bool:
    """Whether the caller may give or take this role."""
    if not caller.may_everywhere(Scope.USERS_WRITE) and (
        not caller.may(Scope.USERS_WRITE) or binding.tenant != caller.tenant_id
    ):
        return False
    return scopes_at(binding) <= caller.scopes


def may_act_for(caller: Caller, bindings: Iterable[Binding]) -> bool:
    """Whether the caller has all that a principal with these bindings has, and manages accounts there."""
    return all(may_grant(caller, binding) for binding in bindings)


def binding_fault(binding: Binding) -> str | None:
    """What is wrong with a role at this place; None: nothing."""
    right = {Reach.TENANT: AT_TENANTS, Reach.POOL: AT_POOLS, Reach.EVERYWHERE: EVERYWHERE}[binding.reach]
    if binding.role in right:
        return None
    place = {Reach.TENANT: "at a tenant", Reach.POOL: "at a pool", Reach.EVERYWHERE: "everywhere"}[binding.reach]
    hint = "; name a tenant" if binding.role is Role.MEMBER and binding.reach is Reach.EVERYWHERE else ""
    return f"there is no role {binding.role.value} {place}; there {_are(right)}{hint}"


def _are(roles: tuple[Role, ...]) -> str:
    names = [role.value for role in roles]
    return f"is {names[0]}" if len(names) == 1 else f"are {', '.join(names[:-1])} and {names[-1]}"


def inherited(asked: Restrictions, own: Restrictions) -> Restrictions:
    """What a token is for that is made with a token: as asked for, and of what was not said, as its maker."""
    return replace(
        asked,
        pools=asked.pools or own.pools,
        names=asked.names or own.names,
        own=asked.own or own.own,
        networks=asked.networks or own.networks,
    )


def wider(asked: Restrictions, own: Restrictions) -> str | None:
    """The field in which a token would be for more than `own`; None: it is as narrow, or narrower."""
    if own.pools and not (asked.pools and set(asked.pools) <= set(own.pools)):
        return "pools"
    if own.names and not (asked.names and all(_is_within(glob, own.names) for glob in asked.names)):
        return "names"
    if own.own and not asked.own:
        return "own"
    if own.networks and not (
        asked.networks
        and all(
            any(
                one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
                for other in own.networks
            )
            for one in asked.networks
        )
    ):
        return "addresses"
    return None


def _is_within(glob: str, globs: tuple[str, ...]) -> bool:
    """Whether all names of a glob are surely names of the others: it is one of them, a plain name, or longer."""
    for other in globs:
        beginning = other[:-1]
        if glob == other or (other.endswith("*") and not _has_wildcard(beginning) and glob.startswith(beginning)):
            return True
    return not _has_wildcard(glob) and Restrictions(names=globs).allows_name(glob)


def _has_wildcard(glob: str) -> bool:
    return any(sign in glob for sign in "*?[")
