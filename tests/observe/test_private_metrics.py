"""Who may read /metrics: everybody, or operators if a server node was started so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import httpx

from tests.harness.cluster import Cluster


def test_metrics_need_an_operators_token_only_where_the_operator_says_so(
    cluster: Cluster, rota: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    open_to_all, private = (f"{url}/metrics" for url in cluster.urls)
    tokens = {}
    for role in ("viewer", "operator"):
        tokens[role] = rota("token", "add", "--tenant", "default", "--user", role, "--role", role).stdout.strip()
    assert httpx.get(open_to_all).status_code == 200
    answers = {
        who: httpx.get(private, headers={"authorization": f"Bearer {token}"}).status_code
        for who, token in {
            "nobody": "none",
            "worker": cluster.worker_token,
            **tokens,
            "admin": cluster.tokens.admin,
        }.items()
    }
    assert answers == {"nobody": 401, "worker": 403, "viewer": 403, "operator": 200, "admin": 200}
    assert httpx.get(private.replace("metrics", "healthz")).status_code == 200
