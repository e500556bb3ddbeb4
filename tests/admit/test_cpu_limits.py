"""How the CPU of a task is held: what its client, its plan and the trust in its tenant say, and which nodes it needs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rota.admit.judge.facts import Facts, PoolFacts
from rota.admit.judge.validate import Validator
from rota.model.request.task_request import TaskRequest
from rota.model.resources import CpuLimit, unsaid_cpu_limit
from tests.admit.test_validate import FACTS, NODE, PLAN

CAPACITY, LABELS = NODE
BURST, QUOTA = CpuLimit.BURST, CpuLimit.QUOTA


def facts(plan_limit: CpuLimit | None = None, *, trusted: bool, enforced: bool = True) -> Facts:
    labels = {**LABELS, "rota/sandbox": "yes", **({"rota/cpu-quota": "yes"} if enforced else {})}
    pools = {"default": PoolFacts(1, "default", False, ((CAPACITY, labels),))}
    return replace(FACTS, plan=replace(PLAN, cpu_limit=plan_limit), trusted=trusted, pools=pools)


def judged(known: Facts, **asked: object) -> tuple[str, dict[str, str]]:
    """The limit that the agent reads, and the labels that its node must have."""
    validator = Validator(known)
    template = validator.template(TaskRequest(**{"command": ["x"], **asked}), "")  # type: ignore[arg-type]
    assert template is not None, validator.faults
    spec = json.loads(template.spec_head + "}")
    return spec.get("cpu_limit") or unsaid_cpu_limit(spec.get("isolation", "none")), template.shape.require


def refused(known: Facts, **asked: object) -> list[tuple[str, str, str]]:
    validator = Validator(known)
    validator.template(TaskRequest(**{"command": ["x"], **asked}), "")  # type: ignore[arg-type]
    return [(fault.pointer, fault.code, fault.detail) for fault in validator.faults]


@pytest.mark.parametrize(
    ("plan_limit", "trusted", "usual"),
    [(None, True, BURST), (None, False, QUOTA), (QUOTA, True, QUOTA), (BURST, False, BURST)],
)
@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_a_task_that_says_nothing_gets_what_its_plan_says_else_what_trust_in_its_tenant_says(
    plan_limit: CpuLimit | None, trusted: bool, usual: CpuLimit, isolation: str | None
) -> None:
    limit, labels = judged(facts(plan_limit, trusted=trusted), isolation=isolation)
    assert limit == usual
    assert "rota/cpu-quota" not in labels, "a default is kept where it can be"


def test_most_specs_say_nothing_so_that_agents_need_not_read_them_for_it() -> None:
    for trusted, spec in ((True, {"command": ["x"]}), (False, {"command": ["x"], "isolation": "sandbox"})):
        template = Validator(facts(trusted=trusted)).template(TaskRequest(command=["x"]), "")
        assert template is not None
        assert json.loads(template.spec_head + "}") == spec


def test_a_client_may_choose_the_quota_and_gets_a_node_that_enforces_it() -> None:
    limit, labels = judged(facts(trusted=True), cpu_limit="quota")
    assert (limit, labels) == (QUOTA, {"rota/cpu-quota": "yes"})
    (fault,) = refused(facts(trusted=True, enforced=False), cpu_limit="quota")
    assert fault == (
        "/cpu_limit",
        "unsatisfiable",
        "no node of pool default has CPU quotas that its kernel enforces (run rota doctor on a node to see why)",
    )


def test_a_client_may_ask_for_bursts_only_if_its_plan_gives_them_anyway() -> None:
    assert judged(facts(trusted=True), cpu_limit="burst")[0] == BURST
    assert judged(facts(BURST, trusted=False), cpu_limit="burst")[0] == BURST
    for known in (facts(trusted=False), facts(QUOTA, trusted=True)):
        (fault,) = refused(known, cpu_limit="burst")
        assert fault[:2] == ("/cpu_limit", "cpu-limit-not-allowed")
        assert "plan p" in fault[2]


def test_a_limit_that_does_not_exist_is_refused() -> None:
    assert refused(facts(trusted=True), cpu_limit="most") == [
        ("/cpu_limit", "out-of-range", "'most' is neither burst nor quota")
    ]
