"""Lesson 4: tokens, tenants and limits. One tenant neither sees nor touches another's tasks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from rota import Client, LimitExceeded, NotFound, Refused
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_a_tenant_sees_and_touches_only_its_own(client: Client, neighbour: Client) -> None:
    mine = client.submit(["true"])
    for look in (neighbour.get, neighbour.attempts, neighbour.retry):
        with pytest.raises(NotFound, match="there is no such task"):
            look(mine.id)
    assert mine.id not in {task.id for task in neighbour.list()}


def test_the_same_key_gives_the_same_task(client: Client) -> None:
    first = client.submit(["true"], idempotency_key="invoice-12")
    again = client.submit(["true"], idempotency_key="invoice-12")
    assert again.id == first.id
    with pytest.raises(Refused, match="another body"):
        client.submit(["false"], idempotency_key="invoice-12")


def test_another_tenants_key_is_another_key(client: Client, neighbour: Client) -> None:
    mine = client.submit(["true"], idempotency_key="shared-name")
    theirs = neighbour.submit(["true"], idempotency_key="shared-name")
    assert theirs.id != mine.id


def test_a_plan_limits_how_much_is_submitted(neighbour: Client) -> None:
    def submit_for_ever() -> None:
        while True:
            neighbour.submit(["true"], delay="1h")

    with pytest.raises(LimitExceeded) as limited:
        submit_for_ever()
    assert limited.value.retry_after is not None
    me = neighbour.me()
    assert (me.plan.name, me.plan.burst, me.usage.burst_left, me.usage.waiting) == ("free", 50, 0, 50)


def test_a_batch_larger_than_the_plan_could_ever_admit_is_refused_for_good(neighbour: Client) -> None:
    with pytest.raises(Refused, match="at most 50 at once") as refused:
        neighbour.submit_many([{"command": ["true"]}] * 51)
    assert not isinstance(refused.value, LimitExceeded)


def test_a_revoked_key_opens_nothing(cluster: Cluster, rota: Rota) -> None:
    made = json.loads(rota("token", "add", "--tenant", "default", "--user", "eve", "-o", "json").stdout)
    assert rota("token", "revoke", str(made["id"])).returncode == 0
    with pytest.raises(Refused), Client(server=cluster.urls[0], token=made["token"]) as former:
        former.list()
