"""Webhooks through the API and the command line, on a real cluster; and what the API refuses."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest
from standardwebhooks import Webhook as Verifier

from rota.client._sync.client import Client
from rota.client.errors import NotFound, Refused
from tests.observe.receiver import Receiver

Rota = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 20.0


def eventually(ask: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ask():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_the_command_line_adds_shows_redelivers_and_removes(client: Client, rota: Rota, receiver: Receiver) -> None:
    task = client.submit(["sh", "-c", "exit 3"])
    made = json.loads(
        rota("webhook", "add", receiver.url, "--task", str(task.id), "--events", "dead-lettered", "-o", "json").stdout
    )
    eventually(lambda: bool(receiver.got))
    got = receiver.got[0]
    message = Verifier(made["secret"]).verify(got.body, got.headers)
    assert (message["data"]["task"], message["data"]["exit_code"]) == (task.id, 3)
    listed = rota("webhook", "list").stdout
    assert receiver.url in listed
    assert f"task {task.id}" in listed
    assert made["secret"] not in listed
    number = str(made["id"])
    eventually(lambda: client.webhooks.deliveries(made["id"]).deliveries[0].state == "delivered")
    assert "delivered" in rota("webhook", "deliveries", number).stdout
    delivery = client.webhooks.deliveries(made["id"]).deliveries[0].id
    assert rota("webhook", "redeliver", number, str(delivery)).returncode == 0
    assert rota("webhook", "redeliver", number, "999999").stderr == "rota: there is no such delivery: 999999\n"
    eventually(lambda: len(receiver.got) == 2)
    assert rota("webhook", "remove", number).returncode == 0
    assert rota("webhook", "deliveries", number).returncode == 3


@pytest.mark.parametrize(
    ("save_request", "word"),
    [({"url": "ftp://h/"}, "https://host/path"), ({"url": "https://u:p@h/"}, "user name"),
     ({"url": "https://example.org/", "events": ["gone"]}, "is not a type of event"),
     ({"url": "https://example.org/", "task": -1}, "positive number"),
     ({"url": "https://example.org/", "name": "x" * 300}, "at most 200")],
)  # fmt: skip
def test_a_bad_webhook_is_refused(client: Client, save_request: dict[str, object], word: str) -> None:
    with pytest.raises(Refused, match=word):
        client.webhooks.add(**save_request)  # type: ignore[arg-type]


def test_an_unknown_webhook_is_not_found(client: Client) -> None:
    for ask in (client.webhooks.remove, client.webhooks.resume, client.webhooks.deliveries):
        with pytest.raises(NotFound):
            ask(999_999)
