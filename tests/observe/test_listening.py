"""Listening to events over HTTP: streams, filters, coming back on another node, the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import islice

import httpx
import pytest

from rota.client._sync.client import Client
from rota.client.errors import Refused
from tests.harness.cluster import Cluster

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_a_stream_tells_what_happens_to_a_task(client: Client) -> None:
    stream = client.events(tag=("of", "stream"), since="1h")
    good = client.submit(["true"], tags={"of": "stream"})
    bad = client.submit(["sh", "-c", "exit 3"], tags={"of": "stream"}, after=[good], upstream="run")
    found = list(islice(stream, 7))
    told = [(one.type, one.task) for one in found]
    submitted = [("submitted", good.id), ("submitted", bad.id)]
    assert [one for one in told if one[0] == "submitted"] == submitted
    assert told[0] == submitted[0], "before anything else that happens to it"
    found = [one for one in found if one.type != "submitted"]
    assert [one for one in told if one[0] != "submitted"] == [
        ("started", good.id), ("done", good.id), ("started", bad.id), ("failed", bad.id), ("dead-lettered", bad.id),
    ]  # fmt: skip
    assert found[3].exit_code == 3
    assert found[3].reason == "exit-code: exited with code 3"
    assert found[0].node is not None


def test_a_listener_that_moves_to_another_node_gets_every_event_once(cluster: Cluster) -> None:
    tags = {"of": "coming back"}
    tag = ("of", "coming back")
    here, there = (Client(url, cluster.tokens.admin) for url in cluster.urls[:2])
    tasks = [here.submit(["true"], tags=tags).id for _ in range(4)]
    here.gather([here.handle(task) for task in tasks])
    heard, after = [], None
    for number in range(12):
        listener = (here, there)[number % 2]
        event = next(iter(listener.events(tag=tag, after=after, since="1h")))
        heard.append((event.type, event.task))
        after = event.id
    assert sorted(heard) == sorted((kind, task) for kind in ("submitted", "started", "done") for task in tasks)
    assert list(there.events(tag=tag, after=after, follow=False)) == []


def test_a_listener_that_returns_much_later_misses_nothing_though_it_asked_for_the_last_minute(client: Client) -> None:
    task = client.submit(["true"])
    client.gather([task])
    _, started, done = client.events(task=task.id, since="1h", follow=False)
    [heard] = client.events(task=task.id, after=started.id, since="1ms", follow=False)
    assert heard == done
    assert list(client.events(task=task.id, after="0-0-0", since="1ms", follow=False)) == [], "it has heard nothing yet"


def test_filters_choose(client: Client) -> None:
    one, other = client.submit(["true"], name="chosen"), client.submit(["true"], name="left out")
    client.gather([one, other])
    assert {event.task for event in client.events(name="chosen", since="1h", follow=False)} == {one.id}
    only = list(client.events(types=["done"], task=other.id, since="1h", follow=False))
    assert [(event.type, event.task) for event in only] == [("done", other.id)]


def test_a_cap_that_was_exceeded_is_named(client: Client) -> None:
    task = client.submit(["sleep", "60"], cap="200ms")
    event = next(iter(client.events(types=["failed"], task=task.id, since="1h")))
    assert (event.limit, event.outcome) == ("cap", "timeout")


def test_a_skipped_instant_is_an_event(client: Client) -> None:
    client.schedules.add("told-skip", daily="03:00", command=["true"])
    client.schedules.skip_next("told-skip")
    event = next(iter(client.events(types=["schedule-skipped"], schedule="told-skip", since="1h")))
    assert event.scheduled_for is not None
    assert event.reason
    client.schedules.remove("told-skip")


@pytest.mark.parametrize(
    ("query", "word"),
    [("type=gone", "type of event"), ("task=x", "id of a task"), ("tag=x", "NAME:VALUE"), ("colour=red", "no query parameter"),
     ("since=yesterday", "not 'yesterday'"), ("after=1-2", "id of an earlier event"), ("follow=maybe", "true or false, not")],
)  # fmt: skip
def test_a_bad_query_is_refused(cluster: Cluster, query: str, word: str) -> None:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    answer = httpx.get(f"{cluster.urls[0]}/v1/events?{query}", headers=headers, trust_env=False)
    assert answer.status_code in (400, 422)
    assert word in answer.json()["detail"]


def test_the_client_passes_refusals_on(client: Client) -> None:
    with pytest.raises(Refused, match="type of event"):
        list(client.events(types=["gone"]))


def test_the_command_line_shows_and_follows(client: Client, rota: Rota) -> None:
    task = client.submit(["true"], name="shown", tags={"of": "shown"})
    task.wait(30)
    shown = rota("events", "--tag", "of=shown")
    assert shown.returncode == 0, shown.stderr
    assert [line.split()[2] for line in shown.stdout.splitlines()] == ["submitted", "started", "done"]
    exact = rota("events", "--task", str(task.id), "--type", "done", "-o", "json")
    assert json.loads(exact.stdout)["name"] == "shown"
    wrong = rota("events", "--type", "gone")
    assert wrong.returncode == 2
    assert "did you mean done?" in wrong.stderr


@pytest.mark.parametrize("stream", ["events?follow=true&task={}", "tasks/{}/log?follow=true"])
def test_a_quiet_stream_shows_every_two_seconds_that_its_server_lives(cluster: Cluster, stream: str) -> None:
    """A client with several servers takes six seconds of silence for a dead server."""
    with Client(cluster.urls[0], cluster.tokens.admin) as client:
        task = client.submit(["true"], delay="1h")
        headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
        with httpx.stream(
            "GET", f"{cluster.urls[0]}/v1/{stream.format(task.id)}", headers=headers, timeout=5
        ) as answer:
            lines = answer.iter_lines()
            signs = [next(lines) for _ in range(3)]
        client.cancel([task.id])
    assert all(line == "" or line.startswith("id: ") for line in signs)


def test_what_owners_do_is_told_with_who_did_it_and_what_changed(client: Client, rota: Rota) -> None:
    task = client.submit(["true"], delay="1h", cap="1h", tags={"of": "owners"})
    rota("hold", str(task.id), "--reason", "waits for the data")
    rota("release", str(task.id))
    rota("pause", str(task.id))
    rota("resume", str(task.id))
    rota("edit", str(task.id), "--priority", "3")
    rota("extend", str(task.id), "+1h")
    found = list(client.events(task=task.id, since="1h", follow=False))
    assert [one.type for one in found] == [
        "submitted", "held", "released", "paused", "resumed", "edited", "extended",
    ]  # fmt: skip
    assert len({one.user for one in found}) == 1
    assert found[1].reason == f"held by {found[0].user}: waits for the data"
    assert found[5].changes == {"priority": (0, 3)}
    assert set(found[6].changes or {}) == {"cap_seconds"}
    shown = rota("events", "--task", str(task.id), "--type", "edited,held").stdout
    assert "priority 0 → 3 by " in shown
    assert "held by " in shown
    client.cancel(task.id)
