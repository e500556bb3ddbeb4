"""What an image means for a task, and what is wrong with those that are none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rota.admit.judge.facts import PoolFacts
from rota.admit.judge.validate import Validator
from rota.model.request.task_request import TaskRequest
from rota.model.resources import Resources
from tests.admit.test_validate import FACTS

ROOM = Resources(cpu_milli=4000, memory_bytes=8 * 10**9, disk_bytes=10**11)


def labelled(*labels: str, isolations: tuple[str, ...] = ("none", "sandbox", "container")) -> Validator:
    node = (ROOM, dict.fromkeys(labels, "yes"))
    return Validator(replace(FACTS, pools={"default": PoolFacts(1, "default", False, (node,), isolations)}))


def faults(validator: Validator, **fields: object) -> list[tuple[str, str]]:
    validator.template(TaskRequest(**{"command": ["true"], **fields}), "")  # type: ignore[arg-type]
    return [(fault.pointer, fault.code) for fault in validator.faults]


@pytest.mark.parametrize(
    "image",
    [
        "alpine",
        "alpine:3",
        "localhost/bb:1",
        "docker.io/library/alpine:3.20",
        "registry.example:5000/team/a.b/c_d/e__f/g--h:V1.0_x-y",
        "alpine@sha256:" + "0" * 64,
        "alpine:3@sha256:" + "f" * 64,
    ],
)
def test_an_image_makes_a_task_a_container_for_nodes_that_run_them(image: str) -> None:
    template = labelled("rota/container").template(TaskRequest(command=["true"], image=image), "")
    assert template is not None
    assert template.shape.require == {"rota/container": "yes"}
    assert json.loads(template.spec_head + "}") == {
        "command": ["true"],
        "image": image,
        "isolation": "container",
        "cpu_limit": "burst",
    }


def test_a_named_root_asks_for_a_node_that_has_it_and_for_no_engine() -> None:
    template = labelled("rota/rootfs-debian").template(TaskRequest(script="id", image="rootfs:debian"), "")
    assert template is not None
    assert template.shape.require == {"rota/rootfs-debian": "yes"}
    assert json.loads(template.spec_head + "}") == {
        "script": "id",
        "image": "rootfs:debian",
        "isolation": "container",
        "cpu_limit": "burst",
    }


@pytest.mark.parametrize(
    "image",
    ["", " ", "-v", "--privileged", "Alpine", "a b", "alpine:", ":3", "a//b", "a/", "/a", "a:b:c", "a@sha256:12", "ä",
     "alpine\n", "a" * 256, "rootfs:", "rootfs:A", "rootfs:../etc", "rootfs:a/b", "oci-archive:/etc/shadow",
     "docker-archive:x.tar", "dir:tmp", "oci:tmp"],
)  # fmt: skip
def test_what_is_no_image_is_refused(image: str) -> None:
    assert ("/image", "invalid-image") in faults(labelled("rota/container"), image=image)


def test_an_image_leaves_no_other_isolation_and_a_container_needs_an_image() -> None:
    assert faults(labelled("rota/container"), image="alpine", isolation="sandbox") == [
        ("/isolation", "inconsistent-isolation")
    ]
    assert faults(labelled("rota/container"), image="alpine", isolation="container") == []
    assert faults(labelled("rota/container"), isolation="container") == [("/image", "image-missing")]


@pytest.mark.parametrize("work", [{"path": "/bin/true"}, {"function": "a.b:c"}])
def test_an_image_goes_with_a_command_or_a_script(work: dict[str, str]) -> None:
    assert faults(labelled("rota/container"), image="alpine", command=None, **work) == [("/image", "invalid-command")]


def test_a_pool_can_forbid_containers_and_a_plan_their_network() -> None:
    walled = labelled("rota/container", isolations=("sandbox",))
    assert faults(walled, image="alpine") == [("/isolation", "isolation-not-allowed")]
    assert faults(labelled("rota/container"), image="alpine", network=True) == [("/network", "network-not-allowed")]


def test_a_containers_variables_are_one_line_each() -> None:
    assert faults(labelled("rota/container"), image="alpine", env={"KEY": "a\nb", "GOOD": "a b # c"}) == [
        ("/env/KEY", "invalid-character")
    ]
    assert faults(labelled("rota/container"), image="alpine", env={"KEY": "x" * 60_001}) == [
        ("/env/KEY", "invalid-character")
    ]
    assert faults(labelled("rota/rootfs-debian"), image="rootfs:debian", env={"KEY": "a\nb"}) == []


def test_a_task_with_an_image_is_refused_where_no_node_runs_containers() -> None:
    assert [code for _, code in faults(labelled("rota/sandbox"), image="alpine")] == ["unsatisfiable"]
