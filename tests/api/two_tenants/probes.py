"""Requests that name something: one for every parameter and field of every route by which a tenant names what it has.

`WANTED` is computed from the OpenAPI document. A route, a parameter or a field that is new there and in no table here
fails `test_two_tenants.py`, until somebody has decided whether it names a thing and written the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rota.api.app import build_app
from rota.api.permissions import RULES
from rota.model.accounts.permissions import SCOPES, Reach, Role
from tests.api.two_tenants.things import WORK, Things

DOCUMENT = build_app(None, "test").openapi()  # type: ignore[arg-type]
OWN_TENANT = "the-senders-own-tenant"
TENANTS_OWN = SCOPES[Role.ADMIN, Reach.TENANT]  # what only those of the cluster may do is refused before it looks


@dataclass(frozen=True, kw_only=True)
class Ask:
    """`path`: what stands in the braces of the route's path. `OWN_TENANT` in it stands for the sender's tenant."""

    path: dict[str, object] = field(default_factory=dict)
    query: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: object = None


@dataclass(frozen=True)
class Probe:
    route: str  # the name of its function
    field: str
    ask: Callable[[Things], Ask]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Parameters and fields that name something a tenant has.
NAMING = _words(
    """after after_end after_failed also ancestors_of archive artifact claim concurrency_key cursor delivery
    descendants_of files graph Idempotency-Key idempotency_key ids key name operation owner package schedule
    secrets service_account session sha256 tag task tenant token upload user webhook"""
)
# All others, each looked at once: amounts, choices, times, texts that nothing is found by, and things of the cluster.
PLAIN = _words(
    """addresses all anchor annually any args array at at_most attempt attempts backoff backoff_limit bandwidth
    before bundles by cap category changes code command concurrency_limit concurrency_scope cpu cpu_limit cron
    custom daily delay disabled disk documents dry_run email ends_at env events every expires fail_on fold
    follow from function gpus graphs hourly If-Match image interpreter iops isolation items jitter kwargs lane
    lease limit lines log_limit max_runs may_submit memory missed missed_limit monthly mounts n names network
    new next_at node old on_late outputs over overlap own password path paused pool pools ports preemptible
    priority processes progress reason ref release require result retry_on role scopes script seconds
    share_control since size_bytes state status stream support tags tail tasks tier timeout to tolerance type unplaceable until
    uploads upstream url value verb version wait weekly where worker zone"""
)
# Of the audit log.
NAMING |= _words("actor credential entry object")
PLAIN |= _words("action address format head outcome")
# Names that are the giver's own: nothing is found by them, or what they name is everybody's.
NOT_NAMING = {
    ("add_webhook", "name"),  # filters of what is its own
    ("verify_audit", "after"),  # a seal, which is of all tenants
    ("upload_artifact", "name"),
    ("get_plan", "name"),
    ("get_pool", "name"),
    ("get_pool_load", "name"),
    ("pause_pool", "name"),
    ("resume_pool", "name"),
    ("add_user", "name"),  # users are global: whoever gives a name or a role hears that there is such a user
    ("grant_user_role", "name"),
    ("add_service_account", "name"),
    ("add_token", "name"),
    ("switch_session", "tenant"),  # not for tokens: tests/api/sign_in
    *(
        (route, work)
        for route in ("add_schedule", "edit_schedule", "apply_schedule", "preview_schedule")
        for work in ("task", "graph")
    ),
}


def _named(schema: dict[str, Any], above: tuple[str, ...] = ()) -> set[str]:
    """The names of the fields of a body, however deep."""
    reference = schema.get("$ref")
    if reference in above:
        return set()
    if reference:
        return _named(DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]], (*above, reference))
    found = set(schema.get("properties", ()))
    within = [
        *schema.get("properties", {}).values(),
        *(one for key in ("anyOf", "oneOf") for one in schema.get(key, ())),
    ]
    within += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return found.union(*(_named(one, above) for one in within))


def _routes() -> Iterator[tuple[str, str, str, set[str]]]:
    """Of every route that tenants may ask: its name, method and path, and all that a request can say."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            rule = RULES.get(operation["operationId"])
            if rule is None or (rule.scope is not None and rule.scope not in TENANTS_OWN):
                continue
            says = {one["name"] for one in operation.get("parameters", ())}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                says |= _named(content["schema"])
            yield operation["operationId"], method.upper(), path, says


ROUTES = {name: (method, path) for name, method, path, _ in _routes()}
SAID = frozenset().union(*(says for _, _, _, says in _routes()))
WANTED = {(name, said) for name, _, _, says in _routes() for said in says & NAMING} - NOT_NAMING

# ---- of one thing by its path ---------------------------------------------------------------------------------------

_HOLD = {"reason": "a while"}
_BODIES: dict[str, object] = {
    "edit_task": {"priority": 3, "version": 1},
    "extend_task": {"by": "1h"},
    "change_user": {"disabled": True},
    "change_service_account": {"disabled": True},
    "grant_service_account_role": {"role": "viewer", "tenant": OWN_TENANT},
    "hold_task": _HOLD,
    "hold_graph": _HOLD,
    "set_secret": {"value": "mine"},
    "cool_concurrency_key": {"seconds": 60},
    "edit_schedule": {"jitter": "1m", "version": 1},
    "apply_schedule": {"daily": "02:00", "task": WORK},
    "backfill_schedule": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
}
_QUERIES: dict[str, dict[str, object]] = {
    "revoke_user_role": {"role": "viewer", "tenant": OWN_TENANT},
    "revoke_service_account_role": {"role": "viewer", "tenant": OWN_TENANT},
}
# What `{name}` means below these.
_OWN_NAME = {
    "schedules": "schedule",
    "secrets": "secret",
    "service-accounts": "service_account",
    "tenants": "tenant",
    "users": "account",
}


def _by_path() -> Iterator[Probe]:
    for route, (_, path) in ROUTES.items():
        parts = path.split("/")
        for place, part in enumerate(parts):
            if not part.startswith("{") or (route, part[1:-1]) in NOT_NAMING or part[1:-1] in PLAIN:
                continue
            kind = part[1:-1]
            which = "token" if parts[2] == "tokens" else "concurrency_key" if kind == "key" else kind
            which = "dead" if parts[2] == "dead" else _OWN_NAME.get(parts[2], which) if kind == "name" else which
            others = [one[1:-1] for one in parts[:place] + parts[place + 1 :] if one.startswith("{")]
            own = (
                [which, "array", "graph", "ended"]
                if which == "task"
                else [which, "array"]
                if which == "graph"
                else [which]
            )
            for thing in own:
                yield Probe(route, kind, _of_path(route, kind, thing, others))


def _of_path(route: str, kind: str, thing: str, others: list[str]) -> Callable[[Things], Ask]:
    def ask(things: Things) -> Ask:
        path = {kind: getattr(things, thing), **{other: getattr(things, other) for other in others}}
        return Ask(path=path, query=_QUERIES.get(route, {}), body=_BODIES.get(route))

    return ask


# ---- in the work of tasks, wherever a request has some ----------------------------------------------------------------

_EVERY_DAY = {"daily": "02:00"}
_AROUND: dict[str, Callable[[dict[str, Any]], Ask]] = {
    "submit_task": lambda task: Ask(body=task),
    "submit_batch": lambda task: Ask(body={"tasks": [WORK, task]}),
    "submit_graph": lambda task: Ask(body={"name": "g", "tasks": [{**WORK, "ref": "a"}, {**task, "ref": "b"}]}),
    "preview_tasks": lambda task: Ask(body=task),
    "add_schedule": lambda task: Ask(body={"name": "mine", **_EVERY_DAY, "task": task}),
    "edit_schedule": lambda task: Ask(path={"name": "own"}, body={"task": task, "version": 1}),
    "apply_schedule": lambda task: Ask(path={"name": "own"}, body={**_EVERY_DAY, "task": task}),
    "preview_schedule": lambda task: Ask(body={"name": "mine", **_EVERY_DAY, "task": task}),
}
_IN_WORK: dict[str, Callable[[Things], dict[str, Any]]] = {
    "after": lambda things: {"after": [things.task]},
    "after_end": lambda things: {"after_end": [things.ended]},
    "after_failed": lambda things: {"after_failed": [things.dead]},
    "archive": lambda things: {"archive": things.artifact},
    "files": lambda things: {"files": {"a": things.artifact}},
    "upload": lambda things: {"upload": things.artifact, "command": None},
    "package": lambda things: {"package": things.artifact, "function": "a:b", "command": None},
    "secrets": lambda things: {"secrets": [things.secret]},
    "concurrency_key": lambda things: {"concurrency_key": things.concurrency_key},
    "idempotency_key": lambda things: {"idempotency_key": things.request_key},
    "name": lambda things: {"name": things.name},
}


def _in_work() -> Iterator[Probe]:
    for route, around in _AROUND.items():
        for name, of in _IN_WORK.items():
            yield Probe(route, name, lambda things, around=around, of=of: around({**WORK, **of(things)}))  # type: ignore[misc]
        yield Probe(route, "after", lambda things, around=around: around({**WORK, "after": [things.graph]}))  # type: ignore[misc]
        yield Probe(route, "after", lambda things, around=around: around({**WORK, "after": [things.ended]}))  # type: ignore[misc]


def _planned(things: Things) -> list[dict[str, object]]:
    return [{"sha256": things.sha256, "size_bytes": len(things.content), "name": "a"}]


# ---- everything else -------------------------------------------------------------------------------------------------


def _query(route: str, name: str, *kinds: str) -> list[Probe]:
    return [Probe(route, name, lambda things, kind=kind: Ask(query={name: getattr(things, kind)})) for kind in kinds]  # type: ignore[misc]


def _ids(route: str, **more: object) -> list[Probe]:
    kinds = ("task", "ended", "dead", "graph", "array")
    return [
        Probe(route, "ids", lambda things, kind=kind: Ask(body={"ids": [getattr(things, kind)], **more}))  # type: ignore[misc]
        for kind in kinds
    ]


def _where(name: str, of: Callable[[Things], object]) -> list[Probe]:
    """Operations that count, and operations that would change."""
    return [
        Probe("start_operation", name, lambda things, body=body: Ask(body={**body, "where": {name: of(things)}}))  # type: ignore[misc]
        for body in ({"verb": "cancel", "dry_run": True}, {"verb": "cancel"}, {"verb": "requeue"})
    ]


# Requests that give or take a role at another tenant.
_ROLES_AT: dict[str, Callable[[Things], dict[str, Any]]] = {
    **dict.fromkeys(
        ("add_user", "add_service_account"),
        lambda things: {"body": {"name": "me", "role": "viewer", "tenant": things.tenant}},
    ),
    **dict.fromkeys(
        ("grant_user_role", "grant_service_account_role"),
        lambda things: {"body": {"role": "viewer", "tenant": things.tenant}},
    ),
    **dict.fromkeys(
        ("revoke_user_role", "revoke_service_account_role"),
        lambda things: {"query": {"role": "viewer", "tenant": things.tenant}},
    ),
}


def _tag(things: Things) -> str:
    return f"team:{things.tag}"


PROBES: list[Probe] = [
    *_by_path(),
    *_in_work(),
    *(
        probe
        for route in ("list_tasks", "list_dead_letters")
        for probe in (
            *_query(route, "name", "name"), *_query(route, "schedule", "schedule"), *_query(route, "user", "user"),
            *_query(route, "graph", "graph", "array"), *_query(route, "tenant", "tenant"), *_query(route, "cursor", "cursor"),
            Probe(route, "tag", lambda things: Ask(query={"tag": _tag(things)})),
        )
    ),
    *_query("list_tasks", "ancestors_of", "task", "graph"),
    *_query("list_tasks", "descendants_of", "task", "graph"),
    Probe("list_tasks", "ancestors_of", lambda things: Ask(query={"ancestors_of": f"{things.graph}/{things.ref}"})),
    Probe("list_tasks", "descendants_of", lambda things: Ask(query={"descendants_of": things.ref, "graph": things.graph})),
    *(probe for route in ("list_attempts", "list_results", "get_log") for probe in (
        Probe(route, "cursor", lambda things: Ask(path={"task": things.graph}, query={"cursor": things.cursor})),
    )),
    Probe("get_log", "after", lambda things: Ask(path={"task": things.task}, query={"after": 0})),
    Probe("get_log", "task", lambda things: Ask(path={"task": things.task}, query={"follow": "true"})),
    Probe("get_graph", "ancestors_of", lambda things: Ask(path={"graph": things.graph}, query={"ancestors_of": things.ref})),
    Probe("get_graph", "descendants_of", lambda things: Ask(path={"graph": things.graph}, query={"descendants_of": things.ref})),
    *_query("list_graphs", "name", "name"), *_query("list_graphs", "schedule", "schedule"),
    *_query("list_graphs", "user", "user"), *_query("list_graphs", "cursor", "cursor"),
    *_query("list_operations", "cursor", "cursor"), *_query("list_artifacts", "cursor", "cursor"),
    *_query("list_schedules", "after", "schedule"),
    Probe("list_deliveries", "cursor", lambda things: Ask(path={"webhook": things.webhook}, query={"cursor": things.cursor})),
    # ---- many at once
    *_ids("cancel_tasks"), *_ids("hold_tasks"), *_ids("release_tasks"), *_ids("requeue_dead_letters"),
    *_ids("discard_dead_letters"), *_ids("wait_for_tasks", timeout=0), *_ids("wait_for_tasks", timeout=0, any=True, documents=True),
    Probe("wait_for_tasks", "also", lambda things: Ask(body={"ids": [things.task], "also": [things.ended], "timeout": 0})),
    *_where("name", lambda things: things.name), *_where("user", lambda things: things.user), *_where("tag", _tag),
    *_where("graph", lambda things: things.graph), *_where("schedule", lambda things: things.schedule),
    # ---- events
    *_query("follow_events", "task", "task"), *_query("follow_events", "schedule", "schedule"),
    *_query("follow_events", "name", "name"), *_query("follow_events", "after", "event"),
    Probe("follow_events", "tag", lambda things: Ask(query={"tag": _tag(things)})),
    Probe("follow_events", "Last-Event-ID", lambda things: Ask(headers={"last-event-id": things.event})),
    *(
        Probe("add_webhook", name, lambda things, of=of, name=name: Ask(body={"url": "https://example.com/a", name: of(things)}))  # type: ignore[misc]
        for name, of in (
            ("task", lambda things: things.task), ("schedule", lambda things: things.schedule),
            ("tag", lambda things: {"team": things.tag}),
        )
    ),
    # ---- the audit log
    *(probe for route in ("list_audit", "export_audit") for probe in (
        *_query(route, "actor", "user"), *_query(route, "tenant", "tenant"),
        Probe(route, "object", lambda things: Ask(query={"object": f"task:{things.ended}"})),
        Probe(route, "credential", lambda things: Ask(query={"credential": f"token {things.token}"})),
    )),
    *_query("list_audit", "cursor", "cursor"), *_query("export_audit", "after", "entry"),
    # ---- keys
    Probe("do_once", "key", lambda things: Ask(body={"key": things.once})),
    Probe("do_once", "key", lambda things: Ask(body={"key": things.once, "claim": "mine", "result": 1})),
    Probe("do_once", "claim", lambda things: Ask(body={"key": things.once, "claim": things.claim, "result": 2})),
    Probe("do_once", "claim", lambda things: Ask(body={"key": things.once, "claim": things.claim, "release": True})),
    Probe("submit_task", "Idempotency-Key", lambda things: Ask(headers={"idempotency-key": things.request_key}, body=WORK)),
    Probe("submit_batch", "Idempotency-Key",
          lambda things: Ask(headers={"idempotency-key": things.batch_key}, body={"tasks": [WORK]})),
    Probe("submit_graph", "Idempotency-Key",
          lambda things: Ask(headers={"idempotency-key": things.graph_key}, body={"name": "g", "tasks": [WORK | {"ref": "a"}]})),
    Probe("start_operation", "Idempotency-Key",
          lambda things: Ask(headers={"idempotency-key": things.operation_key}, body={"verb": "hold", "all": True})),
    *(
        Probe(route, "Rota-Parent", lambda things, ask=ask: Ask(headers={"rota-parent": str(things.task)}, body=ask(WORK).body))  # type: ignore[misc]
        for route, ask in _AROUND.items() if route in ("submit_task", "submit_batch")
    ),
    # ---- files and schedules
    Probe("upload_artifact", "content", lambda things: Ask(body=things.content)),
    Probe("preview_tasks", "sha256", lambda things: Ask(body={**WORK, "uploads": _planned(things)})),
    Probe("preview_schedule", "sha256",
          lambda things: Ask(body={"name": "mine", **_EVERY_DAY, "task": WORK, "uploads": _planned(things)})),
    *(
        Probe(route, "name", lambda things, more=more: Ask(body={"name": things.schedule, **_EVERY_DAY, "task": WORK, **more}))  # type: ignore[misc]
        for route, more in (("add_schedule", {}), ("preview_schedule", {}), ("preview_schedule", {"version": 1}))
    ),
    # ---- accounts
    *_query("list_sessions", "user", "user"), *_query("end_other_sessions", "user", "user"),
    Probe("add_token", "tenant", lambda things: Ask(body={"tenant": things.tenant, "user": "eve"})),
    Probe("add_token", "user", lambda things: Ask(body={"tenant": things.tenant, "user": things.user})),
    *_query("list_users", "after", "account"), *_query("list_service_accounts", "after", "service_account"),
    Probe("add_token", "owner", lambda things: Ask(body={"owner": things.account})),
    Probe("add_token", "service_account", lambda things: Ask(body={"service_account": things.service_account})),
    *(
        Probe(route, "tenant", lambda things, route=route, role=role: Ask(  # type: ignore[misc]
            path={"name": "me"} if "{name}" in ROUTES[route][1] else {}, **role(things)
        ))
        for route, role in _ROLES_AT.items()
    ),
    # ---- another tenant named in the header
    *(
        Probe(route, "Rota-Tenant", lambda things: Ask(headers={"rota-tenant": things.tenant}))
        for route in ("list_tasks", "get_me", "list_secrets", "list_pools", "follow_events", "list_tokens")
    ),
]  # fmt: skip
