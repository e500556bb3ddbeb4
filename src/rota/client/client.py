"""The blocking face of Rota: Client, and TaskHandle for one task it submitted.

Each method names a call (`calls.py`) or a conversation (`conversations.py`) and sends it; nothing else is
decided here, so that this file and its twin `async_client.py` can only differ in `await`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from rota.client import calls, cluster_calls, conversations, insight_calls, key_calls, manifest_calls
from rota.client.calls import Answer, Call
from rota.client.cluster_documents import Me, NodeDocument
from rota.client.conversations import Conversation
from rota.client.documents import (
    AttemptDocument,
    CancelAnswer,
    CancelManyAnswer,
    DiscardAnswer,
    RequeueAnswer,
    TaskDocument,
    TaskPage,
)
from rota.client.errors import Refused
from rota.client.insight_documents import PreviewDocument, WhyDocument
from rota.client.key_calls import CoolAnswer, KeyDocument
from rota.client.logs import LogChunk, LogEnd, LogReader
from rota.client.manifest import load_manifest
from rota.client.options import HasId, TaskSpec, WorkOptions
from rota.client.outcomes import failure_of, result_of
from rota.client.profile import resolve
from rota.client.secrets import Secrets
from rota.client.transport import SyncTransport

Value = TypeVar("Value")

RETRY_SECONDS = 30.0


class TaskHandle:
    """One task. It holds no state of its own: each question goes to the server."""

    def __init__(self, client: Client, task_id: int) -> None:
        self._client = client
        self.id = task_id

    def __repr__(self) -> str:
        return f"TaskHandle({self.id})"

    @property
    def state(self) -> str:
        """The state now: blocked, delayed, ready, running, …"""
        return self.document().state

    def document(self) -> TaskDocument:
        return self._client.get(self.id)

    def wait(self, timeout: float | None = None) -> TaskDocument:
        """The task's document once it has ended, however it ended; `WaitTimeout` when the time is up."""
        return self._client.converse(conversations.wait(self.id, timeout, time.monotonic))

    def result(self, timeout: float | None = None) -> Any:
        """The JSON value the task returned; `TaskFailed` (or its subclass) when it did not end `done`."""
        return result_of(self.wait(timeout))

    def log(self, *, attempt: int | None = None, stream: str | None = None) -> str:
        """What the latest (or the named) attempt wrote so far; `stream` None means both."""
        return (self._client.log(self.id, attempt=attempt, stream=stream)).decode(errors="replace")

    def follow(self) -> Iterator[LogChunk | LogEnd]:
        """Output as it comes, until the task has ended; the last item is a LogEnd."""
        return self._client.follow(self.id)

    def why(self) -> WhyDocument:
        """Why it waits, its place in line, and when it will probably start."""
        return self._client.perform(insight_calls.why(self.id))

    def attempts(self) -> Sequence[AttemptDocument]:
        return self._client.attempts(self.id)

    def cancel(self) -> CancelAnswer:
        return self._client.perform(calls.cancel(self.id))

    def retry(self) -> TaskHandle:
        """A new task with the same work; this one stays as it ended."""
        return TaskHandle(self._client, (self._client.perform(calls.retry(self.id))).id)


class Client:
    """A connection to Rota; threads may share it.

        with Client() as rota:
            print(rota.submit(["echo", "hi"], memory="128M").wait().exit_code)

    `retry_seconds` bounds how long a lost connection is retried; submits carry an idempotency key while they
    are, so a lost answer never submits twice. With 0 nothing is retried, and no keys are made.
    """

    def __init__(
        self, server: str | None = None, token: str | None = None, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._transport = SyncTransport(resolve(server, token), retry_seconds)
        self._retry_seconds = retry_seconds
        self.secrets = Secrets(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # --- submitting

    def submit(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> TaskHandle:
        """Hand one task over. It is durable when this returns."""
        spec: TaskSpec = {"command": command, **work}
        return TaskHandle(self, (self.perform(calls.submit(spec, self._fresh_key()))).id)

    def submit_many(self, specs: Iterable[TaskSpec]) -> Sequence[TaskHandle]:
        """Hand many over in one request: all are accepted, or none. `after` may name another's `ref`."""
        ids = self.converse(conversations.submit_many(tuple(specs), self._fresh_key))
        return [TaskHandle(self, task_id) for task_id in ids]

    def submit_manifest(
        self, manifest: str | Path, variables: Mapping[str, str] | None = None
    ) -> Mapping[str, TaskHandle]:
        """Hand over what a `rota.yaml` describes, all of it or nothing; the tasks by their names in it.

        `manifest` is a file's path, or its text. `ManifestError` names every fault before anything is sent.
        """
        read = load_manifest(manifest, variables)
        try:
            ids = self.converse(manifest_calls.submitted(read, self._fresh_key()))
        except Refused as refusal:
            raise read.placed(refusal) if refusal.faults else refusal from None
        return {name: TaskHandle(self, task_id) for name, task_id in ids.items()}

    def gather(
        self, tasks: Iterable[HasId], timeout: float | None = None, *, return_errors: bool = False
    ) -> Sequence[Any]:
        """The results, in order. The first failure is raised, or with `return_errors` stands in its place."""
        ids = [task.id for task in tasks]
        ended = self.converse(conversations.wait_for_all(ids, timeout, time.monotonic))
        if return_errors:
            return [failure_of(ended[task_id]) or ended[task_id].result for task_id in ids]
        return [result_of(ended[task_id]) for task_id in ids]

    def preview(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> PreviewDocument:
        """What would become of it: refused as `submit` would be, else where and when. Nothing is stored."""
        spec: TaskSpec = {"command": command, **work}
        return self.perform(insight_calls.preview(spec))

    # --- reading

    def handle(self, task_id: int) -> TaskHandle:
        """A handle on a task submitted earlier. No request is made."""
        return TaskHandle(self, task_id)

    def get(self, task_id: int) -> TaskDocument:
        return self.perform(calls.task(task_id))

    def list(
        self,
        *,
        state: str | None = None,
        status: str | None = None,
        name: str | None = None,
        tag: tuple[str, str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TaskPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the one after it."""
        return self.perform(calls.tasks(state=state, status=status, name=name, tag=tag, limit=limit, cursor=cursor))

    def why(self, task_id: int) -> WhyDocument:
        return self.perform(insight_calls.why(task_id))

    def attempts(self, task_id: int) -> Sequence[AttemptDocument]:
        return (self.perform(calls.attempts(task_id))).attempts

    def log(self, task_id: int, *, attempt: int | None = None, stream: str | None = None) -> bytes:
        return self.perform(calls.log(task_id, attempt=attempt, stream=stream))

    def follow(self, task_id: int, *, attempt: int | None = None) -> Iterator[LogChunk | LogEnd]:
        return self._transport.follow(LogReader(task_id, attempt=attempt))

    def me(self) -> Me:
        return self.perform(cluster_calls.me())

    def nodes(self) -> Sequence[NodeDocument]:
        return (self.perform(cluster_calls.nodes())).nodes

    # --- changing

    def cancel(self, task_ids: int | Iterable[int]) -> CancelManyAnswer:
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(calls.cancel_many(ids))

    def retry(self, task_id: int) -> TaskHandle:
        return self.handle(task_id).retry()

    def dead(self, *, limit: int | None = None, cursor: str | None = None) -> TaskPage:
        """Tasks that used up their attempts, newest first."""
        return self.perform(calls.dead(limit=limit, cursor=cursor))

    def requeue_dead(self, task_ids: Iterable[int] | None = None) -> RequeueAnswer:
        """Run dead letters again, as new tasks; None means all of them."""
        return self.perform(calls.requeue_dead(None if task_ids is None else [*task_ids]))

    def discard_dead(self, task_ids: Iterable[int] | None = None) -> DiscardAnswer:
        """Take dead letters off the list; None means all of them."""
        return self.perform(calls.discard_dead(None if task_ids is None else [*task_ids]))

    def concurrency_keys(self) -> Sequence[KeyDocument]:
        """Concurrency keys with live tasks, and those that are cooled down."""
        return (self.perform(key_calls.keys())).keys

    def cool_key(self, name: str, seconds: float | str) -> CoolAnswer:
        """Start nothing with the key for so long, in any pool: "the upstream said 429". 0 ends it."""
        return self.perform(key_calls.cool_key(name, seconds))

    # --- sending

    def perform(self, call: Call[Answer]) -> Answer:
        """Send any call and read its answer."""
        return self._transport.perform(call)

    def exchange(self, call: Call[Any]) -> bytes:
        """Send any call; its answer exactly as the server wrote it."""
        return self._transport.exchange(call)

    def converse(self, conversation: Conversation[Value]) -> Value:
        """Send each call of a conversation, until it has its value."""
        try:
            call = next(conversation)
            while True:
                call = conversation.send(self.perform(call))
        except StopIteration as end:
            value: Value = end.value
            return value

    def _fresh_key(self) -> str | None:
        return uuid.uuid4().hex if self._retry_seconds > 0 else None
