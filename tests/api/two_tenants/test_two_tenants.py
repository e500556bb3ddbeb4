"""C2: a request that names another tenant's thing is answered as one that names nothing, and leaves the thing alone.

Each request is sent twice, by the administrators of two empty tenants with the same past: once it names what the first tenant
has, once what nobody has. Both answers must be equal in status, headers and body, but for the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from rota.model.accounts.permissions import Role
from tests.api.accounts.people import People, held
from tests.api.served import Served
from tests.api.two_tenants import probes
from tests.api.two_tenants.probes import OWN_TENANT, PROBES, ROUTES, WANTED, Ask, Probe
from tests.api.two_tenants.things import CANARY, WORK, Things, everything_of, made_by, nobodys, use_large_ids
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

# What differs between two answers about the same: ids and times of what the sender made itself, and random numbers.
_VARY = frozenset({"instance", "claim", "token", "public_id", "secret"})
_NUMBERS = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+-\d+-\d+|\d{5,}")  # times, cursors and ids
_QUIET = frozenset({"date", "content-length"})


@dataclass(frozen=True)
class World:
    served: Served
    theirs: Things
    nobodys: Things

    def stranger(self) -> tuple[str, str]:
        """An administrator of a new tenant, which has a schedule of its own."""
        name, number = self.served.add_tenant()
        people = People(self.served, name, number)
        user = people.add_user("admin", name=f"{name}-admin")
        token = people.token_of(user, scopes=held("admin", {"tenant": name}))
        own = {"name": "own", "daily": "02:00", "task": WORK}
        assert self.served.send("POST", "/v1/schedules", own, token=token).status_code == 201
        return name, token


@pytest.fixture(scope="module")
def world(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server node of its own, because all its ids must be large from the start."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("tenants"), time_scale=CALM) as running:
        use_large_ids(Served(running))
        running.add_server()
        served = Served.on(running)
        things = []
        for _ in range(2):
            tenant, _ = served.add_tenant()
            body = {"tenant": tenant, "user": f"{CANARY}-ann", "role": "member"}
            token = served.send("POST", "/v1/tokens", body, token=running.tokens.admin).json()["token"]
            things.append(made_by(served, tenant, token, f"{CANARY}-ann"))
        yield World(served, things[0], nobodys(things[1].cursor))


def test_every_way_to_name_a_thing_has_a_probe() -> None:
    undecided = probes.SAID - probes.NAMING - probes.PLAIN
    assert undecided == set(), "decide whether these name something that a tenant has"
    assert not probes.NAMING & probes.PLAIN
    gone = (probes.NAMING | probes.PLAIN) - probes.SAID
    assert gone == set(), "nothing is called so any more"
    missing = WANTED - {(probe.route, probe.field) for probe in PROBES}
    assert missing == set(), "each needs a request in probes.py"
    assert {probe.route for probe in PROBES} <= ROUTES.keys()


@pytest.mark.parametrize("route", sorted({probe.route for probe in PROBES}))
def test_what_is_anothers_looks_as_if_it_did_not_exist(world: World, route: str) -> None:
    before = everything_of(world.served, world.theirs.tenant)
    strangers = world.stranger(), world.stranger()
    said: set[str] = set()
    for number, probe in enumerate(probe for probe in PROBES if probe.route == route):
        foreign, unknown = (
            _asked(world.served, probe, things, stranger, said)
            for things, stranger in zip((world.theirs, world.nobodys), strangers, strict=True)
        )
        assert _alike(foreign) == _alike(unknown), f"{probe.route} by {probe.field}, request {number}"
        told = [
            name for name, value in world.theirs.values().items() if re.search(rf"(?<!\w){value}(?!\w)", str(foreign))
        ]
        assert told == [], f"{probe.route} by {probe.field}, request {number}"
        assert CANARY not in str(foreign).lower(), f"{probe.route} by {probe.field}, request {number}"
    assert everything_of(world.served, world.theirs.tenant) == before


def _asked(served: Served, probe: Probe, things: Things, stranger: tuple[str, str], said: set[str]) -> Any:
    """Status, headers and body of the answer, without the names that this and earlier requests said."""
    method, path = ROUTES[probe.route]
    tenant, token = stranger
    ask = _of_sender(probe.ask(things), tenant)
    for name, value in ask.path.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=":"))
    body = None if ask.body is None else ask.body if isinstance(ask.body, bytes) else _plain(ask.body)
    said.update(_said(ask, things))
    found = served.send(method, path, body, token=token, params=dict(ask.query), headers=dict(ask.headers))
    assert found.status_code < 500, found.text
    return found.status_code, _headers(found), _without(_body(found), sorted(said, key=len, reverse=True), tenant)


def _of_sender(ask: Ask, tenant: str) -> Ask:
    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: own(one) for name, one in value.items()}
        return tenant if value == OWN_TENANT else value

    return replace(ask, path=own(ask.path), query=own(ask.query), body=own(ask.body))


def _plain(body: object) -> object:
    """Without fields that are None: `WORK` has a command, and some probes none."""
    if isinstance(body, dict):
        return {name: _plain(value) for name, value in body.items() if value is not None}
    return [_plain(one) for one in body] if isinstance(body, list) else body


def _headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in _QUIET}


def _body(answer: httpx.Response) -> Any:
    if not answer.headers.get("content-type", "").endswith(("/json", "+json")):
        return answer.text
    return answer.json()


def _said(ask: Ask, things: Things) -> set[str]:
    """The names and ids of things that the request says."""
    leaves = [
        *_leaves([ask.path, ask.query, ask.headers, ask.body]),
        *([things.sha256] if ask.body == things.content else []),
    ]
    words = {word for leaf in leaves for word in (leaf, *re.split("[:/]", leaf))}
    return words.intersection(things.values().values())


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    else:
        yield str(value)


def _without(body: Any, said: list[str], tenant: str) -> Any:
    if isinstance(body, dict):
        return {
            _without(name, said, tenant): "#" if name in _VARY else _without(value, said, tenant)
            for name, value in body.items()
        }
    if isinstance(body, list):
        return [_without(one, said, tenant) for one in body]
    text = str(body)
    for value in said:
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "#", text)
    return text.replace(tenant, "#")


def _alike(answer: Any) -> str:
    """An answer without the times and ids of what its reader made."""
    return _NUMBERS.sub("#", str(answer))


# ---- lists, counts and texts ----------------------------------------------------------------------------------------

OWN_LISTS = (
    "/v1/tasks", "/v1/tasks?fold=arrays", "/v1/dead", "/v1/graphs", "/v1/operations", "/v1/artifacts", "/v1/schedules",
    "/v1/webhooks", "/v1/secrets", "/v1/concurrency-keys", "/v1/events",
)  # fmt: skip
EVERYBODYS = (
    "/v1/me", "/v1/nodes", "/v1/nodes?all=true", "/v1/servers", "/v1/pools", "/v1/pools/default", "/v1/pools/default/load",
    "/v1/tiers", "/v1/categories", "/v1/lanes", "/v1/plans", "/v1/retention", "/metrics", "/readyz", "/healthz",
)  # fmt: skip


@pytest.fixture(scope="module")
def outsider(world: World) -> str:
    """The token of a member of a tenant that has nothing."""
    return world.served.add_token(world.served.add_tenant()[0])


def test_a_list_has_nothing_of_another_tenant(world: World, outsider: str) -> None:
    for path in OWN_LISTS:
        answer = world.served.send("GET", path, token=outsider)
        assert answer.status_code == 200, (path, answer.text)
        empty = "data:" not in answer.text if path == "/v1/events" else not any(answer.json().values())
        assert empty, (path, answer.text)


def test_what_everybody_may_read_names_nothing_of_a_tenant(world: World, outsider: str) -> None:
    for path in EVERYBODYS:
        answer = world.served.send("GET", path, token=outsider)
        assert answer.status_code == 200, (path, answer.text)
        assert CANARY not in answer.text.lower(), path
        assert world.theirs.tenant not in answer.text, path
    usage = world.served.send("GET", "/v1/me", token=outsider).json()["usage"]
    assert {name: value for name, value in usage.items() if value} == {"tokens": 1}


def test_why_a_task_waits_counts_other_tenants_and_names_none(world: World, outsider: str) -> None:
    task = world.served.submit(outsider, unplaceable="wait", concurrency_key=world.theirs.concurrency_key)
    for path in (f"/v1/tasks/{task}/why", f"/v1/tasks/{task}"):
        text = world.served.send("GET", path, token=outsider).text.replace(world.theirs.concurrency_key, "")
        assert CANARY not in text
        assert world.theirs.tenant not in text
    keys = world.served.send("GET", "/v1/concurrency-keys", token=outsider).json()["keys"]
    assert [(key["key"], key.get("cooled_until"), key["waiting"]) for key in keys] == [
        (world.theirs.concurrency_key, None, 1)
    ], "a key with the same name is another key"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_routes_that_list_for_administrators_are_closed_to_a_tenants_own(world: World, role: Role) -> None:
    token = world.served.add_token(world.served.add_tenant()[0], role)
    for path in ("/v1/tenants", "/v1/tokens", "/v1/database"):
        answer = world.served.send("GET", path, token=token)
        assert answer.status_code == 403, path
        assert CANARY not in answer.text
