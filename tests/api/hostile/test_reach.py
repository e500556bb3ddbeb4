"""A role opens what it is at, and nothing beside it: one pool, one tenant, and no payload of tenants that show none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.model.accounts.permissions import Binding, Role
from tests.api.hostile.principals import Person
from tests.api.served import Said, Served, problem

SECRETIVE = "not-for-operators"


def test_an_operator_of_a_pool_changes_its_nodes_and_no_others(served: Served) -> None:
    operator = Person.with_roles(served, Binding(role=Role.OPERATOR, pool="small"), tenant=served.tenant)
    served.ask(
        """insert into nodes (pool, name, boot, capacity, labels, capabilities, version)
            select id, 'elsewhere', 1, '{}', '{}', '{}', 'test' from pools where name = 'default' on conflict do nothing"""
    )
    for method, what in (("POST", "/drain"), ("POST", "/undrain"), ("POST", "/reload"), ("DELETE", "")):
        for headers in ({"authorization": f"Bearer {operator.token}"}, operator.cookie):
            answer = served.send(method, f"/v1/nodes/elsewhere{what}", token=None, headers=headers)
            assert problem(answer) == Said(403, "wrong-pool")
    for what in ("pause", "resume"):
        assert problem(served.send("POST", f"/v1/pools/default/{what}", token=operator.token)) == Said(
            403, "wrong-pool"
        )
    [(paused, state)] = served.ask(
        """select pools.paused, nodes.state from pools join nodes on nodes.pool = pools.id
            where pools.name = 'default' and nodes.name = 'elsewhere'"""
    )
    assert (paused, state) == (False, "up")
    assert served.send("POST", "/v1/nodes/n/drain", token=operator.token).status_code == 200
    assert served.send("POST", "/v1/nodes/n/undrain", token=operator.token).status_code == 200
    assert served.send("POST", "/v1/pools/small/resume", token=operator.token).status_code == 200
    assert served.send("GET", "/v1/tasks", token=operator.token).status_code == 403, "tasks are none of its business"


@pytest.mark.parametrize("binding", [Binding(role=Role.OPERATOR, pool="small"), Binding(role=Role.MEMBER, tenant=1)])
def test_a_role_elsewhere_opens_no_tenant(served: Served, binding: Binding) -> None:
    name, tenant = served.add_tenant()
    person = Person.with_roles(served, binding, tenant=served.tenant)
    for headers in ({"authorization": f"Bearer {person.token}"}, person.cookie):
        for wanted in (name, "t-no-such-tenant"):
            answer = served.send("GET", "/v1/nodes", token=None, headers={**headers, "rota-tenant": wanted})
            assert problem(answer) == Said(404, "not-found")
    served.ask("update sessions set tenant = $1 where principal = $2", tenant, person.principal)
    answer = served.send("GET", "/v1/tasks", token=None, headers=person.cookie)
    assert problem(answer) == Said(403, "missing-scope"), "a session that was switched by another door"


def test_a_restricted_token_keeps_to_its_tasks_by_every_way_to_name_them(served: Served) -> None:
    """Also by dependencies: a task reads the results of those that it depends on."""
    name, tenant = served.add_tenant()
    colleague, work = served.add_token(name), {"command": ["true"], "unplaceable": "wait"}
    other, own = served.submit(colleague, **work, name="payroll"), served.submit(colleague, **work, name="etl-1")
    narrow = Person.with_roles(served, Binding(role=Role.MEMBER, tenant=tenant), tenant=tenant)
    narrow.restrict(names=["etl-*"])
    task = {**work, "name": "etl-2"}
    asked: list[tuple[str, str, Callable[[int], object] | None]] = [
        ("POST", "/v1/tasks", lambda number: {**task, "after": [number]}),
        ("POST", "/v1/tasks", lambda number: {**task, "after_end": [number]}),
        ("POST", "/v1/tasks", lambda number: {**task, "array": "0-1", "after": [number]}),
        ("POST", "/v1/tasks/batch", lambda number: {"tasks": [task, {**task, "after": [number]}]}),
        ("POST", "/v1/graphs", lambda number: {"name": "etl-g", "tasks": [{**task, "ref": "a", "after": [number]}]}),
        ("POST", "/v1/tasks/cancel", lambda number: {"ids": [own, number]}),
        ("POST", "/v1/tasks/wait", lambda number: {"ids": [number], "timeout": 0}),
        ("POST", "/v1/tasks/wait", lambda number: {"ids": [own], "also": [number], "timeout": 0}),
        ("GET", "/v1/tasks/{}", None),
        ("GET", "/v1/tasks/{}/attempts", None),
        ("GET", "/v1/tasks/{}/results", None),
        ("GET", "/v1/tasks/{}/log", None),
        ("POST", "/v1/tasks/{}/cancel", None),
    ]  # fmt: skip
    for method, path, body in asked:
        answers = []
        for number in (other, 999_999_999):
            answer = served.send(
                method, path.format(number), None if body is None else body(number), token=narrow.token
            )
            assert problem(answer).slug == "restricted-token", (path, answer.text)
            answers.append(answer.json()["detail"].replace(str(number), "N"))
        assert answers[0] == answers[1], "what exists looks as what does not"
    made = served.send("POST", "/v1/tasks", {**task, "after": [own]}, token=narrow.token)
    assert made.status_code == 201, made.text
    assert served.send("GET", f"/v1/tasks/{other}", token=colleague).json()["state"] != "cancelled"


def test_a_token_with_scopes_of_its_own_opens_no_other_tenant_of_its_owner(served: Served) -> None:
    """It was made for one tenant, by hand. One without is as its owner, in all places."""
    _, first = served.add_tenant()
    second, other = served.add_tenant()
    both = (Binding(role=Role.MEMBER, tenant=first), Binding(role=Role.ADMIN, tenant=other))
    narrow = Person.with_roles(served, *both, tenant=first, scopes=["tasks:read", "users:read"])
    whole = Person.with_roles(served, *both, tenant=first)
    at_second = {"rota-tenant": second}
    assert problem(served.send("GET", "/v1/tasks", token=narrow.token, headers=at_second)) == Said(404, "not-found")
    assert served.send("GET", "/v1/tasks", token=whole.token, headers=at_second).status_code == 200
    assert served.send("GET", "/v1/tasks", token=None, headers={**whole.cookie, **at_second}).status_code == 200
    overseer = Person.with_roles(served, Binding(role=Role.VIEWER), tenant=first, scopes=["tasks:read"])
    assert served.send("GET", "/v1/tasks", token=overseer.token, headers=at_second).status_code == 200


def _things_of(served: Served, tenant: str, token: str) -> list[str]:
    """Addresses of what a tenant has with a payload of its own: a task that waits, one that failed, a schedule."""
    work = {"command": ["echo", SECRETIVE], "env": {"KEY": "x"}, "unplaceable": "wait", "name": "visible"}
    waiting, failed = served.submit(token, **work), served.submit(token, **work)
    served.ask(
        """with gone as (delete from queue where id = $1 returning id, tenant)
            insert into attempts (task, number, tenant, state, outcome, reason, failure, result)
                select id, 1, tenant, 11, 2, 'it failed', $2::jsonb, $3::jsonb from gone""",
        failed, f'{{"type": "ValueError", "message": "{SECRETIVE}"}}', f'"{SECRETIVE}"',
    )  # fmt: skip
    made = {"name": "nightly", "daily": "02:00", "task": {"command": ["echo", SECRETIVE], "name": "visible"}}
    assert served.send("POST", "/v1/schedules", made, token=token).status_code == 201
    return [
        f"GET /v1/tasks/{waiting}", f"GET /v1/tasks/{failed}", f"GET /v1/tasks/{failed}/attempts",
        f"POST /v1/tasks/wait {failed}", f"POST /v1/tasks/wait documents {failed}", "GET /v1/schedules",
        "GET /v1/schedules/nightly", "GET /v1/tasks", f"GET /v1/tasks/{waiting}/why",
    ]  # fmt: skip


def _read(served: Served, what: str, **how: object) -> tuple[int, str]:
    method, path, *words = what.split()
    body = {"ids": [int(words[-1])], "timeout": 0, "documents": "documents" in words} if words else None
    answer = served.send(method, path, body, **how)  # type: ignore[arg-type]
    return answer.status_code, answer.text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_roles_that_hold_everywhere_see_no_payload_unless_the_tenant_allows_it(served: Served, role: Role) -> None:
    name, tenant = served.add_tenant()
    things = _things_of(served, name, served.add_token(name))
    person = Person.with_roles(served, Binding(role=role), tenant=served.tenant)
    at_home = Person.with_roles(served, Binding(role=role), tenant=tenant)  # looks at the tenant, and has no role there
    ways = [
        {"authorization": f"Bearer {person.token}", "rota-tenant": name},
        {**person.cookie, "rota-tenant": name},
        {"authorization": f"Bearer {at_home.token}"},
        at_home.cookie,
    ]
    for headers in ways:
        for what in things:
            status, text = _read(served, what, token=None, headers=headers)
            assert status == 200, (what, text)
            assert "visible" in text or "ValueError" in text or "why" in what, (what, text)
            assert SECRETIVE not in text, what
    served.ask("update tenants set support = true where id = $1", tenant)
    allowed = Person.with_roles(served, Binding(role=role), tenant=tenant)
    seen = [what for what in things if SECRETIVE in _read(served, what, token=allowed.token)[1]]
    assert len(seen) == 7, "all but the list and the explanation"


def test_a_token_without_the_scope_for_results_sees_no_payload_of_its_own_tenant(served: Served) -> None:
    name, tenant = served.add_tenant()
    things = _things_of(served, name, served.add_token(name))
    binding = Binding(role=Role.MEMBER, tenant=tenant)
    narrow = Person.with_roles(served, binding, tenant=tenant, scopes=["tasks:read", "schedules:read"])
    for what in things:
        status, text = _read(served, what, token=narrow.token)
        assert status == 200, (what, text)
        assert SECRETIVE not in text, what
