"""Whatever the published schema allows, and much that it does not, never makes the server fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.harness.cluster import Cluster


def test_no_generated_request_is_answered_with_a_server_error(cluster: Cluster, tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"{cluster.urls[0]}/openapi.json",
        "--header", f"Authorization: Bearer {cluster.keys.admin}",
        "--checks", "not_a_server_error", "--max-examples", "10", "--seed", "1",
        "--phases", "examples,coverage,fuzzing",
        "--exclude-path-regex", "/v1/worker/.*", "--request-timeout", "20", "--workers", "2",
    ]  # fmt: skip
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1"}
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    me = httpx.get(
        f"{cluster.urls[0]}/v1/me", headers={"authorization": f"Bearer {cluster.keys.admin}"}, trust_env=False
    )
    assert me.status_code == 200, "the key still works: the requests were judged, not turned away at the door"
