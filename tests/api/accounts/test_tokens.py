"""Tokens: what one may do is never more than its owner may, and what makes one gives no more than it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, problem
from tests.faults.scene import eventually

DAY = 86_400.0


def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def life_days(document: dict[str, Any]) -> float:
    ends = datetime.fromisoformat(document["expires_at"])
    return (ends - datetime.now(UTC)).total_seconds() / DAY


def submit(acme: People, token: str, name: str, **task: Any) -> httpx.Response:
    return acme.send("POST", "/v1/tasks", {"command": ["true"], "name": name, **task}, token=token)


@pytest.fixture(scope="module")
def ann(acme: People) -> str:
    return acme.add_user("member")


@pytest.fixture(scope="module")
def anns(acme: People, ann: str) -> dict[str, str]:
    return acme.session_of(ann)


# ---- making ---------------------------------------------------------------------------------------------------------


def test_a_user_makes_a_token_of_its_own_that_ends_in_90_days(acme: People, ann: str, anns: dict[str, str]) -> None:
    token = made(acme.send("POST", "/v1/tokens", {"name": "laptop"}, token=None, headers=anns))
    assert 89.9 < life_days(token) <= 90
    [listed] = acme.send("GET", "/v1/tokens", token=None, headers=anns).json()["tokens"]
    assert (listed["owner"], listed["created_by"], listed["name"], listed["scopes"]) == (ann, ann, "laptop", None)
    assert "token" not in listed
    me = acme.send("GET", "/v1/whoami", token=token["token"]).json()
    assert (me["user"], me["kind"], me["tenant"], me["credential"]) == (ann, "user", acme.tenant, "token laptop")
    assert "tasks:submit" in me["scopes"]
    assert "tokens:write" not in me["scopes"], "a token has this only by name"
    again = acme.send("POST", "/v1/tokens", {"name": "laptop"}, token=None, headers=anns)
    assert problem(again) == Said(409, "token-exists")


def test_a_bundle_is_its_scopes_and_nothing_else(acme: People, anns: dict[str, str]) -> None:
    ci = made(acme.send("POST", "/v1/tokens", {"bundles": ["ci"]}, token=None, headers=anns))["token"]
    assert submit(acme, ci, "a").status_code == 201
    refused = acme.send("POST", "/v1/tasks/cancel", {"ids": [1]}, token=ci)
    assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), "tasks:control")


def test_a_session_that_proved_itself_long_ago_makes_and_rotates_none(acme: People, ann: str) -> None:
    old = acme.session_of(ann, proved=False)
    token = acme.token_of(ann, name="to-rotate")
    assert token
    for path in ("/v1/tokens", "/v1/tokens/to-rotate/rotate"):
        refused = acme.send("POST", path, {}, token=None, headers=old)
        assert problem(refused) == Said(403, "proof-needed")
    assert acme.send("DELETE", "/v1/tokens/to-rotate", token=None, headers=old).status_code == 204


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"scopes": ["tasks:nap"]}, Said(422, "unknown-scope", (("/scopes", "unknown-scope"),))),
        ({"scopes": ["work"]}, Said(422, "unknown-scope", (("/scopes", "unknown-scope"),))),
        ({"scopes": []}, Said(422, "missing-field", (("/scopes", "missing-field"),))),
        ({"bundles": ["all"]}, Said(422, "unknown-bundle", (("/bundles", "unknown-bundle"),))),
        ({"pools": ["nowhere"]}, Said(422, "unknown-pool", (("/pools", "unknown-pool"),))),
        ({"names": [""]}, Said(422, "invalid-name", (("/names", "invalid-name"),))),
        ({"names": ["a\nb"]}, Said(422, "invalid-name", (("/names", "invalid-name"),))),
        ({"names": []}, Said(422, "out-of-range", (("/names", "out-of-range"),))),
        ({"names": ["a"] * 51}, Said(422, "out-of-range", (("/names", "out-of-range"),))),
        ({"addresses": ["10.0.0.1/8"]}, Said(422, "invalid-address", (("/addresses", "invalid-address"),))),
        ({"addresses": ["here"]}, Said(422, "invalid-address", (("/addresses", "invalid-address"),))),
        ({"name": "7"}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"name": "a b"}, Said(422, "invalid-name", (("/name", "invalid-name"),))),
        ({"expires": "soon"}, Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ({"expires": "2030-13-31"}, Said(422, "invalid-time", (("/expires", "invalid-time"),))),
        ({"expires": "-1d"}, Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ({"expires": "367d"}, Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ({"expires": "2100-01-31T08:00:00Z"}, Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ({"expires": "never"}, Said(422, "out-of-range", (("/expires", "out-of-range"),))),
        ({"tenant": "default"}, Said(422, "unknown-tenant", (("/tenant", "unknown-tenant"),))),
        ({"owner": "somebody"}, Said(422, "unknown-account", (("/owner", "unknown-account"),))),
        ({"service_account": "x"}, Said(422, "unknown-account", (("/service_account", "unknown-account"),))),
        ({"owner": "a", "service_account": "b"}, Said(422, "out-of-range", (("/owner", "out-of-range"),))),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_new_token_is_said(
    acme: People, anns: dict[str, str], body: dict[str, Any], said: Said
) -> None:
    assert problem(acme.send("POST", "/v1/tokens", body, token=None, headers=anns)) == said


def test_nobody_gives_a_token_a_scope_that_they_lack(acme: People, anns: dict[str, str]) -> None:
    for scope in ("users:write", "audit:read", "admin", "metrics:read"):
        refused = acme.send("POST", "/v1/tokens", {"scopes": [scope]}, token=None, headers=anns)
        assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), scope)
    refused = acme.send("POST", "/v1/tokens", {"user": "x", "tenant": acme.tenant}, token=None, headers=anns)
    assert refused.json()["needed"] == "admin", "tokens without an owner are made by administrators everywhere"


def test_only_an_administrator_everywhere_makes_a_token_that_never_ends(acme: People) -> None:
    root = acme.session_of(acme.add_user("admin", **EVERYWHERE))
    token = made(acme.send("POST", "/v1/tokens", {"expires": "never"}, token=None, headers=root))
    assert token["expires_at"] is None


# ---- tokens that make tokens ----------------------------------------------------------------------------------------

MAKER = ["tokens:write", "tasks:submit", "tasks:read"]


def test_a_token_without_the_scope_for_it_makes_none(acme: People, ann: str) -> None:
    plain = acme.token_of(ann)
    for method, path in (("POST", "/v1/tokens"), ("POST", "/v1/tokens/1/rotate"), ("DELETE", "/v1/tokens/1")):
        refused = acme.send(method, path, b"{}", token=plain)
        assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), "tokens:write")


def test_a_token_that_makes_tokens_gives_no_more_than_it_has(acme: People, ann: str) -> None:
    maker = acme.token_of(ann, scopes=MAKER, names=["etl-*"], addresses=["127.0.0.0/8"], expires="10d")
    child = made(acme.send("POST", "/v1/tokens", {}, token=maker))
    me = acme.send("GET", "/v1/whoami", token=child["token"]).json()
    assert (set(me["scopes"]), me["names"], me["addresses"]) == (set(MAKER), ["etl-*"], ["127.0.0.0/8"])
    assert life_days(child) <= 10
    refused = acme.send("POST", "/v1/tokens", {"scopes": ["tasks:control"]}, token=maker)
    assert (problem(refused), refused.json()["needed"]) == (Said(403, "missing-scope"), "tasks:control")
    for body in ({"names": ["*"]}, {"names": ["etl-*", "x"]}, {"addresses": ["0.0.0.0/0"]}):
        assert problem(acme.send("POST", "/v1/tokens", body, token=maker)) == Said(403, "beyond-your-rights")
    outlives = acme.send("POST", "/v1/tokens", {"expires": "11d"}, token=maker)
    assert problem(outlives) == Said(422, "out-of-range", (("/expires", "out-of-range"),))
    narrow = made(acme.send("POST", "/v1/tokens", {"names": ["etl-daily"], "scopes": ["tasks:read"]}, token=maker))
    assert acme.send("GET", "/v1/whoami", token=narrow["token"]).json()["names"] == ["etl-daily"]


def test_a_token_rotates_itself_but_nothing_that_may_do_more(acme: People, ann: str) -> None:
    maker = acme.token_of(ann, name="narrow", scopes=MAKER, names=["etl-*"], expires="10d")
    acme.token_of(ann, name="wide", scopes=MAKER)
    acme.token_of(ann, name="more", scopes=[*MAKER, "tasks:control"], names=["etl-*"])
    wide = acme.send("POST", "/v1/tokens/wide/rotate", {}, token=maker)
    assert problem(wide) == Said(403, "beyond-your-rights")
    more = acme.send("POST", "/v1/tokens/more/rotate", {}, token=maker)
    assert (problem(more), more.json()["needed"]) == (Said(403, "missing-scope"), "tasks:control")
    own = made(acme.send("POST", "/v1/tokens/narrow/rotate", {}, token=maker))
    assert 9.9 < life_days(own) <= 10, "as long as the first"
    longer = acme.send("POST", "/v1/tokens/narrow/rotate", {"expires": "never"}, token=own["token"])
    assert problem(longer).status == 422


# ---- restrictions ---------------------------------------------------------------------------------------------------


def test_a_token_for_names_submits_these_and_no_others(acme: People, ann: str) -> None:
    token = acme.token_of(ann, scopes=["tasks:submit"], names=["etl-*"])
    assert submit(acme, token, "etl-1").status_code == 201
    for name in ("x", "xetl-1", "ETL-1"):
        said = problem(submit(acme, token, name))
        assert said == Said(403, "restricted-token", (("/name", "restricted-token"),))


def test_a_token_for_pools_submits_there_only(acme: People, ann: str) -> None:
    token = acme.token_of(ann, scopes=["tasks:submit"], pools=["small"])
    assert submit(acme, token, "a", pool="small").status_code == 201
    assert problem(submit(acme, token, "a")) == Said(403, "restricted-token", (("/pool", "restricted-token"),))


def test_a_token_for_networks_is_refused_from_elsewhere(acme: People, ann: str) -> None:
    near = acme.token_of(ann, addresses=["127.0.0.0/8", "::1/128"])
    far = acme.token_of(ann, addresses=["192.0.2.0/24"])
    assert acme.send("GET", "/v1/tasks", token=near).status_code == 200
    assert problem(acme.send("GET", "/v1/tasks", token=far)) == Said(403, "wrong-address")


# ---- service accounts -----------------------------------------------------------------------------------------------


def test_an_administrator_makes_tokens_for_a_service_account_of_its_tenant(acme: People, other: People) -> None:
    boss, elsewhere = acme.user("admin"), other.user("admin")
    role = {"role": "member", "tenant": acme.tenant}
    made(acme.send("POST", "/v1/service-accounts", {"name": "ci", **role}, token=boss))
    body = {"service_account": "ci", "name": "deploy", "bundles": ["ci"]}
    token = made(acme.send("POST", "/v1/tokens", body, token=boss))["token"]
    me = acme.send("GET", "/v1/whoami", token=token).json()
    assert (me["user"], me["kind"], me["tenant"]) == ("ci", "service", acme.tenant)
    for method, path, sent in (
        ("GET", "/v1/service-accounts/ci", None),
        ("DELETE", "/v1/service-accounts/ci", None),
        ("POST", "/v1/service-accounts/ci/bindings", {"role": "viewer", "tenant": other.tenant}),
    ):
        assert problem(other.send(method, path, sent, token=elsewhere)) == Said(404, "not-found")
    assert problem(other.send("POST", "/v1/tokens", {"service_account": "ci"}, token=elsewhere)).slug == (
        "unknown-account"
    )
    assert acme.send("DELETE", "/v1/service-accounts/ci", token=boss).status_code == 204
    eventually(lambda: acme.send("GET", "/v1/whoami", token=token).status_code == 401, seconds=5, what="it is gone")


def test_an_account_with_a_role_beyond_the_tenant_is_out_of_the_hands_of_its_administrator(acme: People) -> None:
    boss = acme.user("admin")
    made(acme.send("POST", "/v1/service-accounts", {"name": "scaler"}, token=boss))
    given = acme.send("POST", "/v1/service-accounts/scaler/bindings", {"role": "operator"}, token=acme.admin,
                      headers={"rota-tenant": acme.tenant})  # fmt: skip
    assert given.status_code == 201, given.text
    wide = acme.send(
        "POST", "/v1/tokens", {"service_account": "scaler", "name": "s", "tenant": acme.tenant}, token=acme.admin
    )
    number = made(wide)["id"]
    for method, path, body in (
        ("POST", "/v1/tokens", {"service_account": "scaler"}),
        ("POST", "/v1/tokens", {"service_account": "scaler", "scopes": ["tasks:control"]}),
        ("POST", f"/v1/tokens/{number}/rotate", {}),
        ("DELETE", f"/v1/tokens/{number}", None),
        ("PATCH", "/v1/service-accounts/scaler", {"disabled": True}),
    ):
        assert problem(acme.send(method, path, body, token=boss)) == Said(403, "beyond-your-rights")


# ---- rotation, expiry, use ------------------------------------------------------------------------------------------


def test_rotation_gives_a_new_text_with_the_same_facts_and_ends_the_old_one(acme: People, ann: str) -> None:
    first = acme.token_of(ann, name="daily", scopes=["tasks:read"], names=["etl-*"], expires="30d")
    boss = acme.session_of(acme.add_user("admin"))
    rotated = made(acme.send("POST", "/v1/tokens/daily/rotate", {"overlap": "1h"}, token=None, headers=boss))
    assert 29.9 < life_days(rotated) <= 30
    left = datetime.fromisoformat(rotated["old_ends_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    both = [acme.send("GET", "/v1/whoami", token=one).json() for one in (first, rotated["token"])]
    assert [(one["user"], one["scopes"], one["names"]) for one in both] == [(ann, ["tasks:read"], ["etl-*"])] * 2
    again = acme.send("POST", f"/v1/tokens/{rotated['replaces']}/rotate", {}, token=None, headers=boss)
    assert problem(again) == Said(409, "token-replaced")
    third = made(acme.send("POST", "/v1/tokens/daily/rotate", {"overlap": 0}, token=None, headers=boss))
    for text in (first, rotated["token"]):
        eventually(lambda text=text: acme.send("GET", "/v1/whoami", token=text).status_code == 401, seconds=5,
                   what="what a rotation replaced is over")  # fmt: skip
    assert acme.send("GET", "/v1/whoami", token=third["token"]).status_code == 200
    assert acme.send("GET", "/v1/tokens/daily", token=None, headers=boss).json()["id"] == third["id"]


@pytest.mark.parametrize("overlap", ["31d", "-1s", "soon"])
def test_an_overlap_is_short(acme: People, ann: str, anns: dict[str, str], overlap: str) -> None:
    acme.token_of(ann, name=f"o{overlap.strip('-')}")
    path = f"/v1/tokens/o{overlap.strip('-')}/rotate"
    said = problem(acme.send("POST", path, {"overlap": overlap}, token=None, headers=anns))
    assert said == Said(422, "out-of-range", (("/overlap", "out-of-range"),))


def test_a_token_of_another_tenant_looks_as_if_it_did_not_exist(acme: People, other: People, ann: str) -> None:
    acme.token_of(ann, name="mine")
    number = acme.send("GET", "/v1/tokens/mine", token=acme.admin).json()["id"]
    for token in (other.user("admin"), other.user("member"), acme.user("member")):
        for where in (number, "mine", 999_999_999, "none"):
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
                answer = acme.send(method, f"/v1/tokens/{where}{path}", token=token)
                assert problem(answer) == Said(404, "not-found"), (method, where)
        assert number not in {one["id"] for one in acme.send("GET", "/v1/tokens", token=token).json()["tokens"]}


def test_answers_tell_of_an_end_within_two_weeks(acme: People, ann: str) -> None:
    near, far, never = (acme.token_of(ann, expires=life) for life in ("13d", "15d", "never"))
    ends = datetime.fromisoformat(acme.send("GET", "/v1/tasks", token=near).headers["rota-token-expires"])
    assert timedelta(days=12.9) < ends - datetime.now(UTC) <= timedelta(days=13)
    assert "rota-token-expires" in submit(acme, near, "etl-1").headers, "the busiest route too"
    for token in (far, never):
        assert "rota-token-expires" not in acme.send("GET", "/v1/tasks", token=token).headers


def test_the_last_use_is_noted_but_not_every_time(acme: People, ann: str) -> None:
    token = acme.token_of(ann, name="used")

    def use() -> dict[str, Any]:
        assert acme.send("GET", "/v1/tasks", token=token).status_code == 200
        document: dict[str, Any] = acme.send("GET", "/v1/tokens/used", token=acme.admin).json()
        return document

    assert use()["used_at"] is None
    eventually(lambda: use()["used_at"] is not None, seconds=10, what="the use is written")
    noted = use()
    assert noted["used_from"] == "127.0.0.1"
    acme.served.ask("update tokens set used_from = '192.0.2.1' where name = 'used'")
    written = acme.token_of(ann, name="later")
    acme.send("GET", "/v1/tasks", token=token)
    acme.send("GET", "/v1/tasks", token=written)
    eventually(
        lambda: acme.send("GET", "/v1/tokens/later", token=acme.admin).json()["used_at"] is not None,
        seconds=10,
        what="a later note is written",
    )
    assert use()["used_from"] == "192.0.2.1", "not again within five minutes"


def test_a_plan_limits_valid_tokens_but_not_their_rotation(acme: People) -> None:
    small = People.at(acme.served, "free")
    ann = small.session_of(small.add_user("member"))
    most = small.send("GET", "/v1/me", token=None, headers=ann).json()["plan"]["tokens"]
    for name in ("a", *(f"more-{number}" for number in range(most - 1))):
        made(small.send("POST", "/v1/tokens", {"name": name}, token=None, headers=ann))
    refused = small.send("POST", "/v1/tokens", {"name": "c"}, token=None, headers=ann)
    assert problem(refused) == Said(429, "quota-exceeded")
    made(small.send("POST", "/v1/tokens/a/rotate", {}, token=None, headers=ann))


def test_the_tokens_of_a_disabled_user_do_not_count_until_it_is_enabled(acme: People) -> None:
    bob = acme.add_user("member")
    token = acme.token_of(bob)
    for disabled, status in ((True, 401), (False, 200)):
        changed = acme.send("PATCH", f"/v1/users/{bob}", {"disabled": disabled}, token=acme.admin)
        assert (changed.json()["disabled_at"] is not None) is disabled
        eventually(
            lambda status=status: acme.send("GET", "/v1/tasks", token=token).status_code == status,
            seconds=5,
            what="it counts or not",
        )


def test_what_administrators_could_do_before_there_were_accounts_they_still_can(acme: People) -> None:
    body = {"tenant": acme.tenant, "user": "old-style", "role": "viewer"}
    token = made(acme.send("POST", "/v1/tokens", body, token=acme.admin))
    assert {"id", "token", "public_id", "tenant", "user", "role"} <= token.keys()
    assert token["expires_at"] is None
    listed = acme.send("GET", f"/v1/tokens/{token['id']}", token=acme.admin).json()
    assert (listed["owner"], listed["role"], listed["user"]) == (None, "viewer", "old-style")
    assert acme.send("GET", "/v1/tasks", token=token["token"]).status_code == 200
    assert submit(acme, token["token"], "x").status_code == 403
