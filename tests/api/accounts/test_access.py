"""Who may call what: every route has a scope, tokens are told apart by nothing but being valid, strangers see 404."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute

from rota.api.app import ROUTERS, build_app
from rota.api.permissions import RULES, check_complete
from rota.model.accounts.permissions import Role, bindings_of_role, rights
from tests.api.served import Said, Served, problem, without_instance

OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/schemas/rota.yaml.json"),
    ("GET", "/v1/login"),
    ("POST", "/v1/login/device"),
    ("POST", "/v1/login/token"),
    ("POST", "/v1/sign-in"),
    ("POST", "/v1/sign-in/code"),
    ("POST", "/v1/sign-in/enrol"),
    *(("POST", f"/v1/worker/{step}") for step in ("challenge", "join", "token")),  # what is signed protects them
}
INTERNAL = {
    ("POST", "/internal/hint"),
    ("GET", "/internal/loads"),
    ("GET", "/internal/running/{tenant}"),
    ("POST", "/internal/pools/{pool}/load"),
    ("POST", "/internal/pools/{pool}/waiting"),
    ("POST", "/internal/pools/{pool}/nodes/{node}/reload"),
    ("POST", "/internal/pools/{pool}/recall"),
}

ROUTES = [route for router in ROUTERS for route in router.routes]
PUBLISHED = sorted(
    (method, route.path_format) for route in ROUTES if isinstance(route, APIRoute) for method in route.methods or ()
)


SCOPE_OF = {
    (method, route.path_format): RULES[route.endpoint.__name__].scope
    for route in ROUTES
    if isinstance(route, APIRoute) and route.endpoint.__name__ in RULES
    for method in route.methods or ()
    if (method, route.path_format) != ("GET", "/metrics")  # asks for a scope only if it is private
}


BY_SESSION = {
    (method, route.path_format)
    for route in ROUTES
    if isinstance(route, APIRoute) and route.endpoint.__name__ in RULES and RULES[route.endpoint.__name__].by_session
    for method in route.methods or ()
}
OF_NOBODY = {("GET", "/v1/sessions"), ("DELETE", "/v1/sessions")}  # a token without an owner has no sessions


def _address(path: str) -> str:
    """Somewhere that exists for nobody."""
    return re.sub(r"\{\w+\}", "999999999", path)


def test_every_route_has_a_rule_or_is_meant_to_be_open() -> None:
    assert set(PUBLISHED) == set(SCOPE_OF) | OPEN | INTERNAL
    check_complete(ROUTES)
    with pytest.raises(LookupError, match="no rule for \\['stranger'\\]"):
        check_complete([*ROUTES, APIRoute("/v1/stranger", stranger)])


async def stranger() -> None:
    """A route that nobody decided about."""


def test_the_published_schema_is_the_list_of_routes() -> None:
    document = build_app(None, "test").openapi()  # type: ignore[arg-type]
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == set(SCOPE_OF) | OPEN
    secured = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == [{"token": []}]
    }
    assert secured == set(SCOPE_OF)


@pytest.mark.parametrize(("method", "path"), [*SCOPE_OF, *sorted(INTERNAL)], ids=lambda part: part.strip("/"))
def test_row_32_no_route_answers_without_a_key(served: Served, method: str, path: str) -> None:
    for token in (None, "nonsense", "rota_aaaaaaaaaaaa_" + "A" * 43):
        answer = served.send(method, _address(path), b"{}", token=token)
        assert problem(answer) == Said(401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="rota"'


@pytest.mark.parametrize("role", list(Role))
def test_row_33_a_key_opens_what_its_role_may_and_names_the_scope_it_lacks(served: Served, role: Role) -> None:
    wrong = {}
    held = rights(bindings_of_role(role, served.tenant), served.tenant, support=True).within(None).scopes
    for (method, path), scope in SCOPE_OF.items():
        if path == "/v1/logout":  # it would end the token; test_every_route.py has it
            continue
        answer = served.send(method, _address(path), b"", token=served.tokens[role.value])
        if (method, path) in BY_SESSION:
            right = problem(answer) == Said(403, "session-needed")
        elif (method, path) in OF_NOBODY:
            right = problem(answer) == Said(403, "no-account")
        elif scope is None or scope in held:
            right = answer.status_code not in (401, 403)
        else:
            right = problem(answer) == Said(403, "missing-scope") and answer.json()["needed"] == scope.value
        if not right:
            wrong[method, path] = (answer.status_code, answer.text)
    assert wrong == {}


def test_row_32_missing_malformed_unknown_revoked_and_expired_keys_get_one_equal_answer(served: Served) -> None:
    name, _ = served.add_tenant()
    body = {"tenant": name, "user": "eve", "role": "member"}
    revoked = served.send("POST", "/v1/tokens", body, token=served.tokens["admin"]).json()
    assert served.send("DELETE", f"/v1/tokens/{revoked['id']}", token=served.tokens["admin"]).status_code == 204
    expired = served.send("POST", "/v1/tokens", {**body, "expires": "1ms"}, token=served.tokens["admin"]).json()
    tokens = [None, "x", "rota_short_key", f"rota_{'a' * 12}_{'b' * 43}", revoked["token"], expired["token"]]
    answers = [without_instance(served.send("GET", "/v1/me", token=token)) for token in tokens]
    assert answers == [answers[0]] * len(tokens)


def test_a_key_is_taken_from_the_header_only(served: Served) -> None:
    token = served.tokens["member"]
    for where in (f"/v1/me?authorization=Bearer%20{token}", f"/v1/me?token={token}", f"/v1/me?access_token={token}"):
        assert problem(served.send("GET", where, token=None)).status == 401
    assert (
        problem(served.send("GET", "/v1/me", token=None, headers={"cookie": f"authorization=Bearer {token}"})).status
        == 401
    )


def test_a_new_key_is_shown_once_and_never_again(served: Served) -> None:
    name, _ = served.add_tenant()
    made = served.send("POST", "/v1/tokens", {"tenant": name, "user": "x"}, token=served.tokens["admin"])
    secret = made.json()["token"].split("_", 2)[2]
    assert secret not in served.send("GET", "/v1/tokens", token=served.tokens["admin"]).text
    assert secret not in served.cluster.servers[0].log()


# ---- row 34: other tenants' tasks ---------------------------------------------------------------------------------

TASK_ROUTES = sorted((method, path) for method, path in SCOPE_OF if path.startswith("/v1/tasks/{task}"))


@pytest.mark.parametrize(("method", "path"), TASK_ROUTES)
def test_a_foreign_an_unknown_and_a_malformed_id_get_one_equal_answer(served: Served, method: str, path: str) -> None:
    live, ended = served.submit(tags={"canary": "kept-secret"}), served.submit()
    served.send("POST", f"/v1/tasks/{ended}/cancel")
    before = served.stored()
    answers = {
        number: without_instance(served.send(method, path.replace("{task}", number), token=served.stranger))
        for number in (str(live), str(ended), "999999999", "0", "-1", "1.0", "abc", "٣", "9" * 30, "1%20or%201=1")
    }
    assert {status for status, _ in answers.values()} == {404}
    assert all(answer == answers["999999999"] for answer in answers.values())
    assert served.stored() == before


def test_a_foreign_log_can_not_be_followed(served: Served) -> None:
    task = served.submit()
    answer = served.send("GET", f"/v1/tasks/{task}/log?follow=true", token=served.stranger)
    assert problem(answer) == Said(404, "not-found")


def test_foreign_ids_in_a_body_are_as_unknown_as_unused_ones(served: Served) -> None:
    task = served.submit()
    before = served.stored()

    def answers(number: int) -> list[Any]:
        """The stranger's answers, with the id itself taken out."""
        requests = [
            ("/v1/tasks/wait", {"ids": [number], "timeout": 0}),
            ("/v1/tasks/cancel", {"ids": [number]}),
            ("/v1/dead/requeue", {"ids": [number]}),
            ("/v1/dead/discard", {"ids": [number]}),
            ("/v1/tasks", {"command": ["x"], "after": [number]}),
        ]
        texts = []
        for path, body in requests:
            status, document = without_instance(served.send("POST", path, body, token=served.stranger))
            texts.append((status, re.sub(rf"\b{number}\b", "N", str(document))))
        return texts

    foreign, unknown = answers(task), answers(999_999_999)
    assert foreign == unknown
    assert [status for status, _ in foreign] == [404, 200, 200, 200, 422]
    assert served.stored() == before


def test_lists_and_counts_hold_the_tenants_own_tasks_only(served: Served) -> None:
    served.submit(name="canary-of-the-first")
    for path in ("/v1/tasks", "/v1/dead", "/v1/me", "/v1/nodes", "/v1/servers"):
        assert "canary" not in served.send("GET", path, token=served.stranger).text
    usage = served.send("GET", "/v1/me", token=served.stranger).json()["usage"]
    assert (usage["waiting"], usage["running"]) == (0, 0)


def test_metrics_name_neither_tenants_nor_tasks(served: Served) -> None:
    task = served.submit(name="canary-of-metrics")
    text = served.send("GET", "/metrics", token=None).text
    assert "canary" not in text
    assert f"/{task}" not in text
    assert 'route="/v1/tasks/{task}' in text or "rota_http_request_seconds" in text


def test_websocket_routes_are_the_workers_only() -> None:
    sockets = sorted(route.path for route in ROUTES if isinstance(route, APIWebSocketRoute))
    assert sockets == ["/v1/worker/control", "/v1/worker/logs"]


@pytest.mark.parametrize("path", sorted({path for _, path in PUBLISHED}))
def test_row_35_a_wrong_method_is_refused_with_all_the_right_ones(served: Served, path: str) -> None:
    allowed = {method for method, own in PUBLISHED if own == path}
    also = {method for method, own in PUBLISHED if re.fullmatch(re.sub(r"\{\w+\}", "[^/{]+", own), path)}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - allowed - also:  # /v1/schedules/preview is also a name
        answer = served.send(method, _address(path))
        if answer.status_code == 404:
            continue  # /v1/tasks/wait is also an id, and a wrong one
        assert problem(answer) == Said(405, "method-not-allowed")
        assert allowed <= set(answer.headers["allow"].split(", "))


def test_an_address_that_is_nothing_is_a_problem_too(served: Served) -> None:
    assert problem(served.send("GET", "/v2/tasks")) == Said(404, "not-found")
    assert problem(served.send("GET", "/")) == Said(404, "not-found")
