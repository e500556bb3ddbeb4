"""Whatever the published schema allows, and much that it does not, never makes the server fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.harness.cluster import Cluster

SCHEMATHESIS = str(Path(sys.executable).parent / "schemathesis")

# Answers that never end, or end when something happens, are for other tests.
SETTINGS = """
[parameters]
"query.follow" = "false"
"query.wait" = "0"
"""


@pytest.mark.timeout(1_000)
def test_no_generated_request_is_answered_with_a_server_error(database: str, tmp_path: Path) -> None:
    with Cluster(database, tmp_path / "cluster") as cluster:  # no worker: what is generated is not run
        cluster.add_server()
        url, key = cluster.urls[0], f"Bearer {cluster.keys.admin}"
        (tmp_path / "schemathesis.toml").write_text(SETTINGS)
        ran = subprocess.run(
            [
                SCHEMATHESIS, "run", f"{url}/openapi.json", "--header", f"Authorization: {key}",
                "--checks", "not_a_server_error,status_code_conformance,content_type_conformance", "--max-examples", "10", "--seed", "1",
                "--phases", "examples,coverage,fuzzing",
                "--exclude-path-regex", "/v1/worker/.*", "--request-timeout", "30", "--workers", "2",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=900, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
        me = httpx.get(f"{url}/v1/me", headers={"authorization": key}, trust_env=False)
        assert me.status_code == 200, "the key still works: the requests were judged, not turned away at the door"
