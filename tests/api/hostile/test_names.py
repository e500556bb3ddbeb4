"""Names that would end a header, a line of a log or a cell of a terminal: refused, or shown as what they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from rota.model.accounts.permissions import Role
from tests.api.served import Served, problem

HOSTILE = {
    "end-of-header": "a\r\ninjected: yes\r\n\r\n<b>",
    "end-of-line": 'a\n{"event": "injected"}',
    "escape-codes": "a\x1b]0;injected\x07\x1b[2Jb",
    "eight-bit-escape": "a\x9b2Jinjected",
    "other-direction": "a\u202einjected\u2066",
    "line-separator": "a\u2028injected",
    "nul": "a\0injected",
    "half-a-pair": "a\ud800injected",
    "dots": "../../injected",
    "markup": "[bold]injected[/bold]<script>",
    "long": "injected" * 20_000,
}
WORK = {"command": ["true"], "unplaceable": "wait"}
Ask = tuple[str, str, Any, dict[str, str]]


def _in_path(method: str, path: str, body: Any = None) -> Callable[[str], Ask]:
    return lambda name: (method, path.format(quote(name.encode("utf-8", "replace"), safe="")[:7000]), body, {})


def _in_body(path: str, make: Callable[[str], Any]) -> Callable[[str], Ask]:
    return lambda name: ("POST", path, make(name), {})


WAYS: dict[str, Callable[[str], Ask]] = {
    "a task": _in_body("/v1/tasks", lambda name: {**WORK, "name": name}),
    "a tag": _in_body("/v1/tasks", lambda name: {**WORK, "tags": {"team": name}}),
    "a tag's name": _in_body("/v1/tasks", lambda name: {**WORK, "tags": {name: "a"}}),
    "a concurrency key": _in_body("/v1/tasks", lambda name: {**WORK, "concurrency_key": name}),
    "an idempotency key": _in_body("/v1/tasks", lambda name: {**WORK, "idempotency_key": name}),
    "a reason": _in_body("/v1/operations", lambda name: {"verb": "hold", "all": True, "changes": {"reason": name}}),
    "a graph": _in_body("/v1/graphs", lambda name: {"name": name, "tasks": [{**WORK, "ref": "a"}]}),
    "a task of a graph": _in_body("/v1/graphs", lambda name: {"name": "g", "tasks": [{**WORK, "ref": name}]}),
    "a schedule": _in_body("/v1/schedules", lambda name: {"name": name, "daily": "02:00", "task": WORK}),
    "a webhook's filter": _in_body("/v1/webhooks", lambda name: {"url": "https://example.com", "name": name}),
    "a webhook's address": _in_body("/v1/webhooks", lambda name: {"url": f"https://example.com/{name}"}),
    "an effect": _in_body("/v1/once", lambda name: {"key": name}),
    "a tenant": _in_body("/v1/tenants", lambda name: {"name": name}),
    "a user": _in_body("/v1/tokens", lambda name: {"tenant": "default", "user": name}),
    "the tenant of a token": _in_body("/v1/tokens", lambda name: {"tenant": name, "user": "eve"}),
    "a role": _in_body("/v1/tokens", lambda name: {"tenant": "default", "user": "eve", "role": name}),
    "a pool": _in_body("/v1/pools", lambda name: {"name": name}),
    "a lane": _in_body("/v1/lanes", lambda name: {"name": name}),
    "a secret": _in_path("PUT", "/v1/secrets/{}", {"value": "a"}),
    "a tier": _in_path("PUT", "/v1/tiers/{}", {"cpu": 1, "memory": "1G"}),
    "a category": _in_path("PUT", "/v1/categories/{}", {}),
    "a schedule in the path": _in_path("PUT", "/v1/schedules/{}", {"daily": "02:00", "task": WORK}),
    "a key to cool": _in_path("POST", "/v1/concurrency-keys/{}/cool", {"seconds": 1}),
    "a node": _in_path("POST", "/v1/nodes/{}/drain"),
    "an artifact": _in_path("POST", "/v1/artifacts?name={}", b"bytes"),
    "a filter": _in_path("GET", "/v1/tasks?name={}"),
    "a cursor": _in_path("GET", "/v1/tasks?cursor={}"),
    "an event's id": _in_path("GET", "/v1/events?after={}"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_hostile_name_injects_nothing_and_fails_nothing(served: Served, way: str) -> None:
    admin = served.tokens["admin"]
    for kind, name in HOSTILE.items():
        method, path, body, headers = WAYS[way](name)
        answer = served.send(method, path, body, token=admin, headers=headers)
        assert answer.status_code < 500, (kind, answer.text)
        assert "injected" not in answer.headers, kind
        shown = [value for value in answer.headers.values() if re.search(r"[^\x20-\x7e]", value)]
        assert shown == [], kind
        if answer.status_code == 200 and way == "an artifact":
            identity = answer.json()["id"]
            disposition = served.send("GET", f"/v1/artifacts/{identity}/content", token=admin).headers[
                "content-disposition"
            ]
            assert re.fullmatch(r"[\x20-\x7e]+", disposition), kind
        if answer.status_code >= 400:
            assert len(answer.text) < 8000, f"{kind}: a refusal does not repeat all of it"


def test_the_log_of_a_server_has_one_line_for_one_thing_and_no_escape_codes(served: Served) -> None:
    for name in HOSTILE.values():
        served.send("GET", f"/v1/tasks/{quote(name.encode('utf-8', 'replace'))[:4000]}")
    log = served.cluster.servers[0].log()
    assert (
        re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", log.replace("\x1b[", "").replace("\r\n", "\n")) is None
    )
    assert not re.search(r'^\s*(\{"event": )?"?injected', log, re.MULTILINE)


@pytest.mark.parametrize("command", [["list"], ["graph", "list"]])
def test_a_terminal_is_shown_names_and_does_not_obey_them(served: Served, command: list[str]) -> None:
    tenant, _ = served.add_tenant()
    token = served.add_token(tenant, Role.MEMBER)
    for name in HOSTILE.values():
        served.send("POST", "/v1/graphs", {"name": name, "tasks": [{**WORK, "ref": "a", "name": name}]}, token=token)
        served.send("POST", "/v1/tasks", {**WORK, "tags": {"team": name}}, token=token)
    ran = subprocess.run(
        [sys.executable, "-m", "rota.cli", *command],
        capture_output=True,
        env={**os.environ, "ROTA_SERVER": served.url, "ROTA_TOKEN": token, "COLUMNS": "200"},
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", ran.stdout.decode()) is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/users", {"name": "ann\n"}),
        ("POST", "/v1/service-accounts", {"name": "ci\n"}),
        ("POST", "/v1/tokens", {"name": "laptop\n"}),
        ("POST", "/v1/tenants", {"name": "acme\n", "plan": "free"}),
        ("POST", "/v1/pools", {"name": "gpu\n"}),
        ("PUT", "/v1/tiers/big%0A", {"cpu": 1}),
        ("PUT", "/v1/categories/nightly%0A", {}),
        ("POST", "/v1/schedules", {"name": "daily\n", "daily": "02:00", "task": {"command": ["true"]}}),
        ("POST", "/v1/tasks", {"command": ["true"], "env": {"A\n": "1"}}),
        ("POST", "/v1/tasks", {"command": ["true"], "require": {"zone\n": "a"}}),
        ("POST", "/v1/tasks", {"function": "module:function\n"}),
    ],
)
def test_a_line_break_at_the_end_makes_no_name(served: Served, method: str, path: str, body: dict[str, object]) -> None:
    refused = served.send(method, path, body, token=served.cluster.tokens.admin)
    assert refused.status_code == 422, refused.text
    problem(refused)
