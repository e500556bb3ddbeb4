"""The methods of a client that its handles and its parts (`client.graphs`, `client.secrets`, …) use, and a part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from rota.client.calls.call import Answer, Call
from rota.client.calls.conversations import Conversation
from rota.client.options import HasId, TaskSpec
from rota.client.transport.log_reader import LogItem

Value = TypeVar("Value")


class AsyncSender(Protocol):
    longest_wait_seconds: float  # of one request

    async def perform(self, call: Call[Answer]) -> Answer: ...
    async def converse(self, conversation: Conversation[Value]) -> Value: ...
    async def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]: ...
    async def gather(self, tasks: Iterable[HasId], timeout: float | None = None) -> Sequence[Any]: ...
    def follow(self, task_id: int) -> AsyncIterator[LogItem]: ...


class AsyncPart:
    def __init__(self, client: AsyncSender) -> None:
        self._client = client
