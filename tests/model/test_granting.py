"""Nobody gives more than they have: roles to others, and tokens to programs."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from rota.model.accounts.granting import binding_fault, inherited, may_act_for, may_grant, wider
from rota.model.accounts.permissions import SCOPES, Binding, Reach, Role, Scope, rights
from rota.model.accounts.restrictions import UNRESTRICTED, Restrictions
from rota.model.tenant import Caller, Plan

OWN, OTHER = 1, 2
PLAN = Plan(
    name="free", tasks_per_hour=None, burst=None, waiting_tasks=None, running_cpu_milli=None, running_memory_bytes=None,
    longest_cap_seconds=1, tiers=None, weight=1,
)  # fmt: skip
EVERY_BINDING = [
    Binding(role=role, tenant=OWN if reach is Reach.TENANT else None, pool="gpu" if reach is Reach.POOL else None)
    for role, reach in SCOPES
    if role is not Role.WORKER
]


def caller(*bindings: Binding, scopes: list[str] | None = None) -> Caller:
    """In a request to the tenant OWN; with a token of these scopes."""
    held = rights(bindings, OWN, support=False)
    held = held if scopes is None else held.within(scopes)
    return Caller(
        tenant_id=OWN, tenant="acme", user="ann", plan=PLAN, role=Role.ADMIN, scopes=held.scopes,
        everywhere=held.everywhere, pools=held.pools,
    )  # fmt: skip


@pytest.mark.parametrize("given", EVERY_BINDING, ids=str)
@pytest.mark.parametrize("held", EVERY_BINDING, ids=str)
def test_a_role_is_given_only_by_administrators_who_have_all_of_it(held: Binding, given: Binding) -> None:
    """Invariant: who gives a role has every scope of it, at the place of it."""
    allowed = may_grant(caller(held), given)
    if held == Binding(role=Role.ADMIN):
        assert allowed
    elif held == Binding(role=Role.ADMIN, tenant=OWN):
        assert allowed == (given.tenant == OWN)
    else:
        assert not allowed


def test_an_administrator_of_a_tenant_gives_nothing_at_another() -> None:
    both = caller(Binding(role=Role.ADMIN, tenant=OWN), Binding(role=Role.VIEWER, tenant=OTHER))
    assert may_grant(both, Binding(role=Role.VIEWER, tenant=OWN))
    assert not may_grant(both, Binding(role=Role.VIEWER, tenant=OTHER))


def test_a_token_gives_only_what_its_scopes_have() -> None:
    narrow = caller(Binding(role=Role.ADMIN), scopes=[Scope.USERS_WRITE, Scope.ADMIN])
    assert not may_grant(narrow, Binding(role=Role.VIEWER, tenant=OWN))
    everything = caller(Binding(role=Role.ADMIN), scopes=[scope.value for scope in Scope])
    assert may_grant(everything, Binding(role=Role.ADMIN))


def test_one_role_too_many_keeps_an_account_out_of_an_administrators_hands() -> None:
    boss = caller(Binding(role=Role.ADMIN, tenant=OWN))
    assert may_act_for(boss, [Binding(role=Role.MEMBER, tenant=OWN), Binding(role=Role.ADMIN, tenant=OWN)])
    assert not may_act_for(boss, [Binding(role=Role.MEMBER, tenant=OWN), Binding(role=Role.VIEWER, tenant=OTHER)])
    assert may_act_for(boss, [])


@pytest.mark.parametrize(
    ("binding", "right"),
    [
        (Binding(role=Role.MEMBER), False),
        (Binding(role=Role.OPERATOR, tenant=OWN), False),
        (Binding(role=Role.VIEWER, pool="gpu"), False),
        (Binding(role=Role.WORKER), False),
        *((binding, True) for binding in EVERY_BINDING),
    ],
    ids=str,
)
def test_a_role_is_where_it_means_something(binding: Binding, right: bool) -> None:
    assert (binding_fault(binding) is None) == right


def of_names(*names: str) -> Restrictions:
    return Restrictions(names=names)


def of_networks(*networks: str) -> Restrictions:
    return Restrictions(networks=tuple(ip_network(one) for one in networks))


@pytest.mark.parametrize(
    ("asked", "own", "field"),
    [
        (UNRESTRICTED, UNRESTRICTED, None),
        (of_names("etl-*"), UNRESTRICTED, None),
        (UNRESTRICTED, of_names("etl-*"), "names"),
        (of_names("etl-*"), of_names("etl-*"), None),
        (of_names("etl-daily"), of_names("etl-*"), None),
        (of_names("etl-a*"), of_names("etl-*"), None),
        (of_names("etl-[a-z]?"), of_names("etl-*"), None),
        (of_names("etl-*", "x"), of_names("etl-*"), "names"),
        (of_names("*"), of_names("etl-*"), "names"),
        (of_names("etl-*"), of_names("etl-?"), "names"),
        (of_names("[!x]*"), of_names("[!x]?"), "names"),
        (of_names("a?"), of_names("a*", "b*"), None),
        (Restrictions(pools=("a",)), Restrictions(pools=("a", "b")), None),
        (Restrictions(pools=("a", "c")), Restrictions(pools=("a", "b")), "pools"),
        (UNRESTRICTED, Restrictions(pools=("a",)), "pools"),
        (UNRESTRICTED, Restrictions(own=True), "own"),
        (Restrictions(own=True), Restrictions(own=True), None),
        (of_networks("10.1.0.0/16"), of_networks("10.0.0.0/8"), None),
        (of_networks("10.0.0.0/8"), of_networks("10.1.0.0/16"), "addresses"),
        (of_networks("::/0"), of_networks("10.0.0.0/8"), "addresses"),
        (UNRESTRICTED, of_networks("10.0.0.0/8"), "addresses"),
    ],
    ids=str,
)
def test_a_token_made_with_a_token_is_for_no_more(asked: Restrictions, own: Restrictions, field: str | None) -> None:
    assert wider(asked, own) == field


def test_what_is_not_said_is_as_its_makers() -> None:
    own = Restrictions(names=("etl-*",), pools=("a",), own=True)
    assert inherited(UNRESTRICTED, own) == own
    assert inherited(of_names("etl-1"), own) == Restrictions(names=("etl-1",), pools=("a",), own=True)
