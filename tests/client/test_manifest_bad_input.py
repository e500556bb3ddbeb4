"""Bad manifests: every fault at once, each with its position, its path, the value and what would be right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.client.errors import ManifestError
from rota.client.manifest.load import load_manifest
from rota.client.manifest.tree import LARGEST_BYTES
from tests.client.manifests import faults

WORK = "give exactly one of command, script, path, upload, function, commands, stages"

UNREADABLE = [
    ("", "1:1: empty; a manifest needs at least a command, e.g. command: [echo, hi]"),
    ("# nothing\n", "1:1: empty; a manifest needs at least a command, e.g. command: [echo, hi]"),
    ("command: [echo", "2:1: not YAML: did not find expected ',' or ']'"),
    ("command: [echo, ${DAY}]",
     "1:18: not YAML: did not find expected ',' or ']'; between brackets, ${…} needs quotes"),
    ("command: echo: hi", "1:14: not YAML: mapping values are not allowed in this context"),
    ("env:\n\tA: b", "2:1: not YAML: found character that cannot start any token"),
    ("command: [x]\n---\ncommand: [y]\n", "2:1: a second document begins here; a manifest is one document"),
    ("command: [x]\ncpu: 1\ncommand: [y]", "3:1: the key 'command' appears twice; the first is in line 1"),
    ("command: [x]\nenv: {A: a, A: b}", "2:13: the key 'A' appears twice; the first is in line 2"),
    ('command: !!python/object/apply:os.system ["id"]',
     "1:10: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed; write plain values"),
    ("command: !!str x", "1:10: the tag 'tag:yaml.org,2002:str' is not allowed; write plain values"),
    ("tasks:\n  a: &a {command: [x]}\n  b: {<<: *a}",
     "3:7: merge keys (<<) are not supported; use defaults:, or repeat the fields"),
    ("? [a]\n: b", "1:3: a key must be text, not a list or a mapping"),
    ("a: &a x\n*a : y", "2:1: a key must be text, not a list, a mapping or an alias"),
    ("command: *x", "1:10: *x has no anchor &x before it"),
    ("args: &x [*x]", "1:11: *x is used inside its own anchor"),
    ("args: " + "[" * 70, "1:70: nested deeper than 64 levels"),
    (b"command: [\xff]", "1:11: not UTF-8 text (byte 10)"),
    (b"\n\ncommand: [a\0b]", "3:12: the character U+0000 is not allowed in a manifest"),
    (b"command: [a\x1b]", "1:12: the character U+001B is not allowed in a manifest"),
    (b"#" * (LARGEST_BYTES + 1), "1:1: larger than the limit of 4 MiB"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNREADABLE, ids=[message[:50] for _, message in UNREADABLE])
def test_an_unreadable_manifest_is_refused_with_a_position(text: str | bytes, message: str) -> None:
    assert faults(text) == [f"rota.yaml:{message}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"command": ["x"]', "1:18: not JSON: Expecting ',' delimiter"),
        ('{"command": ["x"], "cpu": NaN}', "1:1: not JSON: NaN is not a JSON number"),
        ('{"cpu": 1e999}', "1:1: not JSON: 1e999 is too large"),
        ('{"cpu": 1,\n "cpu": 2}', "2:2: the key 'cpu' appears twice; the first is in line 1"),
        ("[" * 100_000, "1:1: nested deeper than 64 levels"),
        ('{"args": ' + "[" * 65 + "]" * 65 + "}", "1:73: nested deeper than 64 levels"),
    ],
)
def test_json_is_read_as_strictly(text: str, message: str) -> None:
    assert faults(text, file="rota.json") == [f"rota.json:{message}"]


def test_aliases_can_not_explode() -> None:
    lines = ["a0: &a0 [" + ", ".join(["x"] * 9) + "]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (said,) = faults("\n".join(lines))
    assert said.endswith("too large with all aliases expanded; use fewer aliases, or split the file")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("just words", ["1:1: a manifest is a mapping: command: [echo, hi], or tasks: for a graph"]),
        ("- a\n- b", ["1:1: a manifest is a mapping: command: [echo, hi], or tasks: for a graph"]),
        ("memory: 1G", [f"1:1: {WORK}; none is given"]),
        ("command: [x]\nscript: y", [f"1:1: {WORK}; command and script are given"]),
        ("comand: [x]", ["1:1: comand: there is no field 'comand'; did you mean 'command'?"]),
        ("task:\n  a: {command: [x]}",
         ["1:1: task: there is no field 'task'; did you mean 'tasks'?", f"1:1: {WORK}; none is given"]),
        ("command: [x]\nref: me", ["2:1: ref: there is no field 'ref'"]),
        ("command: echo hi", ['1:10: command: "echo hi" is not a list; write [echo, hi]']),
        ("commands: make test", ['1:11: commands: "make test" is not a list; write [make test]']),
        ("commands: []", ["1:11: commands: the list is empty; write at least one line"]),
        ("command: []", ["1:10: command: the program is missing; write [program, argument, …]"]),
        ("command: [sleep, 5]", ["1:18: command[1]: 5 is not a string; put it in quotes"]),
        ("script: ' '", ["1:9: script: the script is empty"]),
        ("script: {path: x}",
         ["1:9: script.file: the field 'file' is missing",
          "1:10: script.path: there is no field 'path'"]),
        ("path: job.sh", ["1:7: path: 'job.sh' is not an absolute path on the node"]),
        ("function: nonsense",
         ["1:11: function: 'nonsense' is not a function; write package.module:function"]),
        ("function: a:b\nargs: {}\nkwargs: []",
         ["2:7: args: {} is not a list", "3:9: kwargs: [] is not an object"]),
        ("command: [x]\nargs: [y]\nkwargs: {z: 1}",
         ["2:1: args: the arguments of a command are words of command, after the program",
          "3:1: kwargs: kwargs are allowed only with a function"]),
        ("command: [x]\nenv: {PORT: 8080, DEBUG: true, OK: yes}",
         ["2:13: env.PORT: 8080 is not a string; put it in quotes",
          "2:26: env.DEBUG: true is not a string; put it in quotes"]),
        ("command: [x]\ncpu: many\nmemory: 3x\ndisk: -1\ngpus: 1.5\niops: fast\nbandwidth: wide",
         ["2:6: cpu: 'many' is not a number of cores; write 1.5 or 500m",
          "3:9: memory: '3x' is not a size; write bytes or a number with K, M, G, T (or Ki, Mi, …)",
          "4:7: disk: -1 is below zero",
          "5:7: gpus: 1.5 is neither whole GPUs (1, 2, …) nor a fraction of one (such as 0.5)",
          "6:7: iops: 'fast' is not an amount; write a whole number, or one with k, M, G",
          "7:12: bandwidth: 'wide' is not a bandwidth; write bits per second, or a number with k, M, G"]),
        ("command: [x]\ncap: soon\nattempts: 0\npriority: 1.5\npreemptible: maybe\nports: 0",
         ["2:6: cap: 'soon' is not a duration; write seconds, 2h30m or PT3H",
          "3:11: attempts: 0 is less than 1",
          "4:11: priority: 1.5 is not a whole number (64 bits)",
          '5:14: preemptible: "maybe" is not true or false',
          "6:8: ports: 0 is less than 1"]),
        ("command: [x]\nupstream: skp\nunplaceable: never",
         ["2:11: upstream: 'skp' is not one of skip, run", "3:14: unplaceable: 'never' is not one of refuse, wait"]),
        ("command: [x]\nfiles: {checkpoint/x: 'sha256:0123456789'}",
         ["2:23: files.checkpoint/x: 'checkpoint/x': checkpoint is reserved for the task's checkpoint"]),
        ("command: [x]\nfiles: {.rota-result: 'sha256:0123456789'}",
         ["2:23: files..rota-result: '.rota-result': names that begin with .rota- are reserved"]),
        ("command: [x]\nat: 2030-01-31",
         ["2:5: at: '2030-01-31' is not a time with a zone; write 2030-01-31T09:00:00Z or …+02:00"]),
        ("command: [x]\nat: 2030-01-31T09:00:00Z\ndelay: 5s", ["2:5: at: give a time (at) or a delay, not both"]),
        ("command: [x]\nafter: [other, 0]",
         ["2:9: after[0]: 'other' is not a task's id; only tasks of the same graph are referenced by name",
          "2:16: after[1]: 0 is not a task's id"]),
        ("command: [x]\nafter: other", ['2:8: after: "other" is not a list; write [other]']),
        ("command: [x]\npriority: 99999999999999999999",
         ["2:11: priority: 99999999999999999999 is too large; put it in quotes"]),
        ('command: ["a\\0b"]', ["1:11: command[0]: a string contains NUL (\\u0000)"]),
        ("command: ['${X}', '${1x}', '${']",
         ["1:11: command[0]: the variable 'X' has no value; give --set X=VALUE, or write $${X} for the text",
          "1:19: command[1]: '${1x}' is not a variable; write ${NAME}, or $${ for a plain ${",
          "1:28: command[2]: '${' is not a variable; write ${NAME}, or $${ for a plain ${"]),
        ("command: [x]\nenv: {'${X}': y}", ["2:7: env.${X}: '${X}': variables are allowed in values, not in keys"]),
    ],
)  # fmt: skip
def test_every_fault_of_one_task_is_reported_at_its_position(text: str, messages: list[str]) -> None:
    assert faults(text) == [f"rota.yaml:{message}" for message in messages]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("tasks: {}", ["1:8: tasks: a graph has 1 to 10,000 tasks, not 0"]),
        ("tasks: [a]", ["1:8: tasks: tasks is a mapping of names to tasks: extract: {command: [./extract.sh]}"]),
        ("defaults: {cpu: 1}",
         ["1:1: tasks: tasks is a mapping of names to tasks: extract: {command: [./extract.sh]}"]),
        ("name: [x]\ntasks: {a: {command: [x]}}",
         ["1:7: name: ['x'] is not a name: a text of 1 to 200 characters"]),
        ('tasks: {"a\\n": {command: [x]}}',
         ["1:9: tasks.a : 'a\\n' is not a task's name: letters, digits, - and _, at most 100, not digits only"]),
        ("tasks: {a: x, b: {}}",
         ['1:12: tasks.a: "x" is not an object', f"1:15: tasks.b: {WORK}; none is given"]),
        ("tasks: {12: {command: [x]}, a b: {command: [x]}}",
         ["1:9: tasks[12]: '12' is not a task's name: letters, digits, - and _, at most 100, not digits only",
          "1:29: tasks.a b: 'a b' is not a task's name: letters, digits, - and _, at most 100, not digits only"]),
        ("memory: 1G\nschedul: x\ntasks: {a: {command: [x]}}",
         ["1:1: memory: memory is a field of a task: put it into one, or into defaults for all",
          "2:1: schedul: there is no field 'schedul'; did you mean 'schedule'?"]),
        ("defaults: {idempotency_key: k, memroy: 1G}\ntasks: {a: {command: [x]}}",
         ["1:12: defaults.idempotency_key: idempotency_key cannot be a default; give it to one task",
          "1:32: defaults.memroy: there is no field 'memroy'; did you mean 'memory'?"]),
        ("tasks:\n  train: {command: [x], memory: lots}\n  test: {command: [y], after: [trian, far]}",
         ["2:33: tasks.train.memory: 'lots' is not a size; write bytes or a number with K, M, G, T (or Ki, Mi, …)",
          "3:32: tasks.test.after[0]: there is no task 'trian' in this file; did you mean 'train'?",
          "3:39: tasks.test.after[1]: there is no task 'far' in this file; there are train, test"]),
        ("tasks: {a: {command: [x], after: [a]}}", ["1:34: tasks.a.after: these wait for each other: a → a"]),
        ("tasks:\n  a: {command: [x], after: [c]}\n  b: {command: [x], after: [a]}\n  c: {command: [x], after: [b]}",
         ["3:28: tasks.b.after: these wait for each other: b → c → a → b"]),
    ],
)  # fmt: skip
def test_every_fault_of_a_graph_is_reported_at_its_position(text: str, messages: list[str]) -> None:
    assert faults(text) == [f"rota.yaml:{message}" for message in messages]


def test_a_variable_nobody_uses_was_meant_for_something() -> None:
    assert faults("command: [x]", DAY="1") == ["rota.yaml:1:1: the variable 'DAY' is not used"]
    assert faults("script: echo ${DAY}", DAY="1") == [
        "rota.yaml:1:1: the variable 'DAY' is not used; a script's ${…} belongs to its shell: pass it on with env:"
    ]


def test_a_hundred_faults_are_enough() -> None:
    found = faults("command: [x]\n" + "\n".join(f"wrong{n}: x" for n in range(150)))
    assert (len(found), found[-1]) == (101, "rota.yaml: 50 more faults")


def test_a_graph_has_its_limit() -> None:
    text = "tasks:\n" + "".join(f"  t{n}: {{}}\n" for n in range(10_001))
    assert faults(text) == ["rota.yaml:2:3: tasks: a graph has 1 to 10,000 tasks, not 10,001"]


def test_defaults_count_for_each_task() -> None:
    tasks = "\n".join(f"  t{n}: {{}}" for n in range(200))
    (said,) = faults(f"defaults:\n  script: {'x' * 500_000}\ntasks:\n{tasks}")
    assert said.endswith("with this task the request is larger than 32 MiB; defaults count once for each task")


def _folder(path: Path) -> Path:
    (path / "folder").mkdir()
    (path / "latin.sh").write_bytes(b"echo \xe9")
    (path / "empty.sh").write_bytes(b" \n")
    (path / "big.sh").write_bytes(b"#" * (2**20 + 1))
    (path / "escape.sh").symlink_to("/etc/passwd")
    (path / "loop.sh").symlink_to(path / "loop.sh")
    os.mkfifo(path / "pipe.sh")
    return path


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("none.sh", "no such file in {folder}"),
        ("folder", "a directory, not a file"),
        ("latin.sh", "not UTF-8 text (byte 5)"),
        ("empty.sh", "empty"),
        ("big.sh", "larger than the limit of 1 MiB"),
        ("pipe.sh", "not a regular file"),
        ("escape.sh", "outside the manifest's folder; put the script beside it or below"),
        ("/etc/passwd", "outside the manifest's folder; put the script beside it or below"),
        ("../x.sh", "outside the manifest's folder; put the script beside it or below"),
    ],
)
def test_a_scripts_file_that_can_not_be_sent_is_named(tmp_path: Path, name: str, wrong: str) -> None:
    folder = _folder(tmp_path)
    said = f"rota.yaml:1:16: script.file: '{name}': {wrong.format(folder=folder)}"
    assert faults(f"script: {{file: {name}}}", folder) == [said]


def test_links_in_a_circle_are_no_script(tmp_path: Path) -> None:
    (said,) = faults("script: {file: loop.sh}", _folder(tmp_path))
    assert said.startswith("rota.yaml:1:16: script.file: 'loop.sh': ")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("none.yaml", "no such file"), ("", "a directory, not a file"), ("\0", "cannot be read: embedded null byte")],
)
def test_a_manifest_that_is_not_there_is_named(tmp_path: Path, name: str, wrong: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {wrong}"
