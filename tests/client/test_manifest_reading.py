"""The requests that a manifest becomes (R3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.client.errors import ManifestError
from rota.client.manifest.load import load_manifest
from tests.client.manifests import manifest, sent


def test_one_task_is_the_request_it_names() -> None:
    found = manifest(
        """
        command: [python, train.py]
        cpu: 1.5
        memory: 2Gi
        attempts: 3
        at: 2030-01-31T09:00:00Z
        preemptible: true
        env: {ANSWER: "42", WORD: no}
        after: [17]
        """
    )
    assert (found.is_graph, found.names, found.labels()) == (False, (), ("task",))
    assert sent(found) == [
        {
            "command": ["python", "train.py"], "cpu": 1.5, "memory": "2Gi", "attempts": 3, "at": "2030-01-31T09:00:00Z",
            "preemptible": True, "env": {"ANSWER": "42", "WORD": "no"}, "after": [17],
        }
    ]  # fmt: skip


def test_a_function_takes_any_json_as_arguments() -> None:
    found = manifest("function: shop.mail:send\nargs: [1, two, [3.5, null]]\nkwargs: {to: {name: x}, cc: []}")
    assert sent(found) == [
        {"function": "shop.mail:send", "args": [1, "two", [3.5, None]], "kwargs": {"to": {"name": "x"}, "cc": []}}
    ]


def test_a_graph_is_tasks_with_refs_that_share_defaults() -> None:
    found = manifest(
        """
        name: etl
        defaults:
          cap: 5m
          env: {A: a, B: b}
          script: echo by default
          delay: 5s
        tasks:
          first: {}
          second:
            command: ["true"]
            after: [first, 7]
            cap: null
            env: {B: other}
            at: 2030-01-31T09:00:00Z
            name: called
            tags: {graph: mine}
        """
    )
    assert (found.name, found.names) == ("etl", ("first", "second"))
    assert sent(found) == [
        {
            "script": "echo by default", "name": "first", "env": {"A": "a", "B": "b"}, "tags": {"graph": "etl"},
            "cap": "5m", "delay": "5s", "ref": "first",
        },
        {
            "command": ["true"], "name": "called", "env": {"A": "a", "B": "other"}, "tags": {"graph": "mine"},
            "at": "2030-01-31T09:00:00Z", "after": ["first", 7], "ref": "second",
        },
    ]  # fmt: skip


def test_commands_are_one_script_that_ends_at_the_first_failure() -> None:
    assert sent(manifest("commands: [make, make test]")) == [{"script": "set -e\nmake\nmake test\n"}]


def test_a_scripts_file_is_looked_for_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "nightly.sh").write_text("echo ${HOME}\n")
    (tmp_path / "rota.yaml").write_text("script: {file: jobs/nightly.sh}\n")
    assert sent(load_manifest(tmp_path / "rota.yaml")) == [{"script": "echo ${HOME}\n"}]


def test_a_scripts_file_is_run_by_the_program_of_its_suffix_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("print(1)\n")
    (tmp_path / "rota.yaml").write_text("script: {file: fit.py}\n")
    assert sent(load_manifest(tmp_path / "rota.yaml")) == [{"script": "print(1)\n", "interpreter": ["python3"]}]
    (tmp_path / "rota.yaml").write_text("script: {file: fit.py}\ninterpreter: [pypy3, -u]\n")
    assert sent(load_manifest(tmp_path / "rota.yaml")) == [{"script": "print(1)\n", "interpreter": ["pypy3", "-u"]}]
    (tmp_path / "main.go").write_text("package main\n")
    (tmp_path / "rota.yaml").write_text("script: {file: main.go}\n")
    with pytest.raises(ManifestError, match=r"that runs \.go files; .* or give an interpreter"):
        load_manifest(tmp_path / "rota.yaml")


def test_variables_fill_values_and_unquoted_ones_are_plain_scalars() -> None:
    found = manifest(
        """
        command: [run, "--day=${DAY}", "$${DAY}", "costs $5"]
        attempts: ${N}
        env: {N: "${N}"}
        """,
        DAY="[x]: &y",
        N="3",
    )
    assert sent(found) == [
        {"command": ["run", "--day=[x]: &y", "${DAY}", "costs $5"], "attempts": 3, "env": {"N": "3"}}
    ]


def test_a_scripts_own_variables_belong_to_its_shell() -> None:
    found = manifest("tasks:\n  a: {script: 'echo ${HOME} ${X:-1}'}\n  b: {commands: ['echo ${X}']}\n")
    assert [task["script"] for task in sent(found)] == ["echo ${HOME} ${X:-1}", "set -e\necho ${X}\n"]


def test_the_environment_never_fills_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DAY", "monday")
    with pytest.raises(ManifestError, match="the variable 'DAY' has no value"):
        manifest("command: [echo, '${DAY}']")


def test_json_is_a_manifest_too_with_tabs_and_surrogate_pairs() -> None:
    text = b'{\n\t"command": ["echo", "\\ud83d\\ude00"],\n\t"attempts": 2, "cpu": 5e-1\n}'
    for file in ("rota.json", "rota.yaml"):
        assert sent(manifest(text, file=file)) == [{"command": ["echo", "😀"], "attempts": 2, "cpu": 0.5}]


def test_aliases_repeat_what_an_anchor_names() -> None:
    found = manifest("tasks:\n  a: &a {command: [x], env: &e {K: v}}\n  b: {command: [y], env: *e}\n  c: *a\n")
    assert [(task["command"], task["env"]) for task in sent(found)] == [
        (["x"], {"K": "v"}), (["y"], {"K": "v"}), (["x"], {"K": "v"}),
    ]  # fmt: skip


def test_a_text_and_a_path_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_bytes(b"\xef\xbb\xbfcommand: [x]\n")
    wanted = [{"command": ["x"]}]
    assert sent(load_manifest(str(tmp_path / "rota.yaml"))) == wanted
    assert sent(load_manifest("command: [x]\n")) == wanted
    assert sent(load_manifest('{"command": ["x"]}')) == wanted


def test_thousands_of_tasks_are_one_graph() -> None:
    lines = [f"  t{n}: {{command: [work, '{n}'], after: [t{n - 1}]}}" for n in range(1, 2_000)]
    found = manifest("tasks:\n  t0: {command: [work]}\n" + "\n".join(lines))
    assert len(found.tasks) == 2_000
