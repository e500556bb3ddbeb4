"""What a credential opened ends with it, on every server node, within five seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from rota.model.accounts.permissions import Binding, Role
from tests.api.hostile.principals import Person
from tests.api.served import Served
from tests.faults.scene import eventually
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

PROMISED_SECONDS = 5.0


@pytest.fixture(scope="module")
def two(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two server nodes without workers."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("two"), time_scale=CALM) as running:
        running.add_server()
        running.add_server()
        yield Served.on(running)


class Stream:
    """A followed answer, read by a thread of its own until the server ends it."""

    def __init__(self, url: str, path: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._reader = threading.Thread(target=self._read, args=(path, headers), daemon=True)
        self._opened = threading.Event()
        self.status = 0
        self._reader.start()
        assert self._opened.wait(20)

    def _read(self, path: str, headers: dict[str, str]) -> None:
        with self._http.stream("GET", path, headers=headers) as answer:
            self.status = answer.status_code
            self._opened.set()
            for _ in answer.iter_bytes():
                continue

    @property
    def is_open(self) -> bool:
        return self._reader.is_alive()

    def ends_within(self, seconds: float) -> bool:
        self._reader.join(seconds)
        return not self.is_open


@contextmanager
def _streams(two: Served, task: int, headers: dict[str, str]) -> Iterator[list[Stream]]:
    streams = [
        Stream(url, path, headers)
        for url in two.cluster.urls
        for path in ("/v1/events?follow=true", f"/v1/tasks/{task}/log?follow=true")
    ]
    assert [stream.status for stream in streams] == [200] * 4
    assert all(stream.is_open for stream in streams)
    yield streams


@contextmanager
def _waiting(two: Served, task: int, headers: dict[str, str]) -> Iterator[list[Future[int]]]:
    """Requests on each node that wait for the end of a task; each becomes the status of its answer."""

    def wait(url: str) -> int:
        return httpx.get(f"{url}/v1/tasks/{task}?wait=30", headers=headers, timeout=60, trust_env=False).status_code

    with ThreadPoolExecutor(2) as threads:
        yield [threads.submit(wait, url) for url in two.cluster.urls]


def _refused(two: Served, headers: dict[str, str]) -> bool:
    """On each node, each request from now on."""
    statuses = {httpx.get(f"{url}/v1/tasks", headers=headers, trust_env=False).status_code for url in two.cluster.urls}
    return statuses <= {401, 403}


def _disable(two: Served, person: Person) -> None:
    two.ask("update principals set disabled_at = now() where id = $1", person.principal)


def _expire(two: Served, person: Person) -> None:
    two.ask("update tokens set expires_at = now() where owner = $1", person.principal)
    two.ask("update sessions set ends_at = now() where principal = $1", person.principal)


def _revoke(two: Served, person: Person) -> None:
    two.ask("update tokens set revoked_at = now() where owner = $1", person.principal)
    two.ask("update sessions set ended_at = now() where principal = $1", person.principal)


def _demote(two: Served, person: Person) -> None:
    person.take(Binding(role=Role.VIEWER, tenant=person.tenant))


def _forget(two: Served, person: Person) -> None:
    two.ask("delete from principals where id = $1", person.principal)


@pytest.mark.parametrize("end", [_revoke, _expire, _disable, _demote, _forget])
def test_no_credential_outlives_its_end_on_any_node(two: Served, end: Callable[[Served, Person], None]) -> None:
    person = Person.with_roles(two, Binding(role=Role.VIEWER, tenant=two.tenant), tenant=two.tenant)
    task = two.submit(unplaceable="wait")
    for headers in ({"authorization": f"Bearer {person.token}"}, person.cookie):
        assert not _refused(two, headers)
    with (
        _streams(two, task, {"authorization": f"Bearer {person.token}"}) as by_token,
        _streams(two, task, person.cookie) as by_session,
        _waiting(two, task, person.cookie) as waiting,
    ):
        end(two, person)
        ended = time.monotonic()
        for headers in ({"authorization": f"Bearer {person.token}"}, person.cookie):
            eventually(lambda headers=headers: _refused(two, headers), seconds=PROMISED_SECONDS, what="it is refused")  # type: ignore[misc]
        for stream in (*by_token, *by_session):
            assert stream.ends_within(max(0.0, ended + PROMISED_SECONDS - time.monotonic()))
        assert {one.result(PROMISED_SECONDS) for one in waiting} <= {401, 403}, "403 if it came too late to wait"
