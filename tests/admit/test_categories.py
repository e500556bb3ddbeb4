"""What tasks take from their category: above all their isolation, which never gives more than they could ask for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rota.admit.judge.facts import PoolFacts
from rota.admit.judge.validate import Validator
from rota.model.catalogue import Category
from rota.model.isolation import ISOLATIONS
from rota.model.request.task_request import TaskRequest
from tests.admit.test_validate import FACTS, NODE

CAPACITY, LABELS = NODE


def validator(isolation: str | None, *, trusted: bool, allowed: tuple[str, ...] = ISOLATIONS) -> Validator:
    labels = {**LABELS, "rota/sandbox": "yes", "rota/container": "yes"}
    pools = {"default": PoolFacts(1, "default", False, ((CAPACITY, labels),), allowed)}
    categories = {"kind": Category("kind", isolation=isolation)}
    return Validator(replace(FACTS, pools=pools, categories=categories, trusted=trusted))


def isolation_of(judge: Validator, **asked: object) -> str:
    template = judge.template(TaskRequest(**{"command": ["x"], "category": "kind", **asked}), "")  # type: ignore[arg-type]
    assert template is not None, judge.faults
    return str(json.loads(template.spec_head + "}").get("isolation", "none"))


def faults_of(judge: Validator, **asked: object) -> list[tuple[str, str, str]]:
    judge.template(TaskRequest(**{"command": ["x"], "category": "kind", **asked}), "")  # type: ignore[arg-type]
    return [(fault.pointer, fault.code, fault.detail) for fault in judge.faults]


@pytest.mark.parametrize(
    ("isolation", "trusted", "got"),
    [
        (None, True, "none"),
        (None, False, "sandbox"),
        ("sandbox", True, "sandbox"),
        ("sandbox", False, "sandbox"),
        ("none", True, "none"),
        ("none", False, "sandbox"),
    ],
)
def test_a_categorys_isolation_is_that_of_tasks_that_name_none(isolation: str | None, trusted: bool, got: str) -> None:
    assert isolation_of(validator(isolation, trusted=trusted)) == got


def test_a_task_that_names_its_isolation_or_an_image_takes_nothing_from_its_category() -> None:
    assert isolation_of(validator("sandbox", trusted=True), isolation="none") == "none"
    assert isolation_of(validator("container", trusted=True), isolation="sandbox") == "sandbox"
    assert isolation_of(validator("sandbox", trusted=True), image="alpine") == "container"
    assert isolation_of(validator("container", trusted=True), image="alpine") == "container"


def test_a_category_for_containers_needs_an_image_and_says_that_it_is_the_category() -> None:
    (fault,) = faults_of(validator("container", trusted=True))
    assert fault[:2] == ("/image", "image-missing")
    assert "category kind has isolation container" in fault[2]


def test_a_pool_that_does_not_allow_it_names_the_category() -> None:
    (fault,) = faults_of(validator("sandbox", trusted=True, allowed=("none",)))
    assert fault == (
        "/isolation",
        "isolation-not-allowed",
        "pool default allows none, not sandbox, which category kind sets",
    )
    assert isolation_of(validator("none", trusted=True, allowed=("sandbox",))) == "sandbox"
