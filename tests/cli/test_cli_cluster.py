"""Dead letters, me, nodes, servers, tenants, tokens and plans on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from rota.cli import app
from tests.cli.conftest import Rota
from tests.client.stub_documents import ME, PLAN
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Reply, StubServer

NODE = {
    "id": 1,
    "name": "n1",
    "pool": "default",
    "state": "up",
    "capacity": {"cpu": 8, "memory_bytes": 16_000_000_000},
    "free": {"cpu": 6.5, "memory_bytes": 12_000_000_000},
    "labels": {"zone": "a"},
    "seen_at": "2024-01-31T09:00:00Z",
    "version": "0.1.0",
    "running": 2,
}
SERVER = {"name": "s1", "url": None, "version": "0.1.0", "seen_at": None, "leads": ["default"]}
TOKEN = {"id": 3, "public_id": "rk_ab", "tenant": "acme", "user": "ann", "role": "member"}


@pytest.mark.parametrize(
    ("arguments", "path", "document", "shown"),
    [
        (
            "dead list",
            "/v1/dead",
            {"tasks": [task_document(7, "failed", reason="exit code 3")]},
            "exit code 3",
        ),
        ("me", "/v1/me", ME, "97 left of 100"),
        ("node list", "/v1/nodes", {"nodes": [NODE]}, "6.5/8"),
        ("server list", "/v1/servers", {"servers": [SERVER]}, "default"),
        (
            "tenant list",
            "/v1/tenants",
            {"tenants": [{"id": 1, "name": "acme", "plan": "regular"}]},
            "regular",
        ),
        ("token list", "/v1/tokens", {"tokens": [TOKEN]}, "rk_ab"),
        ("plan list", "/v1/plans", {"plans": [PLAN]}, "24h00m"),
        ("plan show regular", "/v1/plans/regular", PLAN, "unlimited"),
    ],
)
def test_each_reading_command_draws_a_table_and_gives_the_exact_json(
    server: StubServer, rota: Rota, arguments: str, path: str, document: Any, shown: str
) -> None:
    server.on_document("GET", path, document)
    table, machine = rota(*arguments.split()), rota(*arguments.split(), "-o", "json")
    assert (table.code, machine.code) == (0, 0)
    assert shown in table.out
    assert machine.out == json.dumps(document) + "\n"


@pytest.mark.parametrize(
    ("arguments", "request_line", "body", "answer", "shown"),
    [
        ("dead requeue 7", "POST /v1/dead/requeue", {"ids": [7]}, {"requeued": [{"id": 7, "as": 12}]}, "12"),
        ("dead requeue --all", "POST /v1/dead/requeue", {"all": True}, {"requeued": []}, "no dead letters"),
        ("dead discard 7 8", "POST /v1/dead/discard", {"ids": [7, 8]}, {"discarded": [7, 8]}, "discarded 2"),
        (
            "tenant add acme --plan regular",
            "POST /v1/tenants",
            {"name": "acme", "plan": "regular"},
            {"id": 1, "name": "acme", "plan": "regular"},
            "tenant acme is made",
        ),
        (
            "token add --tenant acme --user ann --role member",
            "POST /v1/tokens",
            {"tenant": "acme", "user": "ann", "role": "member"},
            {"id": 3, "token": "rk_ab_secret"},
            "rk_ab_secret\n",
        ),
        (
            "plan set regular --tasks-per-hour none --burst 50 --running-memory 64G --tiers basic,premium",
            "PATCH /v1/plans/regular",
            {"tasks_per_hour": None, "burst": 50, "running_memory": "64G", "tiers": ["basic", "premium"]},
            PLAN,
            "regular",
        ),
    ],
)
def test_each_changing_command_sends_its_body_and_says_what_became_of_it(
    server: StubServer, rota: Rota, arguments: str, request_line: str, body: Any, answer: Any, shown: str
) -> None:
    method, path = request_line.split()
    server.on_document(method, path, answer)
    ran = rota(*arguments.split())
    assert ran.code == 0
    assert server.received[0].json == body
    assert shown in ran.out


def test_each_part_names_exactly_the_commands_it_adds() -> None:
    """Guards the fast path: a command missing from NAMES would only be slow, a wrong one unknown."""
    for part in app._PARTS[:-1]:
        tree = typer.Typer()
        part.add_to(tree)
        commands = {command.name for command in tree.registered_commands}
        assert {*part.NAMES} == commands | {group.name for group in tree.registered_groups}


def test_revoking_a_token_answers_in_words_and_in_json(server: StubServer, rota: Rota) -> None:
    server.on("DELETE", "/v1/tokens/3", Reply(204))
    assert rota("token", "revoke", "3").out == "token 3 is revoked\n"
    assert rota("token", "revoke", "3", "-o", "json").out == "{}\n"


def test_the_version_and_the_help_are_there_without_a_server(rota: Rota) -> None:
    assert rota("--version").out == "rota 0.1.0\n"
    assert "Commands" in rota("--help").out
    assert "Commands" in rota().out


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "submit",
        "list",
        "show",
        "logs",
        "wait",
        "cancel",
        "retry",
        "attempts",
        "result",
        "me",
        "dead list",
        "dead requeue",
        "dead discard",
        "node list",
        "server list",
        "tenant add",
        "tenant list",
        "token add",
        "token list",
        "token revoke",
        "plan list",
        "plan show",
        "plan set",
    ],
)
def test_every_command_has_examples_and_json_in_its_help(rota: Rota, command: str) -> None:
    ran = rota(*command.split(), "--help")
    assert f"rota {command}" in ran.out.split("Examples:")[1]
    assert "--output" in ran.out
