"""Users and their roles: each administrator manages what is theirs, and nobody gives more than they have."""

from __future__ import annotations

import pytest

from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, problem


def test_an_administrator_of_a_tenant_adds_lists_and_removes_its_users(acme: People) -> None:
    boss = acme.user("admin")
    made = acme.send("POST", "/v1/users", {"name": "anna", "role": "member", "tenant": acme.tenant}, token=boss)
    assert made.status_code == 201
    roles = [(role["role"], role["tenant"], role["pool"]) for role in made.json()["roles"]]
    assert roles == [("member", acme.tenant, None)]
    names = [user["name"] for user in acme.send("GET", "/v1/users", token=boss).json()["users"]]
    assert "anna" in names
    assert names == sorted(names)
    changed = acme.send("PATCH", "/v1/users/anna", {"email": "anna@example.org"}, token=acme.admin).json()
    assert changed["email"] == "anna@example.org"
    assert acme.send("GET", "/v1/users/Anna@Example.org", token=boss).json()["email"] == "anna@example.org"
    assert acme.send("DELETE", "/v1/users/anna", token=boss).status_code == 204
    assert problem(acme.send("GET", "/v1/users/anna", token=boss)) == Said(404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/users", {"name": "x1", "email": "boss@corp.example"}),
        ("POST", "/v1/users", {"name": "boss@corp.example"}),
        ("PATCH", "/v1/users/ANN", {"email": "boss@corp.example"}),
        ("PATCH", "/v1/users/ANN", {"email": None}),
    ],
    ids=str,
)
def test_an_administrator_of_a_tenant_takes_no_mail_address(
    acme: People, method: str, path: str, body: dict[str, str | None]
) -> None:
    """Invariant: who signs in through a provider is found by mail, so an address is not for everybody to set."""
    boss, ann = acme.user("admin"), acme.add_user("member")
    sent = {**body, "role": "member", "tenant": acme.tenant} if method == "POST" else body
    refused = acme.send(method, path.replace("ANN", ann), sent, token=boss)
    assert problem(refused) == Said(403, "beyond-your-rights")


def test_users_and_service_accounts_have_different_names(acme: People) -> None:
    ann = acme.add_user("member")
    at_acme = {"rota-tenant": acme.tenant}
    taken = acme.send("POST", "/v1/service-accounts", {"name": ann.upper()}, token=acme.admin, headers=at_acme)
    assert problem(taken) == Said(409, "user-exists")
    made = acme.send("POST", "/v1/service-accounts", {"name": f"{ann}-bot"}, token=acme.admin, headers=at_acme)
    assert made.status_code == 201
    taken = acme.send("POST", "/v1/users", {"name": f"{ann}-BOT"}, token=acme.admin)
    assert problem(taken) == Said(409, "user-exists")


def test_users_of_other_tenants_look_as_if_they_did_not_exist(acme: People, other: People) -> None:
    boss, stranger = acme.user("admin"), other.add_user("member")
    unknown = problem(acme.send("GET", "/v1/users/nobody-at-all", token=boss))
    for method, path, body in (
        ("GET", f"/v1/users/{stranger}", None),
        ("PATCH", f"/v1/users/{stranger}", {"disabled": True}),
        ("DELETE", f"/v1/users/{stranger}", None),
        ("DELETE", f"/v1/users/{stranger}/bindings?role=member&tenant={acme.tenant}", None),
    ):
        assert problem(acme.send(method, path, body, token=boss)) == unknown
    listed = acme.send("GET", "/v1/users?limit=1000", token=boss).json()["users"]
    assert stranger not in {user["name"] for user in listed}
    everyone = acme.send("GET", "/v1/users?limit=1000", token=acme.admin).json()["users"]
    assert stranger in {user["name"] for user in everyone}


def test_a_user_of_another_tenant_comes_to_this_one_by_name_and_its_other_roles_stay_hidden(
    acme: People, other: People
) -> None:
    boss, guest = acme.user("admin"), other.add_user("member")
    role = {"role": "viewer", "tenant": acme.tenant}
    given = acme.send("POST", f"/v1/users/{guest}/bindings", role, token=boss)
    assert given.status_code == 201
    assert [one["tenant"] for one in given.json()["roles"]] == [acme.tenant]
    seen = acme.send("GET", f"/v1/users/{guest}", token=boss).json()
    assert (seen["name"], seen["email"], seen["created_by"], seen["signed_in_at"]) == (guest, None, "", None)
    for method, body in (("PATCH", {"disabled": True}), ("PATCH", {"email": "evil@example.org"}), ("DELETE", None)):
        refused = acme.send(method, f"/v1/users/{guest}", body, token=boss)
        assert problem(refused) == Said(403, "beyond-your-rights"), "it has a role elsewhere"
    taken = acme.send("DELETE", f"/v1/users/{guest}/bindings?role=viewer&tenant={acme.tenant}", token=boss)
    assert taken.json()["roles"] == []
    assert problem(acme.send("GET", f"/v1/users/{guest}", token=boss)).status == 404


@pytest.mark.parametrize(
    "role",
    [{"role": "admin"}, {"role": "viewer"}, {"role": "operator"}, {"role": "operator", "pool": "default"}],
    ids=str,
)
def test_an_administrator_of_a_tenant_gives_no_role_beyond_it(acme: People, role: dict[str, str]) -> None:
    boss, ann = acme.user("admin"), acme.add_user("member")
    for method, path, body in (
        ("POST", f"/v1/users/{ann}/bindings", role),
        ("POST", "/v1/users", {"name": "new-one", **role}),
        ("POST", "/v1/service-accounts", {"name": "new-one", **role}),
    ):
        assert problem(acme.send(method, path, body, token=boss)) == Said(403, "beyond-your-rights")
    assert problem(acme.send("GET", "/v1/users/new-one", token=acme.admin)).status == 404, "nothing is half done"


def test_an_administrator_of_a_tenant_gives_no_role_at_another(acme: People, other: People) -> None:
    boss, ann = acme.user("admin"), acme.add_user("member")
    for tenant in (other.tenant, "there-is-no-such"):
        role = {"role": "viewer", "tenant": tenant}
        said = problem(acme.send("POST", f"/v1/users/{ann}/bindings", role, token=boss))
        assert said == Said(422, "unknown-tenant", (("/tenant", "unknown-tenant"),))


def test_a_token_for_users_alone_gives_no_role_that_has_more(acme: People) -> None:
    ann = acme.add_user("admin")
    narrow = acme.token_of(ann, scopes=["users:write", "users:read"])
    refused = acme.send("POST", f"/v1/users/{ann}/bindings", {"role": "member", "tenant": acme.tenant}, token=narrow)
    assert problem(refused) == Said(403, "beyond-your-rights")
    assert "tasks:submit" in refused.json()["detail"] or "artifacts" in refused.json()["detail"]


def test_members_and_viewers_manage_nobody(acme: People) -> None:
    for role in ("member", "viewer"):
        token = acme.user(role)
        refused = acme.send("GET", "/v1/users", token=token)
        assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), "users:read")
        refused = acme.send("POST", "/v1/users", {"name": "x"}, token=token)
        assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), "users:write")


def test_the_last_administrator_everywhere_stays(acme: People) -> None:
    first = acme.add_user("admin", **EVERYWHERE)
    for user in acme.send("GET", "/v1/users?limit=1000", token=acme.admin).json()["users"]:
        if user["name"] != first and any(role["role"] == "admin" and not role["tenant"] for role in user["roles"]):
            assert acme.send("DELETE", f"/v1/users/{user['name']}", token=acme.admin).status_code == 204
    for method, path, body in (
        ("DELETE", f"/v1/users/{first}", None),
        ("PATCH", f"/v1/users/{first}", {"disabled": True}),
        ("DELETE", f"/v1/users/{first}/bindings?role=admin", None),
    ):
        said = problem(acme.send(method, path, body, token=acme.admin))
        assert said == Said(409, "last-administrator")
    second = acme.add_user("admin", **EVERYWHERE)
    assert acme.send("DELETE", f"/v1/users/{first}", token=acme.admin).status_code == 204
    assert problem(acme.send("DELETE", f"/v1/users/{second}", token=acme.admin)).slug == "last-administrator"
    acme.served.ask("delete from principals where name = $1", second)


def test_a_change_by_a_session_needs_a_proof_of_the_last_quarter_of_an_hour(acme: People) -> None:
    boss = acme.add_user("admin")
    old, fresh = acme.session_of(boss, proved=False), acme.session_of(boss)
    body = {"name": f"{boss}-friend", "role": "viewer", "tenant": acme.tenant}
    refused = acme.send("POST", "/v1/users", body, token=None, headers=old)
    assert problem(refused) == Said(403, "proof-needed")
    assert "sign in again" in refused.json()["detail"]
    assert acme.send("GET", "/v1/users", token=None, headers=old).status_code == 200
    assert acme.send("POST", "/v1/users", body, token=None, headers=fresh).status_code == 201


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "a b"}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"name": ""}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"name": "a\nb: c"}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"name": "x" * 101}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"name": "ok", "email": "nobody"}, Said(422, "invalid-address", (("/email", "invalid-address"),))),
        ({"name": "ok", "email": "a@b\r\nx: y"}, Said(422, "invalid-address", (("/email", "invalid-address"),))),
        ({"name": "ok", "tenant": "acme"}, Said(422, "missing-field", (("/role", "missing-field"),))),
        ({"name": "ok", "role": "king"}, Said(422, "out-of-range", (("/role", "out-of-range"),))),
        ({"name": "ok", "role": "worker"}, Said(422, "out-of-range", (("/role", "out-of-range"),))),
        ({"name": "ok", "role": "member"}, Said(422, "out-of-range", (("/role", "out-of-range"),))),
        ({"name": "ok", "role": "viewer", "pool": "small"}, Said(422, "out-of-range", (("/role", "out-of-range"),))),
        ({"name": "ok", "role": "operator", "pool": "x"}, Said(422, "unknown-pool", (("/pool", "unknown-pool"),))),
        ({"name": "ok", "role": "admin", "tenant": "x"}, Said(422, "unknown-tenant", (("/tenant", "unknown-tenant"),))),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_new_user_is_said(acme: People, body: dict[str, str], said: Said) -> None:
    assert problem(acme.send("POST", "/v1/users", body, token=acme.admin)) == said


def test_a_name_is_taken_once_and_no_name_is_the_mail_address_of_another(acme: People) -> None:
    ann = acme.add_user("member")
    mail = f"{ann}@example.org"
    assert acme.send("PATCH", f"/v1/users/{ann}", {"email": mail}, token=acme.admin).status_code == 200
    for body in ({"name": ann.upper()}, {"name": mail}, {"name": f"{ann}2", "email": mail.upper()}):
        assert problem(acme.send("POST", "/v1/users", body, token=acme.admin)) == Said(409, "user-exists")
    bob = acme.add_user("member")
    taken = acme.send("PATCH", f"/v1/users/{bob}", {"email": mail}, token=acme.admin)
    assert problem(taken) == Said(409, "user-exists")


def test_a_role_is_given_once_and_taken_once(acme: People) -> None:
    ann = acme.add_user("member")
    role = {"role": "member", "tenant": acme.tenant}
    given = acme.send("POST", f"/v1/users/{ann}/bindings", role, token=acme.admin)
    assert problem(given) == Said(409, "role-exists")
    path = f"/v1/users/{ann}/bindings?role=member&tenant={acme.tenant}"
    assert acme.send("DELETE", path, token=acme.admin).json()["roles"] == []
    assert problem(acme.send("DELETE", path, token=acme.admin)) == Said(404, "not-found")


def test_pages_of_users_have_each_once(acme: People) -> None:
    boss = acme.user("admin")
    for _ in range(4):
        acme.add_user("viewer")
    whole = [user["name"] for user in acme.send("GET", "/v1/users?limit=1000", token=boss).json()["users"]]
    paged: list[str] = []
    after = ""
    while True:
        page = acme.send("GET", f"/v1/users?limit=2&after={after}", token=boss).json()
        paged += [user["name"] for user in page["users"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert paged == whole
