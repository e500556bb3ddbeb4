"""The schema of manifests: kept in docs/, agreeing with what is accepted, and made from the request itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from rota.client.manifest.fields import FIELDS, NOTES, manifest_task
from rota.client.manifest.schema import manifest_schema, schema_text
from rota.model.request.structure import structure_faults
from rota.model.request.task_request import TaskRequest
from tests.client.manifests import ROOT, faults

VALIDATOR = jsonschema_rs.Draft202012Validator(manifest_schema())


def test_the_schema_kept_in_docs_is_the_one_that_is_published() -> None:
    kept = (ROOT / "docs" / "rota.schema.json").read_text()
    assert kept == schema_text(), "it is stale: rota validate --schema > docs/rota.schema.json"


def test_the_schema_is_itself_right() -> None:
    jsonschema_rs.meta.validate(manifest_schema())


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/rota.yaml")), ids=lambda file: file.parent.name)
def test_the_examples_are_as_the_schema_says(file: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(file.read_text()))


def test_no_note_is_about_a_field_that_is_gone() -> None:
    assert set(NOTES) - set(FIELDS) == set()


@pytest.mark.parametrize("name", FIELDS)
def test_every_example_of_the_schema_is_accepted_by_both(name: str) -> None:
    field = manifest_schema()["$defs"]["Fields"]["properties"][name]
    base: dict[str, Any] = (
        {} if name in ("command", "commands", "stages", "script", "path", "upload", "function") else {"path": "/x"}
    )
    if name in ("kwargs", "package"):
        base = {"function": "a:b"}
    base |= {"retry_on": {"attempts": 2}, "concurrency_limit": {"concurrency_key": "x"}}.get(name, {})
    base |= {"concurrency_scope": {"concurrency_key": "x"}}.get(name, {})
    if name == "image":
        base = {"command": ["true"]}
    if name == "resume":
        base = {"stages": [{"name": "all", "script": "make"}]}
    if name == "interpreter":
        base = {"path": "/x"}
    for example in [*field.get("examples", ()), *(NOTES[name].choices if name in NOTES else ())]:
        told = {**base, name: example}
        if example == "container":
            told = {"command": ["true"], "image": "alpine", name: example}
        wrapped = {"tasks": {"extract": {"command": ["true"]}, "x": told}}
        VALIDATOR.validate(wrapped)
        if not (isinstance(example, dict) and "file" in example):
            assert faults(msgspec.json.encode(wrapped)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": "1G"},
        {"command": ["x"], "script": "y"},
        {"command": "x"},
        {"command": ["x"], "memroy": "1G"},
        {"command": ["x"], "attempts": "many"},
        {"command": ["x"], "upstream": "maybe"},
        {"command": ["x"], "env": {"PORT": 8080}},
        {"tasks": {}},
        {"tasks": {"12": {"command": ["x"]}}},
        {"tasks": {"a": {"command": ["x"]}}, "memory": "1G"},
        {"tasks": {"a": {}}, "defaults": {"command": ["x"], "idempotency_key": "k"}},
    ],
)
def test_what_the_schema_refuses_is_refused_here_too(wrong: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(wrong)
    assert faults(msgspec.json.encode(wrong)) != []


class Mount(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    read_only: bool = True


class Later(TaskRequest, kw_only=True):
    """The request of some later day."""

    flavour: str | None = None
    mounts: list[Mount] | None = None


def test_a_field_added_to_the_request_is_in_the_manifest_and_its_schema() -> None:
    task = manifest_task(Later)
    assert structure_faults({"command": ["x"], "flavour": "busybox", "mounts": [{"source": "team"}]}, task) == []
    wrong = structure_faults({"command": ["x"], "flavour": 7, "mounts": [{"sorce": "team"}]}, task)
    assert [fault.pointer for fault in wrong] == ["/flavour", "/mounts/0/sorce", "/mounts/0/source"]
    published = jsonschema_rs.Draft202012Validator(manifest_schema(task))
    assert published.is_valid({"command": ["x"], "flavour": "busybox", "mounts": [{"source": "team"}]})
    assert not published.is_valid({"command": ["x"], "mounts": [{"sorce": "team"}]})
    assert not VALIDATOR.is_valid({"command": ["x"], "flavour": "busybox"})
