"""The settings of single sign-on: every wrong value is named, and groups become exactly the roles that are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.accounts.oidc import MappedRole, OidcFault, OidcSettings, oidc_settings, password_allowed

GOOD = {"issuer": "https://login.example.org/realms/acme", "client_id": "rota"}


def test_what_is_not_said_has_a_default() -> None:
    assert oidc_settings(GOOD) == OidcSettings(issuer=GOOD["issuer"], client_id="rota")


def test_a_whole_table_is_read() -> None:
    table = {
        **GOOD,
        "client_secret_file": "client.secret",
        "scopes": ["groups", "openid", "offline_access"],
        "groups_claim": "realm_access.roles",
        "map": {"rota-admins": "admin@*", "ml": ["member@ml", "viewer@acme"], "gpu-ops": " operator@pool:gpu "},
        "default": "viewer@acme",
        "jit": False,
        "only": True,
        "logout": False,
        "name": " Example Corp ",
        "session": "90m",
    }
    assert oidc_settings(table, "secret") == OidcSettings(
        issuer=GOOD["issuer"],
        client_id="rota",
        client_secret="secret",
        scopes=("openid", "groups", "offline_access"),
        groups_claim="realm_access.roles",
        roles={
            "rota-admins": (MappedRole("admin"),),
            "ml": (MappedRole("member", "ml"), MappedRole("viewer", "acme")),
            "gpu-ops": (MappedRole("operator", None, "gpu"),),
        },
        default=(MappedRole("viewer", "acme"),),
        jit=False,
        only=True,
        logout=False,
        name="Example Corp",
        session_seconds=5400.0,
    )


@pytest.mark.parametrize(
    ("field", "table"),
    [
        ("issuer", {"issuer": None}),
        ("issuer", {"issuer": ""}),
        ("issuer", {"issuer": 5}),
        ("issuer", {"issuer": "login.example.org"}),
        ("issuer", {"issuer": "http://login.example.org"}),
        ("issuer", {"issuer": "http://127.0.0.1.example.org"}),
        ("issuer", {"issuer": "http://localhost.example.org"}),
        ("issuer", {"issuer": "https://"}),
        ("issuer", {"issuer": "https://[::bad"}),
        ("issuer", {"issuer": "https://host:port/"}),
        ("issuer", {"issuer": "https://user:password@login.example.org"}),
        ("issuer", {"issuer": "https://login.example.org?x=y"}),
        ("issuer", {"issuer": "https://login.example.org#x"}),
        ("issuer", {"issuer": "https://login.example.org\n"}),
        ("issuer", {"issuer": "ldap://login.example.org"}),
        ("client_id", {"client_id": None}),
        ("client_id", {"client_id": " "}),
        ("client_id", {"client_id": ["rota"]}),
        ("scopes", {"scopes": 5}),
        ("scopes", {"scopes": ["a b"]}),
        ("scopes", {"scopes": ['"']}),
        ("scopes", {"scopes": [5]}),
        ("groups_claim", {"groups_claim": ""}),
        ("groups_claim", {"groups_claim": False}),
        ("map", {"map": ["admin@*"]}),
        ('map."ml"', {"map": {"ml": ""}}),
        ('map."ml"', {"map": {"ml": []}}),
        ('map."ml"', {"map": {"ml": 5}}),
        ('map."ml"', {"map": {"ml": "member"}}),
        ('map."ml"', {"map": {"ml": "member@"}}),
        ('map."ml"', {"map": {"ml": "member@*"}}),  # there is no member everywhere
        ('map."ml"', {"map": {"ml": "boss@acme"}}),
        ('map."ml"', {"map": {"ml": "worker@*"}}),
        ('map."ml"', {"map": {"ml": "operator@acme"}}),
        ('map."ml"', {"map": {"ml": "admin@pool:gpu"}}),
        ('map."ml"', {"map": {"ml": "operator@pool:"}}),
        ('map."ml"', {"map": {"ml": "member@a b"}}),
        ('map."ml"', {"map": {"ml": ["member@ml", "member"]}}),
        ("default", {"default": "everybody"}),
        ("default", {"default": True}),
        ("jit", {"jit": "yes"}),
        ("only", {"only": 1}),
        ("logout", {"logout": None}),
        ("name", {"name": ""}),
        ("name", {"name": "a\nb"}),
        ("session", {"session": "1m"}),
        ("session", {"session": "8d"}),
        ("session", {"session": 12}),
        ("session", {"session": "soon"}),
        ("client_secret", {"client_secret": "in clear"}),
        ("isuer", {"isuer": "https://login.example.org"}),
    ],
)
def test_a_wrong_value_is_named(field: str, table: dict[str, Any]) -> None:
    with pytest.raises(OidcFault) as raised:
        oidc_settings({**GOOD, **table})
    assert raised.value.field == field
    assert str(raised.value).startswith(f"[oidc] {field}: ")
    assert "in clear" not in str(raised.value)


@pytest.mark.parametrize("issuer", ["http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:80/x"])
def test_a_provider_on_this_machine_needs_no_tls(issuer: str) -> None:
    assert oidc_settings({**GOOD, "issuer": issuer}).issuer == issuer


def test_the_secret_is_not_printed() -> None:
    assert "hunter2" not in repr(oidc_settings(GOOD, "hunter2"))


def test_groups_give_their_roles_and_everybody_has_the_default() -> None:
    settings = oidc_settings(
        {**GOOD, "map": {"ml": "member@ml", "all": ["viewer@acme", "member@ml"]}, "default": "viewer@acme"}
    )
    assert settings.roles_of([]) == {MappedRole("viewer", "acme"): ""}
    assert settings.roles_of(["ml", "all", "sales"]) == {
        MappedRole("viewer", "acme"): "",
        MappedRole("member", "ml"): "all",
    }


@given(st.lists(st.text(max_size=12)), st.dictionaries(st.text(max_size=12), st.sampled_from(["member@ml", "admin@*"])))
def test_a_role_comes_from_a_group_that_is_named_and_from_nowhere_else(
    groups: list[str], named: dict[str, str]
) -> None:
    """Invariant: nobody has a role that no group of theirs is mapped to, letter by letter."""
    roles = oidc_settings({**GOOD, "map": named}).roles_of(groups)
    assert set(map(str, roles)) == {named[group] for group in groups if group in named}
    assert all(named[group] == str(role) for role, group in roles.items())


@pytest.mark.parametrize(
    ("only", "administers_all", "second_factor", "by_link", "allowed"),
    [
        (False, False, False, False, True),
        (True, False, True, False, False),
        (True, True, False, False, False),
        (True, True, True, False, True),
        (True, True, False, True, True),  # to set up the second factor
        (True, False, True, True, False),
    ],
)
def test_with_single_sign_on_only_passwords_are_for_emergencies(
    only: bool, administers_all: bool, second_factor: bool, by_link: bool, allowed: bool
) -> None:
    settings = oidc_settings({**GOOD, "only": only})
    asked = {"administers_all": administers_all, "second_factor": second_factor, "by_link": by_link}
    assert password_allowed(settings, **asked) is allowed
    assert password_allowed(None, **asked) is True
