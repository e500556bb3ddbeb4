"""Faults that a server finds for any tenant are found before anything is sent, with the same text, all at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rota.admit.judge.validate import Validator
from rota.client.errors import ManifestError
from rota.model.request.task_request import TaskRequest
from tests.admit.test_validate import FACTS
from tests.client.manifests import faults, manifest

WRONG: list[dict[str, Any]] = [
    {"image": "rootfs:", "isolation": "sandbox"},
    {"image": "bad image"},
    {"image": "oci-archive:/etc/shadow"},
    {"isolation": "container"},
    {"package": "sha256:9f86d081884c"},
    {"mounts": ["../x", "team", "A"]},
    {"ports": 99_999_999},
    {"memory": "1K"},
    {"gpus": 100_000},
    {"processes": 1_000_000},
    {"attempts": 101},
    {"priority": 10_000_000},
    {"env": {"A=B": "x", "LD_PRELOAD": "x", "ROTA_TASK_ID": "1", "RIGHT": "x"}},
    {"secrets": ["bad name", "RIGHT", "ROTA_X"]},
    {"env": {"TOKEN": "x"}, "secrets": ["TOKEN"]},
    {"outputs": ["../a", "right", "/b", "a/**b"]},
    {"files": {"../a": "sha256:9f86d081884c", ".rota-script": "sha256:9f86d081884c"}},
    {"require": {"zone": "two words"}},
    {"custom": {"license": 0}},
    {"tags": {"": "x"}},
    {"concurrency_limit": 2},
    {"concurrency_scope": "global"},
    {"interpreter": ["python3"]},
    {"retry_on": ["exit=1"]},
    {"name": "two\u202elines"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: "-".join(wrong))
def test_a_manifest_and_a_server_say_the_same(wrong: dict[str, Any]) -> None:
    task = {"command": ["true"], **wrong}
    validator = Validator(FACTS)
    validator.template(msgspec.convert(task, TaskRequest), "")
    at_the_server = {
        fault.pointer: fault.detail for fault in validator.faults if "there is no artifact" not in fault.detail
    }
    with pytest.raises(ManifestError) as refused:
        manifest(msgspec.json.encode(task))
    here = {fault.path: fault.detail for fault in refused.value.faults}
    assert len(here) == len(at_the_server) > 0
    for pointer, detail in at_the_server.items():
        words = [word.replace("~1", "/").replace("~0", "~") for word in pointer.split("/")[1:]]
        place = "".join(f"[{word}]" if word.isdigit() else f".{word}" for word in words)[1:]
        assert here[place].split(":")[0].split("; ")[0] in detail or detail in here[place], (place, here[place], detail)


def test_everything_wrong_is_named_at_once_whatever_else_is_wrong() -> None:
    text = """
        command: [x]
        memory: lots
        outputs: [../a, ok, /b]
        secrets: [a b, OK, c d]
        mounts: [../x]
        env: {LD_PRELOAD: x}
    """
    found = [line.split(": ")[1] for line in faults(text)]
    assert found == ["memory", "outputs[0]", "outputs[2]", "secrets[0]", "secrets[2]", "mounts[0]", "env.LD_PRELOAD"]


def test_every_stage_that_is_wrong_is_named() -> None:
    text = """
        stages:
          - {name: fetch}
          - {name: a b, command: [x]}
          - {name: train, script: " "}
          - {name: train, command: [x]}
    """
    assert [line.split(": ", 1)[1] for line in faults(text)] == [
        "stages[0]: stage fetch needs exactly one of command and script",
        "stages[1]: 'a b' is not a stage's name: letters, digits, . - and _, at most 100",
        "stages[2]: stage train: the script is empty",
        "stages[3]: two stages are called train; each needs a name of its own",
    ]


def test_every_circle_of_a_graph_is_named() -> None:
    text = """
        tasks:
          a: {command: [x], after: [b]}
          b: {command: [x], after: [a]}
          c: {command: [x], after: [c]}
          d: {command: [x], after: [e]}
          e: {command: [x], after: [d, a]}
    """
    assert [line.split(": ", 1)[1] for line in faults(text)] == [
        "tasks.b.after: these wait for each other: b → a → b",
        "tasks.c.after: these wait for each other: c → c",
        "tasks.e.after: these wait for each other: e → d → e",
    ]


def test_what_is_wrong_in_the_defaults_is_named_there_and_once() -> None:
    text = """
        defaults: {ports: 1000}
        tasks:
          a: {command: [x]}
          b: {command: [x], ports: 2000}
    """
    assert [line.split(": ", 1)[1] for line in faults(text)] == [
        "defaults.ports: ports is a whole number from 0 to 100, not 1000",
        "tasks.b.ports: ports is a whole number from 0 to 100, not 2000",
    ]
