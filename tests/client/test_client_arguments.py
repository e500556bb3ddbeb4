"""Arguments arrive as they were given, or are refused by name before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rota import AsyncClient, Client, task
from tests.client.stub_server import Reply, StubServer

DAY = date(2030, 1, 31)
NUMBER = UUID(int=7)


@task
def take(value: object, other: object = None) -> None: ...


@task
def by_number(days: dict[int, date], *more: dict[UUID, int], **named: dict[int, int]) -> None: ...


CHANGED = [
    (float("nan"), " is nan, which JSON does not have"),
    ([1.0, {"a": float("inf")}], ": [1]['a'] is inf, which JSON does not have"),
    ({1: 2}, " has a key of type int; keys must be str"),
    ([{"a": {NUMBER: 2}}], ": [0]['a'] has a key of type UUID; keys must be str"),
    ((DAY, {DAY: 1}), ": [1] has a key of type date; keys must be str"),
]


@pytest.mark.parametrize(("value", "said"), CHANGED, ids=[said[:30] for _, said in CHANGED])
async def test_what_json_would_change_is_refused_with_the_arguments_name(
    server: StubServer, client: Client, value: object, said: str
) -> None:
    name = "tests.client.test_client_arguments:take"
    tries: list[tuple[str, Callable[[], Any]]] = [
        ("argument 2 of m:f", lambda: client.submit(function="m:f", args=[1, value])),
        ("argument 'it' of m:f", lambda: client.submit_many([{"function": "m:f", "kwargs": {"it": value}}])),
        ("an item of m:f", lambda: client.map("m:f", [value])),
        (f"argument 1 of {name}", lambda: take.using(client).submit(value)),
        (f"argument 'other' of {name}", lambda: take.using(client).submit(1, other=value)),
        (f"item 1: argument 1 of {name}", lambda: take.using(client).map([value])),
        (f"item 1: argument 1 of {name}", lambda: client.map(take, [value])),
    ]
    for what, submit in tries:
        with pytest.raises(TypeError) as refusal:
            submit()
        assert str(refusal.value).startswith(what + said)
    async with AsyncClient(server=server.url, token="t") as awaited:
        with pytest.raises(TypeError, match="argument 1 of m:f"):
            await awaited.submit(function="m:f", args=[value])
    assert server.received == []


def test_what_the_other_side_knows_how_to_read_is_sent(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    client.submit(function="m:f", args=[[1.5, 10**30, {"a": (DAY, NUMBER, Decimal("1.50"), b"x")}], None])
    assert server.received[0].json["args"] == [[1.5, 10**30, {"a": ["2030-01-31", str(NUMBER), "1.50", "eA=="]}], None]


def test_keys_that_the_annotation_restores_are_sent_as_text(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    by_number.using(client).submit({1: DAY}, {NUMBER: 2}, c={3: 4})
    sent = server.received[0].json
    assert (sent["args"], sent["kwargs"]) == ([{"1": "2030-01-31"}, {str(NUMBER): 2}], {"c": {"3": 4}})
    with pytest.raises(TypeError, match=r"argument 'c' of .*: \['3'\] is nan"):
        by_number.using(client).submit({1: DAY}, c={3: float("nan")})  # type: ignore[dict-item]


def test_an_option_that_json_has_no_type_for_is_refused_by_name(server: StubServer, client: Client) -> None:
    with pytest.raises(TypeError, match=r"^script is PosixPath\('x.py'\), a PosixPath, and no JSON; give text$"):
        client.submit(script=Path("x.py"))
    assert server.received == []
