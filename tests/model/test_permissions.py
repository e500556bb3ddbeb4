"""What each role may do by its reach, and what a token leaves of it."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from rota.model.accounts.permissions import (
    BUNDLES,
    MEANING,
    PAYLOAD,
    SCOPES,
    Binding,
    Reach,
    Role,
    Scope,
    bindings_of_role,
    rights,
    widest_role,
)
from rota.model.accounts.restrictions import Restrictions

OWN, OTHER = 1, 2


def test_every_scope_has_a_meaning() -> None:
    assert set(MEANING) == set(Scope)


def test_a_bundle_is_a_part_of_what_some_role_has() -> None:
    for name, scopes in BUNDLES.items():
        assert any(scopes <= held for held in SCOPES.values()), name


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.ADMIN])
def test_a_role_at_a_tenant_gives_nothing_at_another(role: Role) -> None:
    binding = Binding(role=role, tenant=OWN)
    assert rights([binding], OWN, support=True).scopes == SCOPES[role, Reach.TENANT]
    assert not rights([binding], OTHER, support=True).scopes


def test_only_the_administrator_everywhere_has_all_but_work() -> None:
    everything = frozenset(Scope) - {Scope.WORK}
    assert [key for key, held in SCOPES.items() if held >= everything] == [(Role.ADMIN, Reach.EVERYWHERE)]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_payload_is_hidden_from_roles_everywhere_until_the_tenant_allows_support(role: Role) -> None:
    binding = Binding(role=role)
    assert not rights([binding], OWN, support=False).scopes & PAYLOAD
    assert rights([binding], OWN, support=True).scopes >= PAYLOAD


def test_an_operator_of_a_pool_changes_that_pool_only() -> None:
    held = rights([Binding(role=Role.OPERATOR, pool="gpu")], OWN, support=False)
    assert held.pools == {"gpu"}
    assert Scope.NODES_WRITE in held.scopes
    assert Scope.TASKS_READ not in held.scopes
    assert rights([Binding(role=Role.OPERATOR)], OWN, support=False).pools is None


def test_a_token_has_no_more_than_its_owner() -> None:
    held = rights([Binding(role=Role.VIEWER, tenant=OWN)], OWN, support=True)
    assert held.within(["tasks:read", "tasks:submit", "unknown"]).scopes == {Scope.TASKS_READ}


def test_a_token_makes_others_only_if_it_says_so_or_its_owner_is_administrator_everywhere() -> None:
    member = rights([Binding(role=Role.MEMBER, tenant=OWN)], OWN, support=True)
    assert Scope.TOKENS_WRITE not in member.within(None).scopes
    assert Scope.TOKENS_WRITE in member.within(["tokens:write"]).scopes
    assert Scope.TOKENS_WRITE in rights([Binding(role=Role.ADMIN)], OWN, support=True).within(None).scopes


def test_a_role_of_an_old_token_has_the_reach_that_it_had() -> None:
    assert bindings_of_role(Role.ADMIN, OWN) == (Binding(role=Role.ADMIN),)
    assert bindings_of_role(Role.MEMBER, OWN) == (Binding(role=Role.MEMBER, tenant=OWN),)
    assert widest_role(bindings_of_role(Role.OPERATOR, OWN), OWN) is Role.OPERATOR


def test_restrictions_say_what_they_allow() -> None:
    only = Restrictions(names=("etl-*",), pools=("gpu",), networks=(ip_network("10.0.0.0/8"),))
    assert only.allows_name("etl-1")
    assert not only.allows_name("x")
    assert only.allows_pool("gpu")
    assert not only.allows_pool("main")
    assert only.allows_address("10.1.2.3")
    assert only.allows_address("::ffff:10.1.2.3")
    assert not only.allows_address("11.1.2.3")
    assert not only.allows_address(None)
    assert not only.allows_address("no")
    assert only.text() == "tasks with names like etl-*, and for tasks in the pools gpu"
