"""`rota user invite`, `rota session` and `rota sign-in rules`, as somebody types them."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.api.accounts.test_account_commands import Rota
from tests.api.sign_in.people import SignIn

By = Callable[[str], Rota]  # with a token


def test_an_administrator_invites_sees_sessions_and_ends_them(people: SignIn, rota: By) -> None:
    root = rota(people.acme.admin)
    ann = people.user()
    said = root("user", "invite", ann)
    assert f"{people.url}/ui/invitation?code=" in said
    assert json.loads(root("user", "invite", ann, "-o", "json"))["user"] == ann
    browser, other = people.signed_in(ann), people.signed_in(ann)
    shown = json.loads(root("session", "list", "--user", ann, "-o", "json"))["sessions"]
    assert len(shown) == 3
    assert "127.1" in root("session", "list", "--user", ann)
    assert root("session", "revoke", str(shown[0]["id"])) == f"session {shown[0]['id']} is ended\n"
    assert other.get("/ui/").path == "/ui/sign-in"
    assert root("session", "revoke", "--all", "--user", ann) == "2 sessions are ended\n"
    assert browser.get("/ui/").path == "/ui/sign-in"
    assert root("session", "revoke", "--all", "--user", ann) == "0 sessions are ended\n"
    assert "no sessions of" in root("session", "list", "--user", ann)
    assert "no such session" in root("session", "revoke", str(shown[0]["id"]), fails=3)
    assert "no such user" in root("user", "invite", "nobody-at-all", fails=3)
    assert "no such second factor" in root("user", "reset-second-factor", ann, fails=3)


def test_a_user_sees_and_ends_own_sessions_with_a_token(people: SignIn, rota: By) -> None:
    ann = people.user()
    own = rota(people.acme.token_of(ann))
    assert "link" in own("session", "list")
    assert own("session", "revoke", "--all") == "1 session is ended\n"


def test_wrong_use_is_said_in_one_sentence(people: SignIn, rota: By) -> None:
    root = rota(people.acme.admin)
    assert "name one session, or give --all" in root("session", "revoke", fails=2)
    assert "name one session, or give --all" in root("session", "revoke", "3", "--all", fails=2)
    assert "--user goes with --all" in root("session", "revoke", "3", "--user", "ann", fails=2)
    assert "belongs to nobody" in root("session", "list", fails=4)
    assert "none alone" in root("sign-in", "rules", "--second-factor", "none", "--second-factor", "admin", fails=2)
    assert "'boss' is not a role" in root("sign-in", "rules", "--second-factor", "boss", fails=4)


def test_rules_are_shown_and_set(people: SignIn, rota: By) -> None:
    root = rota(people.acme.admin)
    assert "nobody" in root("sign-in", "rules")
    assert "operator" in root("sign-in", "rules", "--second-factor", "operator")
    assert json.loads(root("sign-in", "rules", "-o", "json")) == {"second_factor_roles": ["operator"]}
    assert "nobody" in root("sign-in", "rules", "--second-factor", "none")
    member = rota(people.acme.token_of(people.user()))
    assert "needs the scope admin" in member("sign-in", "rules", "--second-factor", "none", fails=4)
