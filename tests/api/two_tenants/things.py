"""What a tenant has, of every kind that a request can name; and the same names for what nobody has.

`Things` of a tenant are made through the API, except those that only a running task or a sent message would leave.
`everything_of` tells whether any row of a tenant has changed.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from tests.api.served import Served
from tests.api.test_dead import die

WORK: dict[str, Any] = {"command": ["true"], "unplaceable": "wait"}
CANARY = "canary"  # in every name that the tenant has given
_EVERY_YEAR = {"annually": "06-01@04:00"}


@dataclass(frozen=True, kw_only=True)
class Things:
    """Names and ids, by the kind of thing."""

    task: int
    ended: int
    dead: int
    graph: int
    array: int
    operation: int
    webhook: int
    delivery: int
    token: int
    sha256: str
    secret: str
    schedule: str
    concurrency_key: str
    once: str
    claim: str
    request_key: str  # an idempotency key of a task
    batch_key: str
    graph_key: str
    operation_key: str
    name: str
    tag: str
    ref: str
    user: str
    account: str  # a user with a role at the tenant
    service_account: str
    tenant: str
    event: str
    cursor: str

    @property
    def artifact(self) -> str:
        return f"sha256:{self.sha256}"

    @property
    def content(self) -> bytes:
        """The bytes that have the digest."""
        return content_of(self.name)

    def values(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def content_of(name: str) -> bytes:
    return f"the bytes of {name}".encode()


def nobodys(cursor: str) -> Things:
    """Ids and names that nothing has. A cursor is signed: it is one of a third tenant."""
    word = uuid4().hex[:10]
    number = iter(range(900_000_000, 900_000_100))
    ids = ("task", "ended", "dead", "graph", "array", "operation", "webhook", "delivery", "token")
    texts = (
        "once", "claim", "request_key", "batch_key", "graph_key", "operation_key", "name", "tag", "ref", "user", "tenant",
        "concurrency_key", "schedule", "account", "service_account",
    )  # fmt: skip
    named: dict[str, Any] = {name: next(number) for name in ids}
    named |= {name: f"nobody-{name.replace('_', '-')}-{word}" for name in texts}
    return Things(
        **named,
        secret=f"NOBODY_{word.upper()}",
        sha256=hashlib.sha256(content_of(f"nobody-name-{word}")).hexdigest(),
        event="900000000-1-0",
        cursor=cursor,
    )


def use_large_ids(served: Served) -> None:
    """So that no id is also a count or a version in an answer, nor the id of a thing of another kind."""
    served.ask(
        """select setval(format('%I', sequencename)::regclass,
                coalesce(last_value, 0) + 20000 * row_number() over (order by sequencename)) from pg_sequences
            where schemaname = 'public' and data_type <> 'smallint'::regtype"""
    )


def made_by(served: Served, tenant: str, token: str, user: str) -> Things:
    """One of everything, in a tenant of its own."""

    def post(path: str, body: object, **more: Any) -> dict[str, Any]:
        made = served.send("POST", path, body, token=token, **more)
        assert made.status_code in (200, 201), made.text
        return dict(made.json())

    def named(kind: str) -> str:
        return f"{CANARY}-{kind.replace('_', '-')}-{uuid4().hex[:10]}"

    def keyed(kind: str) -> tuple[str, dict[str, str]]:
        key = named(kind)
        return key, {"idempotency-key": key}

    name, tag, ref = named("name"), named("tag"), named("ref")
    uploaded = served.send("POST", f"/v1/artifacts?name={name}", content_of(name), token=token).json()
    secret = f"CANARY_{uuid4().hex[:8].upper()}"
    assert served.send("PUT", f"/v1/secrets/{secret}", {"value": "of-nobody-else"}, token=token).status_code == 201
    work = {**WORK, "name": name, "tags": {"team": tag}}
    request_key, with_key = keyed("request_key")
    concurrency_key = named("concurrency_key")
    task = post("/v1/tasks", {**work, "concurrency_key": concurrency_key, "secrets": [secret]}, headers=with_key)["id"]
    ended = post("/v1/tasks", work)["id"]
    post(f"/v1/tasks/{ended}/cancel", None)
    batch_key, with_key = keyed("batch_key")
    post("/v1/tasks/batch", {"tasks": [work, work]}, headers=with_key)
    graph_key, with_key = keyed("graph_key")
    pair = [{**work, "ref": ref}, {**work, "ref": named("ref"), "after": [ref]}]
    graph = post("/v1/graphs", {"name": named("graph"), "tasks": pair}, headers=with_key)["id"]
    schedule = named("schedule")
    post("/v1/schedules", {"name": schedule, "task": {**work, "files": {"a": uploaded["id"]}}, **_EVERY_YEAR})
    once, claim = named("once"), named("claim")
    post("/v1/once", {"key": once, "claim": claim, "lease": "1h"})
    webhook = post("/v1/webhooks", {"url": "https://example.com/hook", "name": named("no_such_task")})["id"]
    post(f"/v1/concurrency-keys/{concurrency_key}/cool", {"seconds": 3600})
    operation_key, with_key = keyed("operation_key")
    operation = post("/v1/operations", {"verb": "retry", "where": {"name": named("none")}}, headers=with_key)["id"]
    assert served.send("GET", f"/v1/operations/{operation}?wait=20", token=token).json()["state"] != "running"
    [(delivery,)] = served.ask(
        """insert into deliveries (webhook, tenant, message, type, body, state)
            select id, tenant, $2, 'done', '{}', 2 from webhooks where id = $1 returning id""",
        webhook, named("message"),
    )  # fmt: skip
    [(number,)] = served.ask(
        "select tokens.id from tokens join tenants on tenants.id = tokens.tenant where tenants.name = $1", tenant
    )
    account, service_account = named("account"), named("service_account")
    for path, body in (
        ("/v1/users", {"name": account, "role": "viewer", "tenant": tenant}),
        ("/v1/service-accounts", {"name": service_account, "role": "member", "tenant": tenant}),
    ):
        made = served.send("POST", path, body, token=served.cluster.tokens.admin, headers={"rota-tenant": tenant})
        assert made.status_code == 201, made.text
    dead, array = die(served, name, token=token), post("/v1/tasks", {**work, "array": "0-2"})["id"]
    events = served.send("GET", "/v1/events", token=token).text
    ids = [line.removeprefix("id: ") for line in events.splitlines() if line.startswith("id: ")]
    return Things(
        task=task, ended=ended, dead=dead, graph=graph, array=array, operation=operation, webhook=webhook,
        delivery=delivery, token=number, sha256=uploaded["sha256"], secret=secret, schedule=schedule,
        concurrency_key=concurrency_key, once=once, claim=claim, request_key=request_key, batch_key=batch_key,
        graph_key=graph_key, operation_key=operation_key, name=name, tag=tag, ref=ref, user=user,
        account=account, service_account=service_account, tenant=tenant,
        event=ids[-2], cursor=served.send("GET", "/v1/tasks?limit=1", token=token).json()["next"],
    )  # fmt: skip


# A webhook's place in the log moves by itself, and the last use of a token is written a little later.
_COUNTED = """select string_agg(format(
        $$select %L as name, count(*), md5(coalesce(string_agg(line, chr(10) order by line), ''))
            from (select (to_jsonb(one) - array['xid', 'row', 'position', 'used_at', 'used_from'])::text as line from %I one where %s) lines$$,
        relname, relname,
        case when relname = 'edges' then 'parent in (select id from tasks where tenant = $1)' else 'tenant = $1' end
    ), ' union all ') from pg_class
    where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
        and (relname = 'edges' or exists (select from pg_attribute where attrelid = pg_class.oid and attname = 'tenant'))"""


def everything_of(served: Served, tenant: str) -> dict[str, Any]:
    """Of every table with rows of tenants: how many are the tenant's, and a hash of them."""
    [(number,)] = served.ask("select id from tenants where name = $1", tenant)
    [(statement,)] = served.ask(_COUNTED)
    return {name: (count, digest) for name, count, digest in served.ask(statement, number)}
