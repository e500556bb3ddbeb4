"""One HTTP request as a value: where to send it, and how to read the answer.

The modules beside this one build a `Call` for each route of the API; the transports send it. Nothing here connects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from rota.client.calls import repeats
from rota.client.errors import ServerFault
from rota.model.request.rules import key_trouble

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request. `repeatable`: sending it twice has the same effect as sending it once."""

    method: str
    path: str
    parse: Callable[[bytes], Answer]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)  # it may contain a secret
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    repeatable: bool = False
    if_repeated: Callable[[int, bytes], bytes | None] | None = None  # see `repeats.py`
    wait_seconds: float = 0.0  # how long the server may wait before it answers
    joins: bool = False  # when a running task sends it, the new tasks join its graph

    def read(self, body: bytes) -> Answer:
        """The value of the answer; `ServerFault` when the body is no answer of Rota."""
        try:
            return self.parse(body)
        except msgspec.MsgspecError as error:
            raise ServerFault(f"the answer to {self.method} {self.path} cannot be read: {error}") from None


def encoded_body(body: object) -> bytes:
    """As JSON; TypeError with the field's name and value if JSON has no such type: `script=Path("x.py")`."""
    try:
        return msgspec.json.encode(body)
    except TypeError:
        for name, value in msgspec.structs.asdict(body).items() if isinstance(body, msgspec.Struct) else ():
            try:
                msgspec.json.encode(value)
            except TypeError:
                kind = type(value).__name__
                raise TypeError(f"{name} is {value!r}"[:100] + f", a {kind}, and no JSON; give text") from None
        raise


def get(
    path: str, answer: type[Answer], query: Mapping[str, object] | None = None, *, wait_seconds: float = 0.0
) -> Call[Answer]:
    """A plain read."""
    chosen = query_of(query or {})
    return Call("GET", path, reader(answer), query=chosen, repeatable=True, wait_seconds=wait_seconds)


def post(
    path: str, answer: type[Answer], body: object = None, *, repeatable: bool = False, key: str | None = None
) -> Call[Answer]:
    """`key`: an idempotency key, under which the request may be repeated; ValueError if it can't be one."""
    trouble = None if key is None else key_trouble(key)
    if trouble is not None:
        raise ValueError(f"idempotency_key: {trouble}")
    encoded = None if body is None else encoded_body(body)
    repeatable = repeatable or key is not None
    return Call("POST", path, reader(answer), body=encoded, idempotency_key=key, repeatable=repeatable)


def put(path: str, answer: type[Answer], body: object) -> Call[Answer]:
    return Call("PUT", path, reader(answer), body=encoded_body(body), repeatable=True)


def patch(path: str, answer: type[Answer], body: object) -> Call[Answer]:
    """A change to given values: repeating it changes nothing more."""
    return Call("PATCH", path, reader(answer), body=encoded_body(body), repeatable=True)


def delete(path: str) -> Call[None]:
    return Call("DELETE", path, lambda _: None, repeatable=True, if_repeated=repeats.removed)


def reader(answer: type[Answer]) -> Callable[[bytes], Answer]:
    # Not strict: a whole number is accepted for a fraction, and the reverse.
    return partial(msgspec.json.decode, type=answer, strict=False)


def query_of(values: Mapping[str, object]) -> dict[str, str]:
    """A query as text: None is left out, a tag is NAME:VALUE."""
    given = {name: value for name, value in values.items() if value is not None}
    return {name: ":".join(one) if isinstance(one, list | tuple) else str(one) for name, one in given.items()}


def segment(name: str) -> str:
    """A name as one segment of a path: a slash or a question mark in it must not address another route."""
    return quote(name, safe="")
