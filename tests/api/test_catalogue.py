"""What operators define for everybody: tiers, categories, lanes and pools, and that submissions follow within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from rota.model.queue import work_hash
from rota.model.task import Kind
from tests.api.served import Said, Served, problem

PATIENCE_SECONDS = 10.0


@pytest.fixture
def admin(served: Served) -> Callable[..., httpx.Response]:
    def send(method: str, path: str, body: object = None) -> httpx.Response:
        return served.send(method, path, body, token=served.tokens["admin"])

    return send


def accepted(served: Served, **task: Any) -> dict[str, Any]:
    """The task's document, once server nodes have noticed what was changed for it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = served.send("POST", "/v1/tasks", {"command": ["true"], **task})
        if answer.status_code == 201 or time.monotonic() > until:
            assert answer.status_code == 201, answer.text
            return dict(served.send("GET", f"/v1/tasks/{answer.json()['id']}").json())
        time.sleep(0.1)


def accepted_at_once(served: Served, **task: Any) -> None:
    answer = served.send("POST", "/v1/tasks", {"command": ["true"], **task})
    assert answer.status_code == 201, answer.text


Admin = Callable[..., httpx.Response]


# ---- tiers ---------------------------------------------------------------------------------------------------------


def test_a_tier_is_made_changed_used_by_a_plan_and_then_can_not_be_removed(served: Served, admin: Admin) -> None:
    made = admin("PUT", "/v1/tiers/huge", {"cpu": 16, "memory": "64G", "iops": "5k", "gpus": 1, "bandwidth": "1G"})
    assert made.status_code == 201
    assert made.json() == {
        "name": "huge", "cpu": 16, "memory_bytes": 64 * 10**9, "disk_bytes": 10**9, "iops": 5000, "gpus": 1,
        "bandwidth_bits": 10**9,
    }  # fmt: skip
    changed = admin("PUT", "/v1/tiers/huge", {"disk": "1T"})
    assert (changed.status_code, changed.json()["disk_bytes"], changed.json()["cpu"]) == (200, 10**12, 16)
    assert "huge" in [tier["name"] for tier in served.send("GET", "/v1/tiers").json()["tiers"]]

    admin("PATCH", "/v1/plans/unlimited", {"tiers": ["basic", "regular", "premium", "huge"]})
    task = accepted(served, tier="huge", gpus=0.5, iops=10)
    assert task["resources"] == {
        "cpu": 16, "memory_bytes": 64 * 10**9, "disk_bytes": 10**12, "iops": 10, "bandwidth_bits": 10**9, "gpus": 0.5,
        "ports": 0, "custom": {},
    }  # fmt: skip

    assert problem(admin("DELETE", "/v1/tiers/huge")) == Said(409, "tier-in-use")
    admin("PATCH", "/v1/plans/unlimited", {"tiers": None})
    assert admin("DELETE", "/v1/tiers/huge").status_code == 204
    assert problem(admin("DELETE", "/v1/tiers/huge")) == Said(404, "not-found")


def test_a_new_tier_is_open_to_a_plan_without_a_list_of_tiers_and_may_be_removed_again(
    served: Served, admin: Admin
) -> None:
    assert admin("GET", "/v1/plans/unlimited").json()["tiers"] is None, "the plan unlimited has none as it comes"
    admin("PUT", "/v1/tiers/odd", {"cpu": 0.1, "memory": "16M"})
    assert accepted(served, tier="odd")["tier"] == "odd"
    assert admin("DELETE", "/v1/tiers/odd").status_code == 204
    listed = admin("PATCH", "/v1/plans/unlimited", {"tiers": ["basic"]})
    assert listed.json()["tiers"] == ["basic"]
    assert admin("PATCH", "/v1/plans/unlimited", {"tiers": None}).json()["tiers"] is None


def test_a_plain_task_gets_a_quarter_of_a_cpu(served: Served, admin: Admin) -> None:
    assert accepted(served)["resources"]["cpu"] == 0.25


def test_a_plan_says_how_the_cpu_of_its_tasks_is_held_and_a_task_shows_it(served: Served, admin: Admin) -> None:
    wrong = admin("PATCH", "/v1/plans/business", {"cpu_limit": "most"})
    assert problem(wrong) == Said(422, "out-of-range", (("/cpu_limit", "out-of-range"),))
    name, _ = served.add_tenant("business")
    token = served.add_token(name)
    assert served.send("GET", "/v1/me", token=token).json()["plan"]["cpu_limit"] is None
    for given, got in ((None, "burst"), ("quota", "quota"), (None, "burst"), ("quota", "quota")):
        assert admin("PATCH", "/v1/plans/business", {"cpu_limit": given}).json()["cpu_limit"] == given
        until = time.monotonic() + PATIENCE_SECONDS
        while served.send("GET", "/v1/me", token=token).json()["plan"]["cpu_limit"] != given:
            assert time.monotonic() < until
            time.sleep(0.05)
        task = served.submit(token)
        assert served.send("GET", f"/v1/tasks/{task}", token=token).json()["cpu_limit"] == got
    refused = served.send("POST", "/v1/tasks", {"command": ["x"], "cpu_limit": "burst"}, token=token)
    assert problem(refused) == Said(422, "cpu-limit-not-allowed", (("/cpu_limit", "cpu-limit-not-allowed"),))


def test_the_tier_of_tasks_that_name_none_stays(admin: Admin) -> None:
    assert problem(admin("DELETE", "/v1/tiers/basic")) == Said(409, "tier-in-use")


@pytest.mark.parametrize(
    ("name", "body", "faults"),
    [
        ("new", {}, (("/cpu", "missing-field"), ("/memory", "missing-field"))),
        ("new", {"cpu": 0, "memory": "lots"}, (("/cpu", "out-of-range"), ("/memory", "out-of-range"))),
        ("basic", {"iops": "fast", "gpus": -1}, (("/iops", "out-of-range"), ("/gpus", "out-of-range"))),
        ("basic", {"gpu": 1}, (("/gpu", "unknown-field"),)),
        ("basic", {"gpus": 0.5}, (("/gpus", "invalid-type"),)),
        ("Bad", {"cpu": 1, "memory": "1G"}, (("/name", "invalid-name"),)),
    ],
)
def test_a_bad_tier_is_refused_field_by_field(admin: Admin, name: str, body: Any, faults: Any) -> None:
    before = admin("GET", "/v1/tiers").json()
    assert problem(admin("PUT", f"/v1/tiers/{name}", body)) == Said(422, faults[0][1], faults)
    assert admin("GET", "/v1/tiers").json() == before


# ---- categories ----------------------------------------------------------------------------------------------------


def test_a_task_says_who_gave_its_tolerance_and_the_usual_run_time_gives_none(served: Served, admin: Admin) -> None:
    name, number = served.add_tenant("free")
    token = served.add_token(name)
    assert served.send("GET", "/v1/me", token=token).json()["plan"]["tolerance_seconds"] == 3600

    def submitted(**fields: Any) -> dict[str, Any]:
        task = served.submit(token, **fields)
        shown = dict(served.send("GET", f"/v1/tasks/{task}", token=token).json())
        asked = served.send("GET", f"/v1/tasks/{task}/why", token=token).json()
        for field in ("tolerance_seconds", "tolerance_source", "start_by"):
            assert asked[field] == shown[field]
        preview = served.send("POST", "/v1/tasks/preview", {"command": ["true"], **fields}, token=token).json()
        (group,) = preview["groups"]
        assert (group["tolerance_seconds"], group["tolerance_source"]) == (
            shown["tolerance_seconds"],
            shown["tolerance_source"],
        )
        return shown

    def seconds(task: dict[str, Any]) -> float:
        moments = (datetime.fromisoformat(task[field]) for field in ("start_by", "created_at"))
        return next(moments).timestamp() - next(moments).timestamp()

    served.ask(
        "insert into run_times (tenant, work, typical_us) values ($1, $2, 2500) returning tenant",
        number,
        work_hash(Kind.COMMAND, "true"),
    )
    for fields, whole, source in (
        ({}, 3600, "plan"),
        ({"tolerance": "5m"}, 300, "given"),
        ({"cap": "10s"}, 300, "cap"),
    ):
        task = submitted(**fields)
        assert (task["tolerance_seconds"], task["tolerance_source"]) == (whole, source)
        assert seconds(task) == pytest.approx(whole)
    ordered = accepted_order(served, number)
    assert ordered < 3600, "usually short work comes first among equals"

    plain = submitted()
    edited = served.send(
        "PATCH", f"/v1/tasks/{plain['id']}", {"tolerance": "20m", "version": plain["version"]}, token=token
    ).json()
    assert (edited["tolerance_seconds"], edited["tolerance_source"]) == (1200, "given")
    assert seconds(edited) == pytest.approx(1200)
    assert edited["edits"][0]["changes"]["tolerance_seconds"] == [3600, 1200]


def accepted_order(served: Served, tenant: int) -> float:
    """How long after its submission the tenant's first task is ordered, once admission knows the usual run time."""
    token = served.add_token(served.ask("select name from tenants where id = $1", tenant)[0][0])
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        task = served.submit(token)
        (row,) = served.ask("select tolerance_ms, leeway_ms from tasks where id = $1", task)
        assert row[0] + row[1] == 3_600_000
        if row[1] or time.monotonic() > until:
            return float(row[0] / 1000)
        time.sleep(0.1)


def test_a_plan_gives_the_default_tolerance_or_none(served: Served, admin: Admin) -> None:
    wrong = admin("PATCH", "/v1/plans/business", {"tolerance": "400d"})
    assert problem(wrong) == Said(422, "out-of-range", (("/tolerance", "out-of-range"),))
    name, _ = served.add_tenant("business")
    token = served.add_token(name)
    for given, whole, source in (("90s", 90, "plan"), (None, None, "none"), ("1h", 3600, "plan")):
        assert admin("PATCH", "/v1/plans/business", {"tolerance": given}).json()["tolerance_seconds"] == whole
        until = time.monotonic() + PATIENCE_SECONDS
        while served.send("GET", "/v1/me", token=token).json()["plan"]["tolerance_seconds"] != whole:
            assert time.monotonic() < until
            time.sleep(0.05)
        task = served.send("GET", f"/v1/tasks/{served.submit(token)}", token=token).json()
        assert (task["tolerance_seconds"], task["tolerance_source"]) == (whole, source)
        assert (task["start_by"] is None) == (whole is None)


def test_a_category_gives_tasks_their_tolerance_lane_and_cap(served: Served, admin: Admin) -> None:
    made = admin("PUT", "/v1/categories/report", {"tolerance": "2h", "lane": "off-peak", "cap": "10m"})
    assert (made.status_code, made.json()) == (
        201,
        {"name": "report", "tolerance_seconds": 7200, "lane": "off-peak", "cap_seconds": 600, "isolation": None},
    )
    task = accepted(served, category="report")
    assert (task["category"], task["lane"], task["tolerance_seconds"], task["cap_seconds"]) == (
        "report", "off-peak", 7200, 600,
    )  # fmt: skip
    (row,) = served.ask("select category, tolerance_given, urgent_at is not null from tasks where id = $1", task["id"])
    assert row == ("report", True, True)

    forgot = admin("PUT", "/v1/categories/report", {"tolerance": None})
    assert (forgot.status_code, forgot.json()["tolerance_seconds"], forgot.json()["lane"]) == (200, None, "off-peak")
    assert admin("DELETE", "/v1/categories/report").status_code == 204
    assert problem(admin("DELETE", "/v1/categories/report")) == Said(404, "not-found")
    assert served.send("GET", f"/v1/tasks/{task['id']}").json()["category"] == "report"


def test_a_categorys_isolation_is_that_of_its_tasks_and_only_one_that_exists(served: Served, admin: Admin) -> None:
    bogus = admin("PUT", "/v1/categories/kept-apart", {"isolation": "bogus"})
    assert problem(bogus) == Said(422, "out-of-range", (("/isolation", "out-of-range"),))
    made = admin("PUT", "/v1/categories/kept-apart", {"isolation": "sandbox"})
    assert (made.status_code, made.json()["isolation"]) == (201, "sandbox")
    assert accepted(served, category="kept-apart")["spec"]["isolation"] == "sandbox"
    own = accepted(served, category="kept-apart", isolation="none")
    assert "isolation" not in own["spec"], "the task's own choice comes first"
    assert admin("PUT", "/v1/categories/kept-apart", {"isolation": None}).json()["isolation"] is None
    assert admin("DELETE", "/v1/categories/kept-apart").status_code == 204


def test_a_bad_category_is_refused_and_an_unknown_one_named(served: Served, admin: Admin) -> None:
    body = {"tolerance": -1, "lane": "fast", "cap": "0s", "isolation": "Very!"}
    assert problem(admin("PUT", "/v1/categories/bad", body)) == Said(
        422, "out-of-range",
        (("/tolerance", "out-of-range"), ("/cap", "out-of-range"), ("/lane", "unknown-lane"),
         ("/isolation", "out-of-range")),
    )  # fmt: skip
    answer = served.send("POST", "/v1/tasks", {"command": ["true"], "category": "no-such"})
    assert problem(answer) == Said(422, "unknown-category", (("/category", "unknown-category"),))


# ---- lanes ---------------------------------------------------------------------------------------------------------


def test_an_operators_lane_is_listed_used_and_changed(served: Served, admin: Admin) -> None:
    made = admin("POST", "/v1/lanes", {"name": "batch", "level": 2, "gated": True, "promotes": False})
    lane = made.json()
    assert (made.status_code, lane["name"], lane["level"], lane["gated"], lane["promotes"]) == (
        201, "batch", 2, True, False,
    )  # fmt: skip
    assert problem(admin("POST", "/v1/lanes", {"name": "batch"})) == Said(409, "lane-exists")
    assert problem(admin("POST", "/v1/lanes", {"name": "other", "number": lane["number"]})) == Said(409, "lane-exists")
    task = accepted(served, lane="batch", tolerance="1h")
    assert task["lane"] == "batch"
    assert served.ask("select lane, wake_at from queue where id = $1", task["id"]) == [(lane["number"], None)]
    assert "batch" in {one["lane"] for one in served.send("GET", "/v1/tasks").json()["tasks"]}
    served.send("POST", f"/v1/tasks/{task['id']}/cancel")
    assert served.send("GET", f"/v1/tasks/{task['id']}").json()["lane"] == "batch"
    ended = served.send("GET", "/v1/tasks?state=cancelled").json()["tasks"]
    assert "batch" in {one["lane"] for one in ended}

    assert admin("PATCH", "/v1/lanes/batch", {"gated": False}).json() == {**lane, "gated": False}
    names = [one["name"] for one in served.send("GET", "/v1/lanes").json()["lanes"]]
    assert names[:3] == ["urgent", "normal", "periodic"]
    assert set(names) >= {"off-peak", "batch"}


def test_bad_lanes_are_refused_and_urgent_stays_what_others_are_promoted_to(admin: Admin) -> None:
    body = {"name": "No", "number": -1, "level": 5000}
    assert problem(admin("POST", "/v1/lanes", body)) == Said(
        422, "invalid-name", (("/name", "invalid-name"), ("/number", "out-of-range"), ("/level", "out-of-range"))
    )
    for change in ({"gated": True}, {"level": 1}):
        field = next(iter(change))
        refused = Said(422, "out-of-range", ((f"/{field}", "out-of-range"),))
        assert problem(admin("PATCH", "/v1/lanes/urgent", change)) == refused
    assert problem(admin("PATCH", "/v1/lanes/none", {})) == Said(404, "not-found")


# ---- pools ---------------------------------------------------------------------------------------------------------


def test_a_pool_is_made_with_its_rules_and_changed(served: Served, admin: Admin) -> None:
    made = admin("POST", "/v1/pools", {"name": "render", "peak_percent": 70, "running_tasks": 10})
    pool = made.json()
    assert made.status_code == 201
    assert {**pool, "id": 0} == {
        "id": 0, "name": "render", "elastic": False, "peak_percent": 70, "urgent_kept_percent": 10, "running_tasks": 10,
        "paused": False, "identified_nodes": False, "isolations": ["none", "sandbox", "container"],
    }  # fmt: skip
    changed = {**pool, "elastic": True, "urgent_kept_percent": 0, "running_tasks": None}
    wanted = {"elastic": True, "urgent_kept_percent": 0, "running_tasks": None}
    assert admin("PATCH", "/v1/pools/render", wanted).json() == changed
    assert served.send("GET", "/v1/pools/render").json() == changed
    assert "render" in [one["name"] for one in served.send("GET", "/v1/pools").json()["pools"]]
    assert problem(admin("POST", "/v1/pools", {"name": "render"})) == Said(409, "pool-exists")
    assert problem(served.send("GET", "/v1/pools/none")) == Said(404, "not-found")
    assert accepted(served, pool="render", cpu=5000)["pool"] == "render"  # elastic: a node for it may come


def test_bad_pools_are_refused(admin: Admin) -> None:
    body = {"name": "P", "peak_percent": 0, "urgent_kept_percent": 99, "running_tasks": 0}
    assert problem(admin("POST", "/v1/pools", body)) == Said(
        422, "invalid-name",
        (("/name", "invalid-name"), ("/peak_percent", "out-of-range"), ("/urgent_kept_percent", "out-of-range"),
         ("/running_tasks", "out-of-range")),
    )  # fmt: skip
    assert problem(admin("PATCH", "/v1/pools/default", {"peak_percent": 101})).status == 422


def test_what_was_just_defined_can_be_named_at_once(served: Served, admin: Admin) -> None:
    for number in range(3):
        admin("POST", "/v1/pools", {"name": f"quick-{number}", "elastic": True})
        admin("PUT", f"/v1/categories/quick-{number}", {"cap": "1m"})
        admin("POST", "/v1/lanes", {"name": f"quick-{number}"})
        accepted_at_once(served, pool=f"quick-{number}", category=f"quick-{number}", lane=f"quick-{number}")


# ---- plans ---------------------------------------------------------------------------------------------------------


def test_a_plan_limits_running_tasks_and_the_urgent_share(admin: Admin) -> None:
    changed = admin("PATCH", "/v1/plans/free", {"running_tasks": 5, "urgent_percent": 25}).json()
    assert (changed["running_tasks"], changed["urgent_percent"]) == (5, 25)
    bad = admin("PATCH", "/v1/plans/free", {"running_tasks": 0, "urgent_percent": 101})
    faults = (("/running_tasks", "out-of-range"), ("/urgent_percent", "out-of-range"))
    assert problem(bad) == Said(422, "out-of-range", faults)
    lifted = admin("PATCH", "/v1/plans/free", {"running_tasks": None, "urgent_percent": 50}).json()
    assert lifted["running_tasks"] is None


ADD: dict[str, Callable[[int], tuple[str, str, dict[str, Any]]]] = {
    "schedules": lambda n: (
        "POST",
        "/v1/schedules",
        {"name": f"s{n}", "daily": "02:30", "task": {"command": ["true"]}},
    ),
    "webhooks": lambda n: ("POST", "/v1/webhooks", {"url": f"https://93.184.215.14/{n}"}),
    "secrets": lambda n: ("PUT", f"/v1/secrets/S{n}", {"value": "hush hush"}),
    "graphs": lambda n: (
        "POST",
        "/v1/graphs",
        {"name": f"g{n}", "tasks": [{"ref": "a", "command": ["true"], "delay": "1h"}]},
    ),
}


def add_many(served: Served, token: str, what: str, numbers: range) -> list[httpx.Response]:
    """All at once."""

    def add(number: int) -> httpx.Response:
        method, path, body = ADD[what](number)
        return served.send(method, path, body, token=token)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(add, numbers))


@pytest.mark.parametrize("what", ADD)
def test_a_plan_limits_how_many_a_tenant_has_however_many_are_added_at_once(
    served: Served, admin: Admin, what: str
) -> None:
    shipped = admin("GET", "/v1/plans/free").json()[what]
    name, _ = served.add_tenant("free")
    token = served.add_token(name)
    assert admin("PATCH", "/v1/plans/free", {what: 3}).json()[what] == 3
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while served.send("GET", "/v1/me", token=token).json()["plan"][what] != 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        answers = add_many(served, token, what, range(8))
        assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * 5, answers[0].text
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert problem(refused) == Said(429, "quota-exceeded")
        assert (refused.json()["limit"], refused.json()["most"]) == (what, 3)
        assert refused.json()["detail"].startswith(f"plan free allows 3 {what}; ")
        me = served.send("GET", "/v1/me", token=token).json()
        assert (me["plan"][what], me["usage"][what]) == (3, 3)
        if what == "secrets":  # a new value is not a new secret
            kept = next(n for n, answer in enumerate(answers) if answer.status_code == 201)
            assert add_many(served, token, what, range(kept, kept + 1))[0].status_code == 200
    finally:
        admin("PATCH", "/v1/plans/free", {what: shipped})


def test_a_plan_limits_the_valid_tokens_of_a_tenant(served: Served, admin: Admin) -> None:
    name, _ = served.add_tenant("free")

    def add(_: int = 0) -> httpx.Response:
        return admin("POST", "/v1/tokens", {"tenant": name, "user": "ann"})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(add, range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [429] * 2
    assert problem(add()) == Said(429, "quota-exceeded")
    made = next(answer for answer in answers if answer.status_code == 201).json()
    assert admin("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert add().status_code == 201


def test_every_shipped_plan_but_unlimited_limits_numbers_and_bytes(admin: Admin) -> None:
    plans = {plan["name"]: plan for plan in admin("GET", "/v1/plans").json()["plans"]}
    for what in ("schedules", "webhooks", "tokens", "secrets", "graphs", "storage_bytes"):
        sizes = [plans[name][what] for name in ("free", "standard", "business")]
        assert all(sizes), what
        assert sizes == sorted(sizes)
    bad = admin("PATCH", "/v1/plans/free", {"webhooks": 0, "graphs": -1})
    assert problem(bad) == Said(422, "out-of-range", (("/webhooks", "out-of-range"), ("/graphs", "out-of-range")))


# ---- what a task asks for ------------------------------------------------------------------------------------------


def test_a_task_that_fits_nowhere_is_refused_with_what_is_short_unless_it_waits(served: Served) -> None:
    body = {"command": ["true"], "pool": "small", "iops": "5k"}
    refused = served.send("POST", "/v1/tasks", body)
    assert problem(refused) == Said(422, "unsatisfiable", (("", "unsatisfiable"),))
    assert "5000 disk operations per second, none has any" in refused.json()["detail"]
    waiting = accepted(served, pool="small", iops="5k", unplaceable="wait", preemptible=True)
    assert (waiting["state"], waiting["unplaceable"], waiting["preemptible"]) == ("ready", "wait", True)
    assert waiting["resources"]["iops"] == 5000
    assert served.ask("select preemptible from queue where id = $1", waiting["id"]) == [(True,)]


def test_a_retried_task_keeps_its_category_and_its_flags(served: Served, admin: Admin) -> None:
    admin("PUT", "/v1/categories/kept", {"cap": "1m"})
    task = accepted(served, category="kept", preemptible=True, unplaceable="wait")["id"]
    served.send("POST", f"/v1/tasks/{task}/cancel")
    again = served.send("POST", f"/v1/tasks/{task}/retry").json()["id"]
    document = served.send("GET", f"/v1/tasks/{again}").json()
    assert (document["category"], document["preemptible"], document["unplaceable"]) == ("kept", True, "wait")
    assert served.ask("select preemptible from queue where id = $1", again) == [(True,)]


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_a_node_is_drained_and_undrained_by_name_or_number_by_operators_too(served: Served) -> None:
    operator = served.tokens["operator"]
    node = served.send("GET", "/v1/nodes/n").json()
    assert (node["name"], node["state"], node["free"], node["running"]) == ("n", "up", None, None)
    for _ in range(2):  # twice is once
        drained = served.send("POST", "/v1/nodes/n/drain", token=operator)
        assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    assert drained.json()["drain_by"] is None
    limited = served.send("POST", "/v1/nodes/n/drain", {"deadline": "10m"}, token=operator).json()
    assert datetime.fromisoformat(limited["drain_by"]) > datetime.now(UTC)
    for wrong, code in (("soon", "invalid-duration"), ("31d", "out-of-range"), (-1, "out-of-range")):
        refused = problem(served.send("POST", "/v1/nodes/n/drain", {"deadline": wrong}, token=operator))
        assert (refused.status, refused.faults) == (422, (("/deadline", code),))
    assert served.send("POST", "/v1/nodes/n/drain", token=operator).json()["drain_by"] is None  # the last word counts
    up = served.send("POST", f"/v1/nodes/{node['id']}/undrain", token=operator).json()
    assert (up["state"], up["drain_by"]) == ("up", None)
    assert problem(served.send("POST", "/v1/nodes/none/drain", token=operator)) == Said(404, "not-found")
    assert problem(served.send("POST", "/v1/nodes/n/drain")) == Said(403, "missing-scope")
    assert problem(served.send("POST", "/v1/nodes/n/reload")) == Said(403, "missing-scope")
    assert problem(served.send("POST", "/v1/nodes/none/reload", token=operator)) == Said(404, "not-found")


def test_a_node_that_is_away_is_removed_and_one_that_is_up_is_not(served: Served) -> None:
    operator = served.tokens["operator"]
    served.ask(
        """insert into nodes (pool, name, boot, capacity, labels, capabilities, version)
            values (1, 'old', 1, '{}', '{}', '{}', 'test') returning id"""
    )

    def away(text: str) -> None:
        served.ask(f"update nodes set {text} where name = 'old' returning id")

    def listed(query: str = "") -> list[str]:
        found = served.send("GET", f"/v1/nodes{query}", token=operator).json()["nodes"]
        return [node["state"] for node in found if node["name"] == "old"]

    for state in ("up", "draining"):
        away(f"state = '{state}'")
        refused = served.send("DELETE", "/v1/nodes/old", token=operator)
        assert problem(refused) == Said(409, "node-up")
        assert refused.json()["detail"].startswith(f"node old is {state}: stop its worker first")
    away("seen_at = now() - interval '25 hours'")
    assert (listed(), listed("?all=true")) == ([], ["lost"]), "only asked for, it is listed after a day"
    assert served.send("GET", "/v1/nodes?all=maybe", token=operator).status_code == 422
    away("seen_at = now(), left_at = now()")
    assert listed() == ["left"]
    assert problem(served.send("DELETE", "/v1/nodes/old")) == Said(403, "missing-scope")
    assert served.send("DELETE", "/v1/nodes/old", token=operator).status_code == 204
    assert listed("?all=true") == []
    assert problem(served.send("DELETE", "/v1/nodes/old", token=operator)) == Said(404, "not-found")
    assert problem(served.send("DELETE", "/v1/nodes/none", token=operator)) == Said(404, "not-found")
    question = "select count(*) from audit_log where action = 'node.remove' and object_id = 'default/old'"
    assert served.ask(question) == [(1,)]


# ---- isolation ------------------------------------------------------------------------------------------------------


def test_walls_follow_from_trust_the_pool_and_the_plan(served: Served, admin: Admin) -> None:
    name, _ = served.add_tenant(plan="free")
    token = served.add_token(name)
    assert admin("PATCH", f"/v1/tenants/{name}", {"trusted": False}).json()["trusted"] is False
    pool = {"name": "walled", "elastic": True}
    assert admin("POST", "/v1/pools", pool).status_code == 201
    body = {"command": ["true"], "pool": "walled"}
    task = served.send("POST", "/v1/tasks", body, token=token).json()
    assert served.send("GET", f"/v1/tasks/{task['id']}", token=token).json()["require"] == {"rota/sandbox": "yes"}
    assert problem(served.send("POST", "/v1/tasks", body | {"isolation": "none"}, token=token)) == Said(
        422, "isolation-not-allowed", (("/isolation", "isolation-not-allowed"),)
    )
    assert problem(served.send("POST", "/v1/tasks", body | {"network": True}, token=token)) == Said(
        422, "network-not-allowed", (("/network", "network-not-allowed"),)
    )
    assert admin("PATCH", "/v1/pools/walled", {"isolations": ["sandbox"]}).json()["isolations"] == ["sandbox"]
    until = time.monotonic() + 20
    while (refused := served.send("POST", "/v1/tasks", body | {"isolation": "none"})).status_code == 201:
        assert time.monotonic() < until, "every node knows within a second or so, also for trusted tenants"
    assert problem(refused) == Said(422, "isolation-not-allowed", (("/isolation", "isolation-not-allowed"),))
    assert problem(admin("PATCH", "/v1/pools/walled", {"isolations": ["glass"]})).status == 422
    assert problem(admin("PATCH", f"/v1/tenants/{name}", {"plan": "gold"})).status == 422
    assert problem(admin("PATCH", "/v1/tenants/nobody", {"trusted": True})) == Said(404, "not-found")
