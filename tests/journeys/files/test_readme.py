"""The README's commands, typed as they stand there, in the folder they are typed in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster

ROOT = Path(__file__).parents[3]


def blocks() -> list[list[str]]:
    """The README's indented blocks, as lines."""
    found: list[list[str]] = [[]]
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith("    "):
            found[-1].append(line.removeprefix("    "))
        elif line and found[-1]:
            found.append([])
        elif not line and found[-1]:
            found[-1].append("")
    return found


def sessions() -> list[list[str]]:
    return [block for block in blocks() if block and block[0].startswith("$ ")]


@pytest.mark.parametrize("session", sessions(), ids=lambda session: session[0][2:40])
def test_what_the_readme_types_does_what_it_shows(cluster: Cluster, session: list[str]) -> None:
    typed: list[str] = []
    shown: list[str] = []
    for line in session:
        if line.startswith("$ "):
            typed.append(line[2:])
        elif line.startswith("rota: task "):  # on stderr, with the task's own number
            if " failed: " in line:
                typed[-1] = f"! {typed[-1]}"
        elif line:
            shown.append(line)
    folder = os.path.dirname(sys.executable)
    env = {
        **os.environ,
        "ROTA_SERVER": cluster.urls[0],
        "ROTA_TOKEN": cluster.tokens.admin,
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    line = ["bash", "-c", "set -eE; trap 'exit 1' ERR\n" + "\n".join(f"{one} || exit 1" for one in typed)]
    ran = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert [one for one in shown if one not in ran.stdout.splitlines()] == []


def test_the_graph_of_the_readme_can_be_submitted(cluster: Cluster) -> None:
    (source,) = ["\n".join(block) for block in blocks() if block and block[0] == "from rota import Graph"]
    env = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}
    line = [sys.executable, "-c", f'{source}\nassert graph.wait(60).status == "done"']
    ran = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
