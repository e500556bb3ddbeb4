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

# Answers that never end, or end when something happens, are for other tests. Routes that name one thing are asked for
# one that is there, at least until a request removes it.
SETTINGS = """
[parameters]
"query.follow" = "false"
"query.wait" = "0"

[[operations]]
include-path-regex = "^/v1/tasks/.task.(/(log|why|attempts|pause|resume|extend))?$"
parameters = {{ "path.task" = "{task}" }}

[[operations]]
include-path-regex = "^/v1/graphs/.graph.(/(retry|rerun))?$"
parameters = {{ "path.graph" = "{graph}" }}

[[operations]]
include-path-regex = "^/v1/schedules/.name."
exclude-method = "DELETE"
parameters = {{ "path.name" = "nightly" }}

[[operations]]
include-path-regex = "^/v1/webhooks/.webhook./"
parameters = {{ "path.webhook" = "{webhook}" }}
"""


def _made(http: httpx.Client) -> dict[str, int]:
    """One of each, that waits for a node to come."""
    work = {"command": ["true"], "unplaceable": "wait"}
    bodies = {
        "/v1/tasks": work,
        "/v1/graphs": {"name": "two", "tasks": [{**work, "ref": "a"}, {**work, "ref": "b", "after": ["a"]}]},
        "/v1/webhooks": {"url": "https://example.com/hook"},
        "/v1/schedules": {"name": "nightly", "daily": "02:30", "task": work},
    }
    ids = [http.post(path, json=body).raise_for_status().json()["id"] for path, body in bodies.items()]
    return dict(zip(("task", "graph", "webhook"), ids[:3], strict=True))


@pytest.mark.timeout(1_000)
def test_no_generated_request_is_answered_with_a_server_error_or_as_nobody_said(database: str, tmp_path: Path) -> None:
    with Cluster(database, tmp_path / "cluster") as cluster:  # no worker: what is generated is not run
        cluster.add_server()
        url, token = cluster.urls[0], f"Bearer {cluster.tokens.admin}"
        with httpx.Client(base_url=url, headers={"authorization": token}, trust_env=False, timeout=30) as http:
            (tmp_path / "schemathesis.toml").write_text(SETTINGS.format(**_made(http)))
            ran = subprocess.run(
                [
                    SCHEMATHESIS, "run", f"{url}/openapi.json", "--header", f"Authorization: {token}",
                    "--checks",
                    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                    "--max-examples", "10", "--seed", "1", "--phases", "examples,coverage,fuzzing",
                    "--exclude-path-regex", "/v1/worker/.*|/v1/logout",  # which ends the token that all requests carry
                    "--request-timeout", "30", "--workers", "2",
                ],
                cwd=tmp_path, capture_output=True, text=True, timeout=900, env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
            assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
            assert http.get("/v1/me").status_code == 200, "the token still works: requests were judged, not turned away"
