"""Who holds a role everywhere sees names and states of a tenant's tasks, and their payload only if the tenant agrees."""

from __future__ import annotations

import pytest

from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, problem

CANARY = "canary-of-the-payload"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_payload_is_shown_to_roles_everywhere_only_with_support(acme: People, other: People, role: str) -> None:
    own = acme.user("member")
    body = {"command": ["echo", CANARY], "name": "seen"}
    task = acme.send("POST", "/v1/tasks", body, token=own).json()["id"]
    made = acme.send("POST", "/v1/schedules", {"name": f"s-{role}", "every": "1d", "task": body}, token=own)
    assert made.status_code == 201, made.text
    boss = acme.session_of(acme.add_user("admin"))
    outsider = {**acme.session_of(acme.add_user(role, **EVERYWHERE)), "rota-tenant": acme.tenant}
    pages = (f"/v1/tasks/{task}", "/v1/tasks", f"/v1/tasks/{task}/attempts", "/v1/schedules", f"/v1/schedules/s-{role}")

    def support(on: bool) -> None:
        path = f"/v1/tenants/{acme.tenant}/settings"
        changed = acme.send("PATCH", path, {"support": on}, token=None, headers=boss)
        assert changed.json()["support"] is on

    for on in (False, True, False):
        support(on)
        answers = [acme.send("GET", path, token=None, headers=outsider) for path in pages]
        assert [answer.status_code for answer in answers] == [200] * len(pages)
        assert answers[0].json()["name"] == "seen"
        assert any(CANARY in answer.text for answer in answers) is on
        log = acme.send("GET", f"/v1/tasks/{task}/log", token=None, headers=outsider)
        assert (log.status_code == 200) is on
        assert on or log.json()["needed"] == "logs:read"
    assert CANARY in acme.send("GET", f"/v1/tasks/{task}", token=own).text
    refused = acme.send("PATCH", f"/v1/tenants/{other.tenant}/settings", {"support": True}, token=None, headers=boss)
    assert problem(refused) == Said(404, "not-found")


def test_an_own_token_made_at_another_tenant_opens_no_more_there(acme: People) -> None:
    """Invariant: only a role at the tenant, or its support, shows payload."""
    auditor = acme.session_of(acme.add_user("viewer", **EVERYWHERE))
    made = acme.send("POST", "/v1/tokens", {}, token=None, headers={**auditor, "rota-tenant": acme.tenant})
    assert made.status_code == 201
    scopes = acme.send("GET", "/v1/whoami", token=made.json()["token"]).json()["scopes"]
    assert not {"logs:read", "results:read", "artifacts:read"} & set(scopes)
