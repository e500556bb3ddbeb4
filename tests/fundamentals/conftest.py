"""For the tutorial: a client and the `rota` command, both pointed at a running cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota import Client
from tests.harness.cluster import Cluster

MODULES = Path(__file__).parent.parent / "modules"


@pytest.fixture
def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """`Client()` would read the profile that `rota up` writes; here the environment names the server."""
    monkeypatch.setenv("ROTA_SERVER", cluster.urls[0])
    monkeypatch.setenv("ROTA_TOKEN", cluster.keys.admin)
    monkeypatch.syspath_prepend(str(MODULES))
    with Client() as ready:
        yield ready


@pytest.fixture
def rota(cluster: Cluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command as a person would: `rota("list", "-o", "json")`."""
    environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.keys.admin}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *words], env=environment, capture_output=True, text=True, timeout=60
        )

    return run
