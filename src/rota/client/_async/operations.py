"""`client.operations`: one change of all tasks that a filter selects, and the handle on it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Unpack

from rota.client._async.sender import AsyncPart, AsyncSender
from rota.client.calls import operation_calls
from rota.client.calls.operation_calls import OperationFilter
from rota.model.answers.operations import OperationDocument, OperationPage, OperationPreview


class AsyncOperationHandle:
    """One operation. It stores no state: every method asks the server."""

    def __init__(self, client: AsyncSender, operation_id: int) -> None:
        self._client = client
        self.id = operation_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    async def document(self) -> OperationDocument:
        """The operation as it is now: its state, and how many tasks it has changed."""
        return await self._client.perform(operation_calls.operation(self.id))

    async def wait(self, timeout: float | None = None) -> OperationDocument:
        """The operation once it has ended, in whatever state; `WaitTimeout` when the time is up."""
        return await self._client.converse(
            operation_calls.wait(self.id, timeout, time.monotonic, self._client.longest_wait_seconds)
        )

    async def stop(self) -> OperationDocument:
        """Stops it after its batch under way; what it has changed stays changed."""
        return await self._client.perform(operation_calls.stop(self.id))


class AsyncOperations(AsyncPart):
    """`client.operations`: start, preview, get, list, stop.

        operation = await client.operations.start("cancel", name="etl", state="ready")
        ended = await operation.wait()
        print(ended.changed)

    The verbs are cancel, hold, release, edit and retry; requeue and discard take dead letters.
    """

    async def start(
        self,
        verb: str,
        changes: Mapping[str, Any] | None = None,
        *,
        everything: bool = False,
        **filters: Unpack[OperationFilter],
    ) -> AsyncOperationHandle:
        """Starts one change of all tasks that the filters select. Without a filter, `everything` must be true.

        `changes`: of an edit the new values, `{"lane": "urgent"}`; of a hold its reason, `{"reason": "…"}`.
        """
        call = operation_calls.start(verb, filters, changes=changes, everything=everything, fresh_key=uuid.uuid4().hex)
        return AsyncOperationHandle(self._client, (await self._client.perform(call)).id)

    async def preview(
        self, verb: str, changes: Mapping[str, Any] | None = None, **filters: Unpack[OperationFilter]
    ) -> OperationPreview:
        """How many tasks an operation would change now, by state, with the newest ids. Changes nothing."""
        return await self._client.perform(operation_calls.preview(verb, changes, **filters))

    async def get(self, operation_id: int) -> OperationDocument:
        return await self._client.perform(operation_calls.operation(operation_id))

    async def list(
        self, *, state: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> OperationPage:
        """One page, newest first; of one state: running, done, stopped or failed."""
        return await self._client.perform(operation_calls.operations(state=state, limit=limit, cursor=cursor))

    async def stop(self, operation_id: int) -> OperationDocument:
        return await self._client.perform(operation_calls.stop(operation_id))
