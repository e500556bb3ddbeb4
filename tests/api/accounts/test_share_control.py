"""A tenant may keep its members to their own tasks; its administrators change those of all (the tenant's setting)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from rota.api.permissions import RULES
from rota.model.accounts.permissions import Scope
from tests.api.accounts.people import People
from tests.api.served import Said, Served, problem

# What each route that controls tasks is sent, for the things in `{…}`.
CONTROL: dict[str, tuple[str, str, Any]] = {
    "cancel_task": ("POST", "/v1/tasks/{task}/cancel", None),
    "cancel_tasks": ("POST", "/v1/tasks/cancel", {"ids": ["{task}"]}),
    "retry_task": ("POST", "/v1/tasks/{task}/retry", None),
    "pause_task": ("POST", "/v1/tasks/{task}/pause", None),
    "resume_task": ("POST", "/v1/tasks/{task}/resume", None),
    "hold_task": ("POST", "/v1/tasks/{task}/hold", {}),
    "release_task": ("POST", "/v1/tasks/{task}/release", None),
    "hold_tasks": ("POST", "/v1/tasks/hold", {"ids": ["{task}"]}),
    "release_tasks": ("POST", "/v1/tasks/release", {"ids": ["{task}"]}),
    "edit_task": ("PATCH", "/v1/tasks/{task}", {"priority": 5, "version": 0}),
    "extend_task": ("POST", "/v1/tasks/{task}/extend", {"by": "1h"}),
    "requeue_dead_letters": ("POST", "/v1/dead/requeue", {"ids": ["{task}"]}),
    "discard_dead_letters": ("POST", "/v1/dead/discard", {"ids": ["{task}"]}),
    "hold_graph": ("POST", "/v1/graphs/{graph}/hold", {}),
    "release_graph": ("POST", "/v1/graphs/{graph}/release", None),
    "retry_graph": ("POST", "/v1/graphs/{graph}/retry", None),
    "cancel_graph": ("POST", "/v1/graphs/{graph}/cancel", None),
    "start_operation": ("POST", "/v1/operations", {"verb": "hold", "where": {"user": "{user}"}}),
    "stop_operation": ("POST", "/v1/operations/{operation}/stop", None),
}
KEYS_ARE_THE_TENANTS = {"cool_concurrency_key"}


class Team:
    """Two members, the work of one of them, and an administrator."""

    def __init__(self, people: People) -> None:
        self.people = people
        self.ann, self.bob = people.add_user("member"), people.add_user("member")
        scopes = ["tasks:read", "tasks:submit", "tasks:control"]
        self.anns, self.bobs = (people.token_of(name, scopes=scopes) for name in (self.ann, self.bob))
        self.boss = people.session_of(people.add_user("admin"))

    def share(self, on: bool) -> None:
        path = f"/v1/tenants/{self.people.tenant}/settings"
        changed = self.people.send("PATCH", path, {"share_control": on}, token=None, headers=self.boss)
        assert changed.json()["share_control"] is on

    def work_of(self, token: str) -> dict[str, Any]:
        work = {"command": ["true"], "unplaceable": "wait"}
        graph = {"name": "g", "tasks": [{**work, "ref": "a"}]}
        nothing = {"verb": "cancel", "where": {"name": uuid4().hex}}
        return {
            "task": self._made("/v1/tasks", work, token),
            "graph": self._made("/v1/graphs", graph, token),
            "operation": self._made("/v1/operations", nothing, token),
            "user": self.ann,
        }

    def _made(self, path: str, body: object, token: str) -> int:
        made = self.people.send("POST", path, body, token=token)
        assert made.status_code == 201, made.text
        return int(made.json()["id"])

    def ask(self, route: str, things: dict[str, Any], token: str) -> httpx.Response:
        method, path, body = CONTROL[route]
        return self.people.send(method, path.format(**things), _filled(body, things), token=token)


def _filled(body: Any, things: dict[str, Any]) -> Any:
    if isinstance(body, dict):
        return {name: _filled(value, things) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, things) for value in body]
    return things[body[1:-1]] if isinstance(body, str) and body.startswith("{") else body


@pytest.fixture(scope="module")
def team(served: Served) -> Iterator[Team]:
    team = Team(People.at(served))
    team.share(False)
    yield team
    team.share(True)


def test_every_route_that_controls_tasks_is_here() -> None:
    there = {name for name, rule in RULES.items() if rule.scope is Scope.TASKS_CONTROL}
    assert there == CONTROL.keys() | KEYS_ARE_THE_TENANTS


@pytest.mark.parametrize("route", CONTROL)
def test_a_member_changes_no_task_of_another_member_unless_the_tenant_shares(team: Team, route: str) -> None:
    things = team.work_of(team.anns)
    assert problem(team.ask(route, things, team.bobs)) == Said(403, "not-your-task")
    own = team.ask(route, things, team.anns)
    assert own.status_code != 403, own.text


def test_a_change_by_filter_takes_a_members_own_tasks_only(team: Team) -> None:
    name = uuid4().hex
    body = {"command": ["true"], "name": name, "unplaceable": "wait"}
    for token in (team.anns, team.bobs, team.bobs):
        assert team.people.send("POST", "/v1/tasks", body, token=token).status_code == 201
    asked = {"verb": "cancel", "where": {"name": name}, "dry_run": True}
    assert team.people.send("POST", "/v1/operations", asked, token=team.bobs).json()["count"] == 2
    everything = {"verb": "cancel", "all": True, "dry_run": True}
    assert team.people.send("POST", "/v1/operations", everything, token=team.bobs).json()["count"] == 2
    counted = team.people.send("POST", "/v1/operations", asked, token=None, headers=team.boss).json()["count"]
    assert counted == 3, "an administrator changes the tasks of all"


def test_members_of_a_tenant_that_shares_change_each_others_tasks(acme: People) -> None:
    team = Team(acme)
    for route in ("hold_task", "release_task", "cancel_task"):
        things = team.work_of(team.anns)
        assert team.ask(route, things, team.bobs).status_code == 200, route
