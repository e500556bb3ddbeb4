# Generated from ../_async by scripts/unasync; edit that.
"""The methods of a client that its handles and its parts (`client.graphs`, `client.secrets`, …) use, and a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rota.client.calls.call import Answer, Call
from rota.client.calls.conversations import Conversation
from rota.client.options import HasId, TaskSpec
from rota.client.transport.log_reader import LogItem

Value = TypeVar("Value")


class Sender(Protocol):
    longest_wait_seconds: float  # of one request

    def perform(self, call: Call[Answer]) -> Answer: ...
    def converse(self, conversation: Conversation[Value]) -> Value: ...
    def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]: ...
    def gather(self, tasks: Iterable[HasId], timeout: float | None = None) -> Sequence[Any]: ...
    def follow(self, task_id: int) -> Iterator[LogItem]: ...


class Part:
    def __init__(self, client: Sender) -> None:
        self._client = client
