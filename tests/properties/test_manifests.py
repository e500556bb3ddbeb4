"""Manifests against chance: whatever the bytes, a manifest or its named error; whatever is good, accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rota.client.errors import ManifestError
from rota.client.manifest.fields import FIELDS
from rota.client.manifest.load import Manifest, read_manifest
from rota.client.manifest.schema import manifest_schema

SETTINGS = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = jsonschema_rs.Draft202012Validator(manifest_schema())
EMPTY = Path("/nonexistent-folder-of-no-manifest")


def _read(data: bytes, file: str = "rota.yaml", **variables: str) -> Manifest | None:
    try:
        return read_manifest(data, file=file, folder=EMPTY, variables=variables)
    except ManifestError as error:
        assert error.faults
        assert all(
            fault.detail and fault.line > 0 and fault.column > 0 for fault in error.faults if fault.code != "more"
        )
        return None


def _read_by_both(data: bytes, file: str = "rota.yaml", **variables: str) -> None:
    """By the parser in C, and by the one in Python that stands in where there is none."""
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("rota.client.manifest.tree._LOADER", loader)
            _read(data, file, **variables)


@given(st.binary(max_size=200), st.sampled_from(["rota.yaml", "rota.json"]))
@example(b'"\\UFFFFFFFF"', "rota.yaml")
@example(b"&a [*a]", "rota.yaml")
@example(b"{command: [x], 1: 2, ? : 3}", "rota.yaml")
@example(b'{"a": "\\ud800"}', "rota.json")
@example(b"%YAML 9.9\n---\na", "rota.yaml")
@example(b"\xef\xbb\xbf\xff", "rota.yaml")
@SETTINGS
def test_bytes_are_a_manifest_or_a_named_error(data: bytes, file: str) -> None:
    # Invariant: reading raises ManifestError with a place and a sentence, and nothing else.
    _read_by_both(data, file)


PIECES = st.sampled_from(
    [
        "command", "script", "tasks", "defaults", "after", "env", "name", ": ", ":\n  ", "\n", "- ", "[", "]", "{", "}",
        ", ", "&a ", "*a", "!!str ", "!x ", "'", '"', "|\n  ", ">-\n  ", "#", "? ", "${X}", "$${", "${", "<<", "---\n",
        "null", "true", "1", "1e9", "9" * 30, "~", "a", "\t", "é", "\\0", "%", "@",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
@SETTINGS
def test_any_pieces_of_yaml_are_a_manifest_or_a_named_error(text: str) -> None:
    # Invariant: as above, on text that gets further into the reader than random bytes do.
    _read_by_both(text.encode(), X="7")


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\0"), max_size=12)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "tasks", "defaults"]), anything, max_size=4))
@SETTINGS
def test_any_value_in_any_field_is_taken_or_named(value: dict[str, Any]) -> None:
    # Invariant: fields of every type of value never break a check.
    _read(msgspec.json.encode(value) if _fits(value) else b"{}", "rota.json")


def _fits(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_fits, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or -(2**63) <= value < 2**64


words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
plain = texts.filter(lambda text: "$" not in text)
names = st.from_regex(r"\A[a-z][a-z0-9_-]{0,10}\Z")
variables = st.from_regex(r"\A[a-z][a-z0-9_]{0,10}\Z")
amounts = st.integers(1, 1000).flatmap(lambda n: st.sampled_from([n * 10**6, f"{n}M", f"{n}Gi"]))
durations = st.integers(1, 1000).flatmap(lambda n: st.sampled_from([n, f"{n}s", f"PT{n}M"]))
settings_of_a_task = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from([1, 0.5, "250m"]), "memory": amounts, "disk": amounts, "cap": durations,
        "tolerance": durations, "attempts": st.integers(1, 9), "priority": st.integers(-9, 9), "name": words,
        "env": st.dictionaries(variables, plain, max_size=3), "tags": st.dictionaries(words, words, max_size=3),
        "preemptible": st.booleans(), "upstream": st.sampled_from(["skip", "run"]), "lane": st.just("normal"),
        "delay": durations, "gpus": st.sampled_from([1, 0.5]),
    },
)  # fmt: skip
work = st.one_of(
    st.fixed_dictionaries({"command": st.lists(words, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"commands": st.lists(words, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"script": words}),
    st.fixed_dictionaries({"path": words.map("/opt/{}".format)}),
    st.fixed_dictionaries({"function": st.just("package.module:name")}, optional={"args": st.lists(plain, max_size=3)}),
)
tasks = st.tuples(settings_of_a_task, work).map(lambda parts: parts[0] | parts[1])


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    made: dict[str, Any] = {}
    for index, name in enumerate(chosen):
        parents = draw(st.lists(st.sampled_from(chosen[:index]) | st.integers(1, 99), max_size=3)) if index else []
        made[name] = draw(tasks) | ({"after": parents} if parents else {})
    return {"tasks": made} | draw(st.fixed_dictionaries({}, optional={"name": words, "defaults": settings_of_a_task}))


class _Quoting(yaml.SafeDumper):
    """Quotes all but plain words: PyYAML writes YAML 1.1, for which `0e0` is a word and `no` is none."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        bare = re.fullmatch("[a-z]+", data) and data not in ("null", "true", "false")
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if bare else '"')


_Quoting.add_representer(str, _Quoting.represent_str)


@given(tasks | graphs(), st.sampled_from(["yaml", "flow", "json"]))
@SETTINGS
def test_a_good_manifest_is_accepted_however_it_is_written(value: dict[str, Any], how: str) -> None:
    # Invariant: what is right by construction is accepted, agrees with the schema, and says the same in every notation.
    if how == "json":
        data = msgspec.json.encode(value)
    else:
        data = yaml.dump(
            value, Dumper=_Quoting, default_flow_style=how == "flow", allow_unicode=True, sort_keys=False
        ).encode()
    found = _read(data, "rota.yaml" if how != "json" else "rota.json")
    assert found is not None, data
    assert SCHEMA.is_valid(value)
    asked = list(value["tasks"].values()) if "tasks" in value else [value]
    assert len(found.tasks) == len(asked)
    for request, task in zip(found.tasks, asked, strict=True):
        for name in ("command", "path", "memory", "attempts", "priority", "cap"):
            if name in task:
                assert getattr(request, name) == task[name]
