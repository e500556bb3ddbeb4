"""The audit log over HTTP: who sees what, bulk changes, refusals, reads across tenants, export, verification."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from tests.api.accounts.people import EVERYWHERE, People
from tests.api.audit.writes import Making, name
from tests.api.served import Said, Served, problem


def listed(acme: People, query: str = "", *, token: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = acme.send("GET", f"/v1/audit?{query}", token=token or acme.admin, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["entries"])


def soon(acme: People, query: str, number: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Rows that a loop of the server writes."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = listed(acme, query, **more)
        if len(found) >= number:
            return found
    raise AssertionError(f"{query}: {found}")


# ---- C8 -------------------------------------------------------------------------------------------------------------


def test_a_bulk_cancel_is_one_row_with_filter_and_count_and_each_task_shows_who(acme: People) -> None:
    making, etl = Making(acme), name()
    tasks = [making.task(name=etl) for _ in range(3)]
    other = making.task(name="other")
    ann = acme.add_user("member")
    token = acme.token_of(ann, name="ci-7", scopes=["tasks:control", "tasks:read"])
    body = {"verb": "cancel", "where": {"name": etl}, "changes": {"reason": "wrong input"}}
    operation = acme.send("POST", "/v1/operations", body, token=token).json()["id"]
    ended = acme.send("GET", f"/v1/operations/{operation}?wait=20", token=token).json()
    assert (ended["state"], ended["changed"]) == ("done", 3)
    [row] = listed(acme, f"object=operation:{operation}")
    assert (row["action"], row["actor"], row["credential"], row["reason"], row["selection"], row["count"]) == (
        "operation.cancel",
        ann,
        "token ci-7",
        "wrong input",
        {"name": etl},
        3,
    )
    for task in tasks:
        [change] = acme.send("GET", f"/v1/tasks/{task}", token=token).json()["history"]
        assert (change["audit"], change["by"], change["credential"], change["reason"], change["count"]) == (
            row["id"],
            ann,
            "token ci-7",
            "wrong input",
            3,
        )
    document = acme.send("GET", f"/v1/tasks/{tasks[0]}", token=token).json()
    assert document["reason"] == f"cancelled by {ann} before it started: wrong input"
    assert acme.send("GET", f"/v1/tasks/{other}", token=token).json()["history"] == []


def test_a_task_shows_what_was_done_to_it_alone_and_with_others_newest_first(acme: People) -> None:
    making = Making(acme)
    task, beside = making.task(), making.task()
    making.send("POST", "/v1/tasks/hold", {"ids": [task, beside], "reason": "both"})
    version = making.send("GET", f"/v1/tasks/{task}")["version"]
    making.send("PATCH", f"/v1/tasks/{task}", {"priority": 4, "version": version, "reason": "first"})
    making.send("POST", f"/v1/tasks/{task}/release", {"reason": "go"})
    making.send("POST", f"/v1/tasks/{task}/cancel", {"reason": "no"})
    making.send("POST", f"/v1/tasks/{task}/retry", {"reason": "yes"})
    history = making.send("GET", f"/v1/tasks/{task}")["history"]
    assert [(one["action"], one["reason"], one["count"]) for one in history] == [
        ("task.retry", "yes", None),
        ("task.cancel", "no", None),
        ("task.release", "go", None),
        ("task.edit", "first", None),
        ("task.hold", "both", 2),
    ]
    [edit] = [row for row in listed(acme, f"object=task:{task}") if row["action"] == "task.edit"]
    assert (edit["before"], edit["after"]) == ({"priority": 0}, {"priority": 4})


def test_a_graph_that_is_cancelled_shows_on_its_tasks(acme: People) -> None:
    making = Making(acme)
    graph = making.graph()
    making.send("POST", f"/v1/graphs/{graph}/cancel", {"reason": "all of it"})
    [row] = listed(acme, f"object=graph:{graph}")
    assert (row["action"], row["count"], row["reason"]) == ("graph.cancel", 2, "all of it")
    members = [one["id"] for one in making.send("GET", f"/v1/graphs/{graph}")["tasks"]]
    for task in members:
        [change] = making.send("GET", f"/v1/tasks/{task}")["history"]
        assert (change["audit"], change["action"]) == (row["id"], "graph.cancel")


@pytest.mark.parametrize("reason", ["two\nlines", "x" * 201, "\x1b[31mred"])
def test_a_reason_is_one_short_line(acme: People, reason: str) -> None:
    task = Making(acme).task()
    headers = {"rota-tenant": acme.tenant}
    for path, body in ((f"{task}/cancel", {}), ("cancel", {"ids": [task]}), (f"{task}/extend", {"cap": "2h"})):
        answer = acme.send("POST", f"/v1/tasks/{path}", {**body, "reason": reason}, token=acme.admin, headers=headers)
        assert problem(answer) == Said(422, "out-of-range", (("/reason", "out-of-range"),))
    assert acme.send("GET", f"/v1/tasks/{task}", token=acme.admin, headers=headers).json()["history"] == []


# ---- who sees what --------------------------------------------------------------------------------------------------


def test_administrators_of_a_tenant_see_the_rows_of_their_tenant_only(acme: People, other: People) -> None:
    making = Making(acme)
    task = making.cancelled()
    pool = name()
    making.send("POST", "/v1/pools", {"name": pool})
    [of_task] = listed(acme, f"object=task:{task}")
    [of_pool] = listed(acme, f"object=pool:{pool}")
    own, stranger = acme.user("admin"), other.user("admin")
    assert [row["id"] for row in listed(acme, f"object=task:{task}", token=own)] == [of_task["id"]]
    assert listed(acme, f"object=task:{task}", token=stranger) == []
    assert listed(acme, f"object=pool:{pool}", token=own) == [], "it is the cluster's"
    for row in (of_task, of_pool):
        seen = acme.send("GET", f"/v1/audit/{row['id']}", token=stranger)
        assert problem(seen) == Said(404, "not-found")
    assert acme.send("GET", f"/v1/audit/{of_task['id']}", token=own).json() == of_task
    for query in (f"tenant={acme.tenant}", "tenant=nobody"):
        assert problem(acme.send("GET", f"/v1/audit?{query}", token=stranger)) == Said(404, "not-found")
    exported = acme.send("GET", "/v1/audit/export", token=stranger)
    assert str(of_task["id"]) not in {str(json.loads(line)["id"]) for line in exported.text.splitlines()}
    everywhere = listed(acme, f"tenant={acme.tenant}&object=task:{task}")
    assert [row["tenant"] for row in everywhere] == [acme.tenant]
    chosen = listed(acme, f"object=pool:{pool}", **{"rota-tenant": acme.tenant})
    assert chosen == [], "a request to a tenant is about its rows"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("outcome=maybe", "/outcome"),
        ("object=:7", "/object"),
        ("object=task:", "/object"),
        ("address=nowhere", "/address"),
        ("since=soon", "/since"),
        ("limit=0", "/limit"),
        ("actor=a%00b", "/actor"),
        ("action=" + "x" * 201, "/action"),
        ("who=ann", "/who"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit/export"])
def test_a_filter_that_is_wrong_is_named(acme: People, path: str, query: str, pointer: str) -> None:
    if query == "limit=0" and path.endswith("export"):
        query, pointer = "format=xml", "/format"
    said = problem(acme.send("GET", f"{path}?{query}", token=acme.admin))
    assert (said.status, [where for where, _ in said.faults]) == (422, [pointer])


def test_filters_select_and_pages_follow_one_another(acme: People) -> None:
    making, tag = Making(acme), name()
    token = acme.token_of(acme.add_user("member", name=tag), name="ci-7")
    tasks = [making.task() for _ in range(5)]
    for task in tasks:
        acme.send("POST", f"/v1/tasks/{task}/cancel", token=token)
    rows = listed(acme, f"actor={tag}")
    assert [row["object_id"] for row in rows] == [str(task) for task in reversed(tasks)]
    assert [row["via"] for row in rows] == ["api"] * 5
    cursor, seen = "", []
    for _ in range(3):
        following = f"&cursor={cursor}" if cursor else ""
        answer = acme.send("GET", f"/v1/audit?actor={tag}&limit=2{following}", token=acme.admin)
        seen += answer.json()["entries"]
        cursor = answer.json()["next"] or ""
    assert (seen, cursor) == (rows, "")
    for query, number in (
        ("action=task.cancel", 5),
        ("action=task", 5),
        ("action=graph", 0),
        ("outcome=denied", 0),
        (f"credential={quote('token ci-7')}", 5),
        ("credential=ci-7", 0),
        ("address=127.0.0.0/8", 5),
        ("address=10.0.0.1", 0),
        (f"object=task:{tasks[0]}", 1),
        ("object=task", 5),
        ("since=1h", 5),
        ("until=1h", 0),
        (f"tenant={acme.tenant}", 5),
    ):
        assert len(listed(acme, f"actor={tag}&{query}")) == number, query


# ---- refusals and reads across tenants ------------------------------------------------------------------------------


def test_refusals_are_sampled_and_the_others_are_counted(acme: People) -> None:
    viewer = acme.add_user("viewer")
    token, task = acme.token_of(viewer), Making(acme).task()
    for _ in range(25):
        assert acme.send("POST", f"/v1/tasks/{task}/cancel", token=token).status_code == 403
    rows = soon(acme, f"actor={viewer}&outcome=denied", 10)
    assert len(rows) == 10
    assert {(row["action"], row["object_id"], row["reason"], row["tenant"]) for row in rows} == {
        ("task.cancel", str(task), "missing-scope: tasks:control", acme.tenant)
    }
    assert {row["count"] for row in rows} == {None}, "the rest follows in one row when the minute is over"


def test_a_token_that_has_ended_is_known_and_a_wrong_one_is_not(acme: People) -> None:
    ann = acme.add_user("member")
    token = acme.token_of(ann, name="old")
    number = acme.send("GET", "/v1/tokens", token=acme.token_of(ann, scopes=["tokens:write"])).json()["tokens"]
    [old] = [one["id"] for one in number if one["name"] == "old"]
    assert (
        acme.send("DELETE", f"/v1/tokens/{old}", token=acme.admin, headers={"rota-tenant": acme.tenant}).status_code
        == 204
    )
    forged = token[:-2] + ("aa" if token[-2:] != "aa" else "bb")
    assert acme.send("GET", "/v1/tasks", token=forged).status_code == 401
    assert acme.send("GET", "/v1/tasks", token=token).status_code == 401
    [row] = soon(acme, f"actor={ann}&outcome=denied")
    assert (row["credential"], row["actor_kind"], row["reason"]) == ("token old", "user", "unauthorized: it has ended")


def test_a_session_that_has_ended_is_known(acme: People) -> None:
    ann = acme.add_user("member")
    headers = acme.session_of(ann)
    assert acme.send("GET", "/v1/tasks", token=None, headers=headers).status_code == 200
    acme.served.ask(
        "update sessions set ended_at = now() where principal = (select id from principals where name = $1)", ann
    )
    until = time.monotonic() + 30
    while acme.send("GET", "/v1/tasks", token=None, headers=headers).status_code != 401:
        assert time.monotonic() < until
    [row, *_] = soon(acme, f"actor={ann}&outcome=denied")
    assert row["credential"].startswith("session ")


def test_naming_a_tenant_that_is_hidden_is_a_refusal(acme: People, other: People) -> None:
    ann = acme.add_user("member")
    token = acme.token_of(ann)
    assert acme.send("GET", "/v1/tasks", token=token, headers={"rota-tenant": other.tenant}).status_code == 404
    [row] = soon(acme, f"actor={ann}&outcome=denied")
    assert (row["tenant"], row["reason"]) == (acme.tenant, f"not-found: tenant {other.tenant}")


def test_a_tenants_administrator_sees_who_else_looked(acme: People) -> None:
    auditor = acme.add_user("viewer", **EVERYWHERE)
    task, own = Making(acme).task(), acme.user("admin")
    headers = {**acme.session_of(auditor), "rota-tenant": acme.tenant}
    for _ in range(15):
        assert acme.send("GET", f"/v1/tasks/{task}", token=None, headers=headers).status_code == 200
    rows = soon(acme, f"actor={auditor}&action=task.read", 10, token=own)
    assert len(rows) == 10
    assert {(row["object_id"], row["reason"], row["outcome"]) for row in rows} == {
        (str(task), "/v1/tasks/{task}", "done")
    }
    member = acme.add_user("member")
    assert acme.send("GET", f"/v1/tasks/{task}", token=acme.token_of(member)).status_code == 200
    assert listed(acme, f"actor={member}&action=task.read") == [], "their own tenant's affairs"
    document = acme.send("GET", f"/v1/tasks/{task}", token=own).json()
    assert document["history"] == [], "a read changes nothing"


# ---- foreign text ---------------------------------------------------------------------------------------------------


def test_what_clients_call_themselves_is_a_value_and_no_more(acme: People) -> None:
    """A header can't smuggle in a second row, a formula or an escape code."""
    task, own = Making(acme).task(), acme.user("admin")
    agent = "=cmd|' /C calc'!A0"
    sent = {"user-agent": agent, "x-request-id": 'x","actor":"root'}
    reason = "=HYPERLINK(1)"
    assert acme.send("POST", f"/v1/tasks/{task}/cancel", {"reason": reason}, token=own, headers=sent).status_code == 200
    [row] = listed(acme, f"object=task:{task}", token=own)
    assert (row["agent"], row["request_id"], row["via"]) == (agent, 'x","actor":"root', "api")
    exported = acme.send("GET", f"/v1/audit/export?format=csv&object=task:{task}", token=own)
    assert exported.headers["content-type"].startswith("text/csv")
    [heading, cells] = csv.reader(io.StringIO(exported.text))
    found = dict(zip(heading, cells, strict=True))
    assert (found["agent"], found["reason"], found["request_id"]) == (f"'{agent}", f"'{reason}", 'x","actor":"root')
    assert found["id"] == str(row["id"])
    lines = acme.send("GET", f"/v1/audit/export?object=task:{task}", token=own).text.splitlines()
    assert [json.loads(line) for line in lines] == [row]


def test_control_characters_never_leave_in_csv(acme: People) -> None:
    """An old row may have any text: the names of a provider, of a client."""
    mark = name()
    acme.served.ask(
        """insert into audit_log (tenant, actor_kind, actor, action, object_kind, object_id, reason, before)
            values ($1, 'anonymous', $2, 'session.add', 'session', '', $3, '{"a": 1}')""",
        acme.tenant_id,
        mark,
        "a\x1b[2J\r\nid,at\u202eb",
    )
    exported = acme.send("GET", f"/v1/audit/export?format=csv&actor={mark}", token=acme.admin).text
    assert len(exported.splitlines()) == 2
    [_, cells] = csv.reader(io.StringIO(exported))
    assert r"a\x1b[2J\x0d\x0aid,at\u202eb" in cells
    assert '{"a": 1}' in cells


def test_an_export_goes_on_after_a_row_and_is_noted(acme: People) -> None:
    making, ann = Making(acme), acme.add_user("admin")
    token = acme.token_of(ann)
    tasks = [making.task() for _ in range(4)]
    for task in tasks:
        acme.send("POST", f"/v1/tasks/{task}/cancel", token=token)
    mine = f"/v1/audit/export?actor={ann}&action=task"
    rows = [json.loads(line) for line in acme.send("GET", mine, token=token).text.splitlines()]
    assert [row["object_id"] for row in rows] == list(map(str, tasks))
    rest = acme.send("GET", f"{mine}&format=csv&after={rows[1]['id']}", token=token).text.splitlines()
    assert [line.partition(",")[0] for line in rest] == [str(row["id"]) for row in rows[2:]]
    assert problem(acme.send("GET", f"{mine}&after={2**62}", token=token)) == Said(400, "invalid-cursor")
    noted = soon(acme, f"actor={ann}&action=audit.export", 2)
    assert {row["object_id"] for row in noted} == {"jsonl", "csv"}


# ---- verification ---------------------------------------------------------------------------------------------------


def verified(acme: People, query: str = "") -> tuple[int, list[str], str | None]:
    """Rows, findings and head of the whole chain, part by part."""
    rows, findings, head, after = 0, [], None, ""
    while True:
        answer = acme.send("GET", f"/v1/audit/verify?{after or query}", token=acme.admin)
        assert answer.status_code == 200, answer.text
        part = answer.json()
        rows, head = rows + part["rows"], part["head"] or head
        findings += [f"{one['what']} {one['rows']}" for one in part["findings"]]
        if part["next"] is None:
            return rows, findings, head
        after = f"after={part['next']}"


def test_a_row_that_was_changed_behind_the_triggers_is_found(acme: People) -> None:
    task = Making(acme).cancelled()
    [row] = listed(acme, f"object=task:{task}")
    until = time.monotonic() + 30
    sealed = "select count(*) from audit_seals where $1 = any(ids)"
    while acme.served.ask(sealed, row["id"]) != [(1,)]:
        assert time.monotonic() < until, "the loop of the server seals it"
    _, findings, head = verified(acme)
    assert (findings, head is not None) == ([], True)
    forge = "set session_replication_role = replica; update audit_log set actor = '{}' where id = " + str(row["id"])
    _run(acme.served, forge.format("eve"))
    assert verified(acme)[1] == [f"changed [{row['id']}]"]
    _run(acme.served, forge.format(row["actor"]))
    assert verified(acme, f"head={head}")[1] == []
    assert verified(acme, f"head=1:{'0' * 64}")[1] == ["head-unknown []"]
    assert verified(acme, "since=1d")[1] == []


def _run(served: Served, text: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(served.cluster.database)
        try:
            await connection.execute(text)
        finally:
            await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("query", ["head=12", "head=1:zz", "after=0", "since=soon", "from=1"])
def test_a_wrong_question_to_verify_is_named(acme: People, query: str) -> None:
    assert acme.send("GET", f"/v1/audit/verify?{query}", token=acme.admin).status_code == 422


def test_members_read_no_audit_log(acme: People) -> None:
    member = acme.user("member")
    for path in ("", "/verify", "/export", "/1"):
        assert problem(acme.send("GET", f"/v1/audit{path}", token=member)) == Said(403, "missing-scope")
