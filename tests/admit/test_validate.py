"""The meaning of a request: defaults, derived values, and every fault at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rota.admit.drafts import draft_batch
from rota.admit.judge.facts import Facts, PoolFacts
from rota.admit.judge.validate import Validator
from rota.model.catalogue import DEFAULT_LANES, Category, LaneRule, Tier
from rota.model.errors import Fault
from rota.model.queue import work_hash
from rota.model.request.task_request import TaskRequest
from rota.model.resources import Resources
from rota.model.task import Kind, Lane
from rota.model.tenant import Plan
from rota.model.tolerance import ToleranceSource, whole_ms
from rota.store.task_rows import Template

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLAN = Plan(
    name="p", tasks_per_hour=None, burst=None, waiting_tasks=None, running_cpu_milli=None, running_memory_bytes=None,
    longest_cap_seconds=3600, tiers=("basic",), weight=1,
)  # fmt: skip
TIERS = {"basic": Tier("basic", 1000, 256_000_000, 10**9), "regular": Tier("regular", 2000, 2 * 10**9, 10**10)}
NODE = (Resources(cpu_milli=4000, memory_bytes=8 * 10**9, disk_bytes=10**11), {"zone": "a"})
POOLS = {
    "default": PoolFacts(1, "default", False, (NODE,)),
    "empty": PoolFacts(2, "empty", False, ()),
    "elastic": PoolFacts(3, "elastic", True, (NODE,)),
}
LANES = {lane.name: lane for lane in (*DEFAULT_LANES, LaneRule(4, "batch", level=2, gated=True, promotes=False))}
CATEGORIES = {
    "report": Category("report", tolerance_ms=600_000, lane="off-peak", cap_ms=120_000),
    "mail": Category("mail", cap_ms=10_000),
}
FACTS = Facts(NOW, PLAN, TIERS, POOLS, LANES, CATEGORIES, trusted=True)


def meaning(**fields: object) -> Template:
    validator = Validator(FACTS)
    template = validator.template(TaskRequest(**{"command": ["true"], **fields}), "")  # type: ignore[arg-type]
    assert validator.faults == []
    assert template is not None
    return template


def faults(**fields: object) -> list[tuple[str, str]]:
    validator = Validator(FACTS)
    validator.template(TaskRequest(**fields), "")  # type: ignore[arg-type]
    return [(fault.pointer, fault.code) for fault in validator.faults]


def test_a_bare_command_gets_the_basic_tier_the_plans_longest_cap_and_an_hours_tolerance() -> None:
    template = meaning(command=["/usr/bin/sort", "-u"])
    assert (template.kind, template.name, template.tier, template.lane) == (Kind.COMMAND, "sort", "basic", Lane.NORMAL)
    assert template.shape.resources == Resources(cpu_milli=1000, memory_bytes=256_000_000, disk_bytes=10**9)
    assert (template.cap_ms, template.tolerance_ms, template.tolerance_given) == (3_600_000, 3_600_000, False)
    assert (template.attempts, template.backoff_ms, template.backoff_limit_ms) == (1, 1000, 300_000)


def test_an_explicit_resource_overrides_its_tiers() -> None:
    assert meaning(memory="1G", cpu="500m").shape.resources == Resources(
        cpu_milli=500, memory_bytes=10**9, disk_bytes=10**9
    )


def test_a_tolerance_follows_from_a_cap_and_a_given_one_is_marked() -> None:
    derived, given = meaning(cap="10s"), meaning(cap="10s", tolerance="1m")
    assert (derived.tolerance_ms, derived.tolerance_given) == (300_000, False)
    assert (given.tolerance_ms, given.tolerance_given) == (60_000, True)


@pytest.mark.parametrize(
    ("plan_ms", "request_fields", "source", "whole"),
    [
        (3_600_000, {"tolerance": "1m", "category": "report", "cap": "5s"}, ToleranceSource.GIVEN, 60_000),
        (3_600_000, {"category": "report", "cap": "5s"}, ToleranceSource.CATEGORY, 600_000),
        (3_600_000, {"cap": "5s"}, ToleranceSource.CAP, 150_000),
        (3_600_000, {"category": "mail"}, ToleranceSource.CAP, 300_000),
        (3_600_000, {}, ToleranceSource.PLAN, 3_600_000),
        (60_000, {}, ToleranceSource.PLAN, 60_000),
        (0, {}, ToleranceSource.PLAN, 0),
        (None, {}, ToleranceSource.NONE, None),
    ],
)
@pytest.mark.parametrize("typical_us", [None, 2_500, 10**9])
def test_a_tolerance_is_given_or_the_categorys_or_by_a_given_cap_or_the_plans_and_never_by_usual_run_times(
    plan_ms: int | None, request_fields: dict[str, str], source: ToleranceSource, whole: int | None, typical_us: int
) -> None:
    typical = {} if typical_us is None else {work_hash(Kind.COMMAND, "true"): typical_us}
    facts = replace(FACTS, plan=replace(PLAN, tolerance_ms=plan_ms), typical_us=typical)
    template = Validator(facts).template(TaskRequest(command=["true"], **request_fields), "")  # type: ignore[arg-type]
    assert template is not None
    assert (template.tolerance_source, whole_ms(template.tolerance_ms, template.leeway_ms)) == (source, whole)


@pytest.mark.parametrize(("typical_us", "sooner_ms"), [(2_000_000, 1_740_000), (10**9, 0), (7, 1_800_000)])
def test_with_nothing_given_usually_short_work_is_ordered_first_by_at_most_half_of_the_plans_tolerance(
    typical_us: int, sooner_ms: int
) -> None:
    tolerance_ms = 3_600_000 - sooner_ms
    facts = replace(FACTS, typical_us={work_hash(Kind.COMMAND, "sort"): typical_us})
    known, other, capped = (
        Validator(facts).template(request, "")
        for request in (
            TaskRequest(command=["sort"]), TaskRequest(command=["uniq"]), TaskRequest(command=["sort"], cap="10s"),
        )
    )  # fmt: skip
    assert known is not None
    assert other is not None
    assert capped is not None
    assert (known.tolerance_ms, known.leeway_ms, known.tolerance_given) == (tolerance_ms, sooner_ms, False)
    assert (other.tolerance_ms, capped.tolerance_ms) == (3_600_000, 300_000)


def test_a_category_stands_in_for_tolerance_lane_and_cap() -> None:
    report = meaning(category="report")
    assert (report.category, report.lane, report.cap_ms) == ("report", Lane.OFF_PEAK, 120_000)
    assert (report.tolerance_ms, report.tolerance_given) == (600_000, True)
    own = meaning(category="report", tolerance="1m", lane="urgent", cap="5s")
    assert (own.lane, own.cap_ms, own.tolerance_ms) == (Lane.URGENT, 5_000, 60_000)


def test_a_categorys_cap_gives_a_tolerance_that_orders_but_does_not_promote() -> None:
    mail = meaning(category="mail")
    assert (mail.cap_ms, mail.tolerance_ms, mail.tolerance_given, mail.lane) == (10_000, 300_000, False, Lane.NORMAL)


def test_a_categorys_cap_never_exceeds_the_plans() -> None:
    facts = replace(FACTS, categories={"long": Category("long", cap_ms=10**9)})
    template = Validator(facts).template(TaskRequest(command=["x"], category="long"), "")
    assert template is not None
    assert template.cap_ms == 3_600_000


def test_operators_lanes_are_known_by_name_and_one_that_does_not_promote_never_does() -> None:
    batch = meaning(lane="batch", tolerance="1m")
    assert (batch.lane, batch.tolerance_ms, batch.tolerance_given) == (4, 60_000, False)


def test_disk_operations_bandwidth_and_gpus_are_asked_for_in_human_units() -> None:
    asked = meaning(iops="5k", bandwidth="100M", gpus=2, pool="elastic").shape.resources
    assert (asked.iops, asked.bandwidth_kbit, asked.gpus, asked.gpu_milli) == (5000, 100_000, 2, 0)
    half = meaning(gpus=0.5, pool="elastic").shape.resources
    assert (half.gpus, half.gpu_milli) == (0, 500)


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (1.5, "neither whole GPUs"),
        (0.0005, "finer than a thousandth"),
        (-1, "gpus is a number from 0 to"),
        (-0.5, "neither whole"),
    ],
)
def test_gpus_are_whole_or_a_fraction_of_one(gpus: float, said: str) -> None:
    validator = Validator(FACTS)
    validator.template(TaskRequest(command=["x"], gpus=gpus), "")
    assert [(fault.pointer, fault.code) for fault in validator.faults] == [("/gpus", "out-of-range")]
    assert said in validator.faults[0].detail


def test_each_amount_of_a_tier_is_overridden_by_itself() -> None:
    tier = Tier("basic", 1000, 10**9, 10**9, iops=100, gpus=1, bandwidth_kbit=1000)
    facts = replace(FACTS, tiers={"basic": tier}, pools={"default": POOLS["elastic"]})
    template = Validator(facts).template(TaskRequest(command=["x"], iops=7, gpus=0), "")
    assert template is not None
    assert template.shape.resources == Resources(
        cpu_milli=1000, memory_bytes=10**9, disk_bytes=10**9, iops=7, gpus=0, bandwidth_kbit=1000
    )


def test_a_task_may_be_preempted_if_it_asks_for_it() -> None:
    assert (meaning().preemptible, meaning(preemptible=True).preemptible) == (False, True)


def test_a_first_backoff_above_the_default_limit_raises_the_limit() -> None:
    assert meaning(backoff="10m").backoff_limit_ms == 600_000


def test_a_time_in_the_past_means_now_and_a_delay_counts_from_the_databases_clock() -> None:
    assert meaning(at="2029-12-31T00:00:00Z").not_before is None
    assert meaning(at="2030-01-01T14:00:00+01:00").not_before == NOW + timedelta(hours=1)
    assert meaning(delay="10m").not_before == NOW + timedelta(minutes=10)
    assert meaning(delay=0).not_before is None


def test_a_concurrency_key_lets_one_task_run_by_default() -> None:
    assert meaning(concurrency_key="k").concurrency_limit == 1
    assert meaning(concurrency_key="k", concurrency_limit=5).concurrency_limit == 5


def test_names_come_from_what_runs() -> None:
    assert meaning(command=None, function="shop.mail:send").name == "send"
    assert meaning(command=None, path="/opt/run.sh").name == "run.sh"
    assert meaning(command=None, script="echo").name == "script"
    assert meaning(name="mine").name == "mine"


def test_functions_named_by_their_refs_are_the_same_work_and_those_with_own_names_are_not() -> None:
    plain = meaning(command=None, function="etl.steps:load")
    placed = meaning(command=None, function="etl.steps:load", name="load-7", ref="load-7")
    own = meaning(command=None, function="etl.steps:load", name="yearly", ref="load-8")
    assert plain.work == placed.work == work_hash(Kind.FUNCTION, "load")
    assert own.work == work_hash(Kind.FUNCTION, "yearly")
    command = meaning(command=["python"], name="extract", ref="extract")
    assert command.work == work_hash(Kind.COMMAND, "extract")


def test_a_refusal_names_only_what_no_node_has_or_that_none_has_all_of_it() -> None:
    other = (NODE[0], {"disk": "ssd"})
    facts = replace(FACTS, pools={"default": PoolFacts(1, "default", False, (NODE, other))})

    def said(**require: str) -> str:
        validator = Validator(facts)
        validator.template(TaskRequest(command=["x"], require=require), "")
        return validator.faults[0].detail

    assert said(zone="a", rack="7") == "no node of pool default has rack=7"
    assert said(zone="a", disk="ssd") == "no node of pool default has all of these: disk=ssd, zone=a"


def test_a_demand_no_present_node_could_meet_is_refused_unless_one_may_come() -> None:
    assert faults(command=["x"], cpu=5) == [("", "unsatisfiable")]
    assert faults(command=["x"], require={"zone": "b"}) == [("/require", "unsatisfiable")]
    assert faults(command=["x"], gpus=1) == [("", "unsatisfiable")]
    assert meaning(cpu=5, pool="empty").pool == 2
    assert meaning(cpu=5, pool="elastic").pool == 3


def test_a_mount_or_a_root_that_no_node_has_is_blamed_on_what_asked_for_it() -> None:
    node = (NODE[0], {"rota/mount-team": "tenant=acme", "rota/mount-open": "yes", "rota/rootfs-debian": "yes",
                      "rota/sandbox": "yes"})  # fmt: skip
    facts = replace(FACTS, pools={"default": PoolFacts(1, "default", False, (node,))}, tenant="beta")

    def judged(**asked: object) -> list[tuple[str, str]]:
        validator = Validator(facts)
        validator.template(TaskRequest(**{"command": ["x"], **asked}), "")  # type: ignore[arg-type]
        return [(fault.pointer, fault.detail) for fault in validator.faults]

    mount = ("/mounts", "no node of pool default has the mount nope; there are open")
    label = ("/require", "no node of pool default has zone=a")
    assert judged(mounts=["nope"]) == [mount], "team is none of its business"
    assert judged(mounts=["nope"], require={"zone": "a"}) == [mount, label]
    root = "no node of pool default has the root nope; there are rootfs:debian"
    assert judged(image="rootfs:nope") == [("/image", root)]


def test_a_mount_for_other_tenants_is_refused_and_its_own_is_required_of_the_node() -> None:
    private = (NODE[0], {"rota/mount-team": "tenant=acme,beta", "rota/mount-open": "yes"})
    pools = {"default": PoolFacts(1, "default", True, (private, NODE))}

    def judged(tenant: str, mount: str) -> tuple[Template | None, list[Fault]]:
        validator = Validator(replace(FACTS, pools=pools, tenant=tenant))
        return validator.template(TaskRequest(command=["x"], mounts=[mount]), ""), validator.faults

    template, _ = judged("beta", "team")
    assert template is not None
    assert template.shape.require == {"rota/mount-team": "tenant=beta"}
    assert '"owner":"beta"' in template.spec_head
    assert judged("gamma", "open")[1] == []
    [fault] = judged("gamma", "team")[1]
    assert (fault.pointer, fault.code) == ("/mounts", "mount-not-allowed")
    assert fault.detail == "the mount team of pool default is for other tenants; ask its operator"


def test_a_refusal_names_what_is_short() -> None:
    def said(**fields: object) -> str:
        validator = Validator(FACTS)
        validator.template(TaskRequest(command=["x"], **fields), "")  # type: ignore[arg-type]
        return validator.faults[0].detail

    assert said(cpu=5, iops="2k") == (
        "no node of pool default could ever hold it: it asks for 5 cores, the most that one has is 4; "
        "it asks for 2000 disk operations per second, none has any"
    )
    assert "it asks for 100M bandwidth, none has any" in said(bandwidth="100M")
    assert "it asks for 0.5 GPUs, none has any" in said(gpus=0.5)
    assert "it asks for 1 license, none has any" in said(custom={"license": 1})


def test_a_client_may_choose_to_wait_for_a_node_that_could_hold_it() -> None:
    assert meaning(cpu=5, unplaceable="wait").unplaceable_waits
    assert not meaning().unplaceable_waits


def test_what_a_plan_never_lets_run_is_refused_unless_its_client_waits_for_another_plan() -> None:
    plan = replace(PLAN, running_cpu_milli=1500, running_memory_bytes=10**9, tiers=("basic", "regular"))

    def judged(**fields: object) -> list[tuple[str, str, str]]:
        validator = Validator(replace(FACTS, plan=plan))
        validator.template(TaskRequest(command=["x"], **fields), "")  # type: ignore[arg-type]
        return [(fault.pointer, fault.code, fault.detail) for fault in validator.faults]

    assert judged(cpu=1.5, memory="1G") == []
    assert judged(cpu=2) == [("/cpu", "exceeds-plan", "it asks for 2 cores; plan p runs 1.5 at once, at most")]
    assert judged(tier="regular", cpu=1) == [
        ("/tier", "exceeds-plan", "it asks for 2G memory; plan p runs 1G at once, at most")
    ]
    assert judged(cpu=2, unplaceable="wait") == []


def test_a_plan_without_a_list_of_tiers_may_use_all_of_them() -> None:
    validator = Validator(replace(FACTS, plan=replace(PLAN, tiers=None)))
    assert validator.template(TaskRequest(command=["x"], tier="regular"), "") is not None
    assert faults(command=["x"], tier="regular") == [("/tier", "tier-not-allowed")]


def test_every_fault_is_reported_at_once() -> None:
    assert faults(
        command=[], name="a\nb", env={"LD_PRELOAD": "x", "1": "y"}, tier="huge", cpu=0, memory="5X", pool="nowhere",
        lane="fast", priority=10**9, tolerance=-1, cap=0, attempts=0, backoff="soon", at="tomorrow", upstream="maybe",
        concurrency_limit=3, tags={"": "x"}, custom={"a b": 1}, iops="much", bandwidth=-1, unplaceable="hope",
        category="none",
    ) == [
        ("/command", "invalid-command"), ("/name", "invalid-name"), ("/env/LD_PRELOAD", "reserved-env"),
        ("/env/1", "reserved-env"), ("/tier", "unknown-tier"), ("/cpu", "out-of-range"), ("/memory", "out-of-range"),
        ("/iops", "out-of-range"), ("/bandwidth", "out-of-range"), ("/custom", "out-of-range"),
        ("/pool", "unknown-pool"), ("/unplaceable", "out-of-range"), ("/category", "unknown-category"), ("/cap", "out-of-range"),
        ("/tolerance", "inconsistent-times"), ("/attempts", "out-of-range"), ("/backoff", "out-of-range"),
        ("/at", "invalid-time"), ("/lane", "unknown-lane"), ("/upstream", "out-of-range"),
        ("/priority", "out-of-range"), ("/concurrency_limit", "out-of-range"), ("/tags", "invalid-name"),
    ]  # fmt: skip


def test_equal_requests_of_a_batch_share_their_meaning_and_keep_their_arguments() -> None:
    batch = [TaskRequest(function="m:f", args=msgspec.Raw(b"[%d]" % n)) for n in range(3)]
    drafts = draft_batch(batch, FACTS, key=None, single=False)
    assert len({id(draft.template) for draft in drafts}) == 1
    assert [msgspec.json.decode(draft.spec) for draft in drafts] == [{"function": "m:f", "args": [n]} for n in range(3)]


def test_a_log_limit_is_the_tasks_own_within_the_plan_and_what_the_server_can_store() -> None:
    def judged(facts: Facts, **asked: object) -> tuple[object, list[str]]:
        validator = Validator(facts)
        template = validator.template(TaskRequest(**{"command": ["x"], **asked}), "")  # type: ignore[arg-type]
        spec = {} if template is None else msgspec.json.decode(template.spec_head + "}")
        return spec.get("log_limit"), [f"{fault.pointer}: {fault.detail}" for fault in validator.faults]

    assert judged(FACTS) == (None, [])
    assert judged(FACTS, log_limit="10Mi") == (10 * 2**20, [])
    limited = replace(FACTS, plan=replace(PLAN, log_limit_bytes=2**20))
    assert judged(limited) == (None, []), "as much as the server keeps by itself"
    assert judged(replace(limited, log_limit_bytes=2**21)) == (2**20, []), "the plan bounds the server's default too"
    too_much = "/log_limit: 2097152 bytes are more than the 1048576 that plan p keeps of an attempt's output"
    assert judged(limited, log_limit="2Mi") == (None, [too_much])
    no_store = replace(FACTS, most_log_bytes=2**25)
    (why,) = judged(no_store, log_limit="1Gi")[1]
    assert "need an object store" in why
    assert judged(no_store, log_limit="16Mi") == (2**24, [])
    for wrong in (0, 100, "2Ti", "much", -5):
        assert faults(command=["x"], log_limit=wrong) == [("/log_limit", "out-of-range")]
