"""For the API's own tests: plain HTTP against a running node, as strangers would speak it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.harness.cluster import Cluster


@pytest.fixture
def http(cluster: Cluster) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {cluster.keys.admin}"}
    with httpx.Client(base_url=cluster.urls[0], headers=headers, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def newest(http: httpx.Client) -> Callable[[], int]:
    """The id of the newest task: unchanged means that nothing was stored."""

    def look() -> int:
        tasks = http.get("/v1/tasks", params={"limit": 1}).json()["tasks"]
        return int(tasks[0]["id"]) if tasks else 0

    return look
