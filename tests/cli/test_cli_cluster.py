"""Dead letters, me, nodes, servers, tenants, tokens and plans on the command line."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
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
TIER = {
    "name": "huge",
    "cpu": 16,
    "memory_bytes": 64_000_000_000,
    "disk_bytes": 0,
    "iops": 5000,
    "gpus": 1,
    "bandwidth_bits": 1_000_000_000,
}
CATEGORY = {"name": "report", "tolerance_seconds": 7200, "lane": "off-peak", "cap_seconds": None, "isolation": None}
LANE = {"name": "batch", "number": 4, "level": 2, "gated": True, "promotes": False}
POOL = {
    "id": 2,
    "name": "render",
    "elastic": True,
    "peak_percent": 70,
    "urgent_kept_percent": 10,
    "running_tasks": None,
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
        ("node list --all", "/v1/nodes", {"nodes": [{**NODE, "state": "lost"}]}, "lost"),
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
        ("node show n1", "/v1/nodes/n1", NODE, "6.5/8"),
        (
            "node show n1",
            "/v1/nodes/n1",
            {**NODE, "capabilities": ["sandbox", "limit-memory"]},
            "sandbox, limit-memory",
        ),
        ("node list", "/v1/nodes", {"nodes": [{**NODE, "free": None, "running": None}]}, "?/8"),
        ("tier list", "/v1/tiers", {"tiers": [TIER]}, "1Gbit/s"),
        ("category list", "/v1/categories", {"categories": [CATEGORY]}, "2h00m"),
        ("lane list", "/v1/lanes", {"lanes": [LANE]}, "batch"),
        ("pool list", "/v1/pools", {"pools": [POOL]}, "70 %"),
        ("pool show render", "/v1/pools/render", POOL, "unlimited"),
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
        ("dead discard 7 8", "POST /v1/dead/discard", {"ids": [7, 8]}, {"discarded": [7, 8]}, "discarded 2"),
        (
            "tenant add acme --plan regular",
            "POST /v1/tenants",
            {"name": "acme", "plan": "regular", "trusted": False},
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
        (
            "plan set regular --running-tasks 5 --urgent-percent 25",
            "PATCH /v1/plans/regular",
            {"running_tasks": 5, "urgent_percent": 25},
            {**PLAN, "running_tasks": 5, "urgent_percent": 25},
            "25 %",
        ),
        (
            "plan set regular --schedules 7 --webhooks 8 --tokens 9 --secrets none --graphs 11",
            "PATCH /v1/plans/regular",
            {"schedules": 7, "webhooks": 8, "tokens": 9, "secrets": None, "graphs": 11},
            {**PLAN, "schedules": 7777},
            "7777",
        ),
        (
            "plan set regular --tolerance 2h",
            "PATCH /v1/plans/regular",
            {"tolerance": "2h"},
            {**PLAN, "tolerance_seconds": 7200},
            "2h00m",
        ),
        (
            "plan set regular --tolerance none",
            "PATCH /v1/plans/regular",
            {"tolerance": None},
            {**PLAN, "tolerance_seconds": None},
            "none",
        ),
        (
            "plan set regular --cpu-limit burst --tiers all",
            "PATCH /v1/plans/regular",
            {"cpu_limit": "burst", "tiers": None},
            {**PLAN, "cpu_limit": "burst", "tiers": None},
            "all",
        ),
        (
            "plan set regular --cpu-limit default",
            "PATCH /v1/plans/regular",
            {"cpu_limit": None},
            {**PLAN, "cpu_limit": None},
            "burst for trusted tenants, else quota",
        ),
        (
            "tier set huge --cpu 16 --memory 64G --iops 5k --gpu 1 --bandwidth 1G",
            "PUT /v1/tiers/huge",
            {"cpu": "16", "memory": "64G", "iops": "5k", "gpus": 1, "bandwidth": "1G"},
            TIER,
            "1Gbit/s",
        ),
        (
            "category set report --tolerance 2h --lane off-peak --cap none",
            "PUT /v1/categories/report",
            {"tolerance": "2h", "lane": "off-peak", "cap": None},
            CATEGORY,
            "off-peak",
        ),
        (
            "category set report --isolation none",
            "PUT /v1/categories/report",
            {"isolation": "none"},
            {**CATEGORY, "isolation": "none"},
            "isolation",
        ),
        (
            "category set report --isolation default",
            "PUT /v1/categories/report",
            {"isolation": None},
            CATEGORY,
            "report",
        ),
        (
            "lane add batch --number 4 --level 2 --gated --no-promotes",
            "POST /v1/lanes",
            {"name": "batch", "number": 4, "level": 2, "gated": True, "promotes": False},
            LANE,
            "batch",
        ),
        ("lane set batch --no-gated", "PATCH /v1/lanes/batch", {"gated": False}, {**LANE, "gated": False}, "gated"),
        (
            "pool add render --elastic --peak 70",
            "POST /v1/pools",
            {"name": "render", "elastic": True, "peak_percent": 70},
            POOL,
            "render",
        ),
        (
            "pool set render --no-elastic --urgent-kept 0 --running-tasks none",
            "PATCH /v1/pools/render",
            {"elastic": False, "urgent_kept_percent": 0, "running_tasks": None},
            POOL,
            "render",
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


def test_each_module_adds_exactly_the_commands_that_the_table_names() -> None:
    for module in {module for module, _ in app._COMMANDS.values()}:
        tree = typer.Typer()
        importlib.import_module(f"rota.cli.{module}").add_to(tree)
        commands = {command.name or command.callback.__name__ for command in tree.registered_commands}  # type: ignore[union-attr]
        names = {name for name, (where, _) in app._COMMANDS.items() if where == module}
        assert names == commands | {group.name for group in tree.registered_groups}


def test_the_help_shows_every_command_as_its_own_module_describes_it() -> None:
    whole: Any = typer.main.get_command(app.build())
    listed: Any = typer.main.get_command(app.build("--help"))
    assert {*listed.commands} == {*whole.commands}
    for name, command in whole.commands.items():
        stub = listed.commands[name]
        assert command.help.replace("\n", " ").startswith(stub.help), name


def test_a_command_line_imports_only_the_part_of_its_command() -> None:
    program = "import sys; from rota.cli.main import run; run(['tier', '--help']); print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(ran.stdout.split())
    assert {name for name in modules if name.startswith("rota.cli.commands.")} == {"rota.cli.commands.tiers"}
    assert not modules & {"httpx", "asyncpg", "yaml", "asyncio", "rota.settings"}


def test_the_help_imports_no_command() -> None:
    program = "import sys; from rota.cli.main import run; run(['--help']); print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not [name for name in ran.stdout.split() if name.startswith(("rota.cli.commands", "rota.client.calls"))]


def test_the_whole_tree_imports_nothing_slow() -> None:
    program = "import sys; from rota.cli.app import build; build(); print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    slow = {"httpx", "asyncpg", "yaml", "asyncio", "pydantic", "structlog", "websockets", "rota.decide.core"}
    assert not set(ran.stdout.split()) & slow


@pytest.mark.parametrize(("kind", "path"), [("tier", "tiers"), ("category", "categories"), ("node", "nodes")])
def test_removing_answers_in_words_and_in_json(server: StubServer, rota: Rota, kind: str, path: str) -> None:
    server.on("DELETE", f"/v1/{path}/old", Reply(204))
    assert rota(kind, "remove", "old").out == f"{kind} old is removed\n"
    assert rota(kind, "remove", "old", "-o", "json").out == "{}\n"


def test_draining_says_what_still_runs(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/nodes/n1/drain", {**NODE, "state": "draining"})
    assert "takes nothing new; what runs there may finish" in rota("node", "drain", "n1").out
    server.on_document("POST", "/v1/nodes/n1/drain", {**NODE, "state": "draining", "drain_by": "2030-01-02T03:04:05Z"})
    assert "may finish until 2030-01-0" in rota("node", "drain", "n1", "--deadline", "10m").out
    assert server.asked("POST", "/v1/nodes/n1/drain")[-1].body == b'{"deadline":"10m"}'
    server.on_document("POST", "/v1/nodes/n1/undrain", NODE)
    assert rota("node", "undrain", "n1").out == "node n1 takes work again\n"
    server.on_document("POST", "/v1/nodes/n1/reload", NODE)
    assert rota("node", "reload", "n1").out == "node n1 loads its functions anew\n"


def test_a_drained_node_whose_worker_is_away_is_shown_as_both(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/nodes/n1", {**NODE, "state": "left", "draining": True})
    shown = rota("node", "show", "n1").out
    assert "left" in shown
    assert "it takes nothing when it is back" in shown
    server.on_document("GET", "/v1/nodes/n1", {**NODE, "state": "draining", "draining": True})
    assert "when it is back" not in rota("node", "show", "n1").out


def test_a_name_with_a_slash_in_it_asks_for_nothing_else(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/nodes/a%2Fb/drain", {**NODE, "name": "a/b"})
    assert rota("node", "drain", "a/b").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("tier set huge", "name at least one amount"),
        ("tier set huge --iops fast", "--iops"),
        ("tier set huge --gpu half", "whole number"),
        ("category set report --cap soon", "--cap"),
        ("category set report --isolation bogus", "use one of none, sandbox, container, default"),
        ("plan set free --cpu-limit most", "use one of burst, quota, default"),
        ("pool set render", "name at least one rule"),
        ("pool set render --peak 0", "--peak"),
        ("pool add render --running-tasks many", "none for no limit"),
        ("lane set batch", "name at least one thing"),
        ("node drain n1 --deadline soon", "--deadline"),
        ("plan set free --urgent-percent 101", "101"),
    ],
)
def test_what_can_not_be_right_ends_with_2_before_any_request(
    server: StubServer, rota: Rota, arguments: str, said: str
) -> None:
    ran = rota(*arguments.split())
    assert (ran.code, server.received) == (2, [])
    assert said in ran.err


def test_revoking_a_token_answers_in_words_and_in_json(server: StubServer, rota: Rota) -> None:
    server.on("DELETE", "/v1/tokens/3", Reply(204))
    assert rota("token", "revoke", "3").out == "token 3 is revoked\n"
    assert rota("token", "revoke", "3", "-o", "json").out == "{}\n"


def test_the_version_and_the_help_are_there_without_a_server(rota: Rota) -> None:
    assert rota("--version").out == "rota 0.1.0\n"
    assert "Start here" in rota("--help").out
    assert "Start here" in rota().out


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
        "operation list",
        "operation show",
        "operation stop",
        "node list",
        "server list",
        "tenant add",
        "tenant list",
        "token add",
        "token list",
        "token show",
        "token rotate",
        "token revoke",
        "user add",
        "user list",
        "user show",
        "user grant",
        "user revoke",
        "user set",
        "user disable",
        "user enable",
        "user remove",
        "service-account add",
        "service-account list",
        "service-account show",
        "service-account grant",
        "service-account revoke",
        "service-account disable",
        "service-account enable",
        "service-account remove",
        "whoami",
        "tenant set",
        "plan list",
        "plan show",
        "plan set",
        "node show",
        "node drain",
        "node undrain",
        "node reload",
        "node remove",
        "tier list",
        "tier set",
        "tier remove",
        "category list",
        "category set",
        "category remove",
        "lane list",
        "lane add",
        "lane set",
        "pool list",
        "pool show",
        "pool add",
        "pool set",
    ],
)
def test_every_command_has_examples_and_json_in_its_help(rota: Rota, command: str) -> None:
    ran = rota(*command.split(), "--help")
    assert f"rota {command}" in ran.out.split("Examples:")[1]
    assert "--output" in ran.out
