"""Every route, asked by every kind of principal, opens for those whom the table lets in, and for nobody else.

The table is `RULES` with the scopes of each role; a route that is not in it fails here. docs/accounts.md shows the same
table, so that a change of it is seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from rota.api.app import ROUTERS
from rota.api.permissions import OPEN, RULES, Rule
from rota.attempt_key import AttemptKeys
from rota.model.accounts.permissions import MEANING, Binding, Role, Scope, bindings_of_role, rights
from rota.model.task import State
from rota.model.tenant import MEMBER_SCOPES
from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Served, problem

ROUTES = [
    (method, route.path_format, route.endpoint.__name__)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
]
SOCKETS = [
    (route.path, route.endpoint.__name__)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIWebSocketRoute)
]
ANYBODY = OPEN | {"get_metrics"}  # the served node keeps no secret of its metrics

Denied = str | None  # the slug of the refusal, with the scope it names; None: the route opens


@dataclass(frozen=True)
class Kind:
    """Somebody who asks: the headers, and what the table says of a rule."""

    headers: dict[str, str]
    expected: Callable[[Rule], Denied]
    task: int = 999_999_999  # of those it is for, if its credential is for some only; else of nobody


def _by_scopes(held: frozenset[Scope]) -> Callable[[Rule], Denied]:
    return lambda rule: None if rule.scope is None or rule.scope in held else f"missing-scope {rule.scope.value}"


def _held(*bindings: Binding) -> Callable[[Rule], Denied]:
    return _by_scopes(rights(bindings, 1, support=False).scopes)


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _signed_in(acme: People, role: str, binding: Binding, **place: str) -> Kind:
    return Kind(acme.session_of(acme.add_user(role, **place)), _held(binding))


def _service_account(acme: People) -> Kind:
    given = {"name": "walker", "role": "member", "tenant": acme.tenant}
    sent = {"token": acme.admin, "headers": {"rota-tenant": acme.tenant}}
    assert acme.send("POST", "/v1/service-accounts", given, **sent).status_code == 201
    made = acme.send("POST", "/v1/tokens", {"service_account": "walker"}, **sent)
    held = rights([Binding(role=Role.MEMBER, tenant=1)], 1, support=False).within(None)
    return Kind(_bearer(made.json()["token"]), _by_scopes(held.scopes))


def _restricted(acme: People) -> Kind:
    token = acme.token_of(acme.add_user("member"), scopes=["tasks:submit", "tasks:read"], names=["etl-*"])
    opens = _by_scopes(frozenset({Scope.TASKS_SUBMIT, Scope.TASKS_READ}))
    task = acme.send("POST", "/v1/tasks", {"command": ["true"], "name": "etl-1"}, token=token).json()["id"]
    return Kind(_bearer(token), lambda rule: opens(rule) if rule.by_restricted else "restricted-token", task)


def _running_task(acme: People) -> Kind:
    """No worker runs it: the row says so."""
    owner = acme.user("member")
    task = acme.send("POST", "/v1/tasks", {"command": ["true"], "may_submit": True}, token=owner).json()["id"]
    acme.served.ask(
        """update queue set state = $2, attempt = 1, started_at = now(), version = version + 1, epoch = 1, boot = 1,
            node = (select min(id) from nodes) where id = $1""",
        task,
        State.RUNNING.value,
    )
    [(secret,)] = acme.served.ask("select secret from cluster")
    opens = _by_scopes(MEMBER_SCOPES)
    key = AttemptKeys(secret).make(task, 1)
    return Kind(_bearer(key), lambda rule: opens(rule) if rule.by_tasks else "forbidden", task)


def _tenants_administrator(acme: People) -> Kind:
    """Its token without scopes of its own does not manage users or tokens."""
    held = rights([Binding(role=Role.ADMIN, tenant=1)], 1, support=False).within(None).scopes
    return Kind(_bearer(acme.token_of(acme.add_user("admin"))), _by_scopes(held))


KINDS: dict[str, Callable[[People], Kind]] = {
    "signed out": lambda _: Kind({}, lambda _rule: "unauthorized"),
    "viewer@t": lambda acme: _signed_in(acme, "viewer", Binding(role=Role.VIEWER, tenant=1)),
    "member@t": lambda acme: _signed_in(acme, "member", Binding(role=Role.MEMBER, tenant=1)),
    "admin@t": lambda acme: _signed_in(acme, "admin", Binding(role=Role.ADMIN, tenant=1)),
    "viewer@*": lambda acme: _signed_in(acme, "viewer", Binding(role=Role.VIEWER), **EVERYWHERE),
    "operator@*": lambda acme: _signed_in(acme, "operator", Binding(role=Role.OPERATOR), **EVERYWHERE),
    "operator@pool": lambda acme: _signed_in(acme, "operator", Binding(role=Role.OPERATOR, pool="small"), pool="small"),
    "admin@*": lambda acme: _signed_in(acme, "admin", Binding(role=Role.ADMIN), **EVERYWHERE),
    "worker": lambda acme: Kind(
        _bearer(acme.served.add_token(acme.tenant, Role.WORKER)), _held(*bindings_of_role(Role.WORKER, 1))
    ),
    "key of a running task": _running_task,
    "service account": _service_account,
    "restricted token": _restricted,
    "plain token of admin@t": _tenants_administrator,
}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest, served: Served) -> Kind:
    return KINDS[request.param](People.at(served))


def _for_sessions(rule: Rule, kind: Kind) -> Denied:
    """What is about signing in opens for those who signed in."""
    expected = kind.expected(rule)
    return "session-needed" if expected is None and rule.by_session and "cookie" not in kind.headers else expected


def _said(answer: httpx.Response) -> Denied:
    slug = problem(answer).slug if answer.status_code in (401, 403) else None
    if slug in (None, "no-account"):  # it opens: a credential that is nobody's is told that it must name somebody
        return None
    return f"{slug} {answer.json()['needed']}" if slug == "missing-scope" else slug


def test_every_route_opens_exactly_as_the_table_says(served: Served, kind: Kind) -> None:
    wrong = {}
    # Last what ends the credential: a key ends with its task.
    for method, path, name in sorted(ROUTES, key=lambda route: "cancel" in route[2] or route[2] == "sign_out"):
        if name in ANYBODY or name == "log_out":
            continue
        somewhere = re.sub(r"\{\w+\}", "999999999", re.sub(r"\{(task|graph)\}", str(kind.task), path))
        answer = served.send(method, somewhere, b"", token=None, headers=kind.headers)
        said, expected = _said(answer), _for_sessions(RULES[name], kind)
        if said != expected:
            wrong[method, path] = (said, expected, answer.status_code)
    assert wrong == {}


def test_connections_of_agents_open_for_workers_only(served: Served, kind: Kind) -> None:
    for path, name in SOCKETS:
        expected = kind.expected(RULES[name])
        try:
            with connect(f"{served.url.replace('http', 'ws', 1)}{path}", additional_headers=_only_token(kind.headers)):
                status = 101
        except InvalidStatus as refused:
            status = refused.response.status_code
        assert (status == 101) == (expected is None), (path, status)
        assert status in (101, 401, 403)


@pytest.mark.parametrize("name", list(KINDS))
def test_whoever_has_a_token_ends_it(served: Served, name: str) -> None:
    """With a credential of its own: a token is good no more afterwards."""
    kind = KINDS[name](People.at(served))
    answer = served.send("POST", "/v1/logout", token=None, headers=kind.headers)
    expected = kind.expected(RULES["log_out"])
    assert _said(answer) == expected
    if expected is None:
        is_token = "authorization" in kind.headers
        assert answer.status_code == (204 if is_token else 409)
        after = served.send("GET", "/v1/whoami", token=None, headers=kind.headers)
        assert (after.status_code == 401) == is_token


def _only_token(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name == "authorization"}


def test_every_scope_is_asked_for_somewhere_and_explained() -> None:
    asked = {rule.scope for rule in RULES.values() if rule.scope is not None}
    assert set(MEANING) == set(Scope)
    assert set(Scope) - asked == {Scope.SCALE}, "its routes are still to come"
