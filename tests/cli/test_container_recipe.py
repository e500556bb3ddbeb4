"""The recipe for workers in containers: what it copies is there, what it starts exists, with every option it is given.

That the image can be built is tried by hand: docs/operations.md says how and where.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from rota.cli.app import build
from rota.execute.machine.capacity import parse_capacity
from rota.model.resources import Resources

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples/container/Containerfile"
KUBERNETES = ROOT / "examples/container/workers.yaml"
OPERATIONS = ROOT / "docs/operations.md"
WORKER: Any = typer.main.get_command(build()).commands["worker"]  # type: ignore[attr-defined]


def steps() -> list[list[str]]:
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", RECIPE.read_text(), flags=re.MULTILINE))
    return [line.split(None, 1) for line in joined.splitlines() if line]


def started(words: list[str]) -> dict[str, Any]:
    """What `rota worker` makes of these words; an unknown option is an error."""
    assert words[0] == "worker"
    context = WORKER.make_context("worker", list(words[1:]), resilient_parsing=False)
    return dict(context.params)


def test_every_step_is_one_that_engines_know_and_every_copied_file_is_there() -> None:
    known = {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert [word for word, _ in steps() if word not in known] == []
    copied = [shlex.split(rest)[:-1] for word, rest in steps() if word == "COPY" and "--from" not in rest]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    for word, rest in steps():
        if word == "RUN":
            assert shlex.split(rest)[0] in {"apt-get", "python3"}


def test_the_recipe_installs_what_a_worker_needs_and_starts_one() -> None:
    recipe = RECIPE.read_text()
    assert "'/source[worker]'" in recipe
    (command,) = [json.loads(rest) for word, rest in steps() if word == "CMD"]
    assert started(command)["data"] == Path("/data")


def test_workers_on_kubernetes_are_started_with_options_there_are() -> None:
    deployment, job = list(yaml.safe_load_all(KUBERNETES.read_text()))
    assert (deployment["kind"], job["kind"]) == ("Deployment", "Job")
    for document, leaves in ((deployment, None), (job, "5m")):
        pod = document["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        options = started(container["args"])
        assert options["idle_exit"] == leaves
        assert parse_capacity(options["capacity"], Resources()).cpu_milli == 4000
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert str(options["data"]) in mounted
        assert str(options["join_file"].parent) in mounted
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_line_that_runs_it_starts_a_worker_with_options_there_are() -> None:
    page = re.sub(r"\\\n\s*", " ", OPERATIONS.read_text())
    (line,) = re.findall(r"^    (podman run .*)$", page, re.MULTILINE)
    words = shlex.split(line)
    options = started(words[words.index("worker") :])
    assert f"{options['join_file']}:ro" in line
    assert f":{options['data']}" in line


@pytest.mark.parametrize("link", re.findall(r"\]\((\.\./examples/container/[^)]+)\)", OPERATIONS.read_text()))
def test_what_the_page_links_to_is_there(link: str) -> None:
    assert (OPERATIONS.parent / link).is_file()
