"""The client: one method for each thing a program asks of Rota.

A method names a call (`calls/`) or a conversation (`calls/conversations.py`) and sends it; it decides nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from rota.client._async.artifacts import AsyncArtifacts
from rota.client._async.batch import AsyncBatch
from rota.client._async.graphs import AsyncArrayHandle, AsyncGraphs
from rota.client._async.handle import AsyncTaskHandle
from rota.client._async.once import AsyncOnce
from rota.client._async.operations import AsyncOperations
from rota.client._async.schedules import AsyncSchedules
from rota.client._async.secrets import AsyncSecrets
from rota.client._async.transport import AsyncTransport
from rota.client._async.webhooks import AsyncWebhooks
from rota.client.calls import cluster_calls, conversations, dead_letter_calls, manifest_calls, task_calls, waiting_calls
from rota.client.calls.artifact_calls import planned_uploads
from rota.client.calls.call import Answer, Call
from rota.client.calls.conversations import Conversation
from rota.client.calls.dead_letter_calls import DeadFilter
from rota.client.calls.outcomes import failure_of, typed_result
from rota.client.errors import Refused
from rota.client.manifest.load import load_manifest
from rota.client.options import (
    Duration,
    EditOptions,
    EventOptions,
    HasId,
    LogOptions,
    Submittable,
    TaskFilter,
    TaskOptions,
    TaskSpec,
    WorkOptions,
    array_spec,
    local_files,
    with_artifacts,
)
from rota.client.transport.audit_reader import AuditReader
from rota.client.transport.awaiting import in_thread
from rota.client.transport.event_reader import EventReader
from rota.client.transport.log_reader import LogItem, LogReader
from rota.client.transport.profile import resolve
from rota.model.answers.cluster import Me, NodeDocument
from rota.model.answers.dead_letters import DeadLetterDocument, DeadLetterPage, DiscardAnswer, RequeueAnswer
from rota.model.answers.events import EventDocument
from rota.model.answers.schedules import AppliedSchedule
from rota.model.answers.task_changes import CancelManyAnswer, HoldAnswer
from rota.model.answers.tasks import AttemptDocument, TaskDocument, TaskPage
from rota.model.answers.waiting import ConcurrencyKeyDocument, CooledKey, PreviewDocument, TaskExplanation

Value = TypeVar("Value")

RETRY_SECONDS = 30.0


class AsyncClient:
    """A connection to Rota. Threads may share a blocking client; an async client belongs to one event loop.

        async with AsyncClient() as rota:
            task = await rota.submit(["echo", "hi"], memory="128M")
            ended = await task.wait()
            print(ended.exit_code)

    `server` is one address, or several of a cluster with commas: `http://a:7070,http://b:7070`. The first is preferred;
    when a server fails, a request goes on to the next within a second.

    A request that fails because the connection is lost is retried for up to `retry_seconds`. Every submit carries an
    idempotency key, so a retry never submits twice. With `retry_seconds=0` every server is tried once; with one server
    nothing is retried, and no key is made.
    """

    def __init__(
        self, server: str | None = None, token: str | None = None, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._transport = AsyncTransport(resolve(server, token), retry_seconds)
        self.artifacts = AsyncArtifacts(self._transport)
        self.longest_wait_seconds = self._transport.longest_wait_seconds
        self.secrets = AsyncSecrets(self)
        self.schedules = AsyncSchedules(self)
        self.graphs = AsyncGraphs(self)
        self.operations = AsyncOperations(self)
        self.webhooks = AsyncWebhooks(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # --- submitting

    async def submit(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> AsyncTaskHandle:
        """Submits one task. It is durable when this returns. Its local files are uploaded first."""
        spec: TaskSpec = {"command": command, **work}
        [spec] = await self.with_uploads([spec])
        return AsyncTaskHandle(self, (await self.perform(task_calls.submit(spec, self._fresh_key()))).id)

    async def submit_many(self, specs: Iterable[TaskSpec]) -> Sequence[AsyncTaskHandle]:
        """Submits many tasks in one request: all are accepted, or none. `after` may name the `ref` of another."""
        ready = await self.with_uploads(tuple(specs))
        ids = await self.converse(conversations.submit_many(ready, self._fresh_key))
        return self.handles(ids)

    async def map(
        self,
        function: Submittable | str,
        items: Iterable[Any],
        *,
        at_once: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> AsyncArrayHandle:
        """Submits an array: one task for each item, with the item as its argument.

        `function` is a `@task` function or its name, `module:name`; at most `at_once` of the tasks run concurrently.
        """
        spec = array_spec(function, items, at_once, options)
        made = await self.perform(task_calls.submit(spec, self._fresh_key()))
        return AsyncArrayHandle(self, made.id, getattr(function, "returns", None))

    async def submit_manifest(
        self, manifest: str | Path, variables: Mapping[str, str] | None = None
    ) -> Mapping[str, AsyncTaskHandle]:
        """Submits the tasks of a `rota.yaml`, all or none, and returns their handles by name.

        `manifest` is the path of the file, or its text. `ManifestError` lists all faults before anything is sent.
        """
        read = await in_thread(load_manifest, manifest, variables)
        try:
            ids = await self.converse(manifest_calls.submitted(read, self._fresh_key()))
        except Refused as refusal:
            raise read.located(refusal) if refusal.faults else refusal from None
        return dict(zip(ids, self.handles([*ids.values()]), strict=True))

    async def schedule_manifest(
        self, manifest: str | Path, variables: Mapping[str, str] | None = None
    ) -> AppliedSchedule:
        """Makes the schedule that a `rota.yaml` with `schedule:` describes, or changes it to be like the file.

        The same file again changes nothing: the answer's `result` is created, changed or unchanged.
        """
        read = await in_thread(load_manifest, manifest, variables)
        try:
            return await self.perform(manifest_calls.applied(read, options={}))
        except Refused as refusal:
            raise read.located(refusal, of_schedule=True) if refusal.faults else refusal from None

    async def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]:
        """Uploads the local files of the specs, and returns the specs with artifact ids instead."""
        made = {}
        for source, name in local_files(specs).items():
            made[source] = (await self.artifacts.upload(source, name=name)).id
        return [with_artifacts(spec, made) for spec in specs] if made else specs

    async def gather(
        self, tasks: Iterable[HasId], timeout: float | None = None, *, return_errors: bool = False
    ) -> Sequence[Any]:
        """The results, in order. The first failure is raised, or with `return_errors` all are returned in place."""
        expected = [(task.id, getattr(task, "returns", None)) for task in tasks]
        ids = [task_id for task_id, _ in expected]
        ended = await self.converse(
            conversations.wait_for_all(ids, timeout, time.monotonic, longest_seconds=self.longest_wait_seconds)
        )
        if return_errors:
            return [failure_of(ended[task_id]) or typed_result(ended[task_id], kind) for task_id, kind in expected]
        return [typed_result(ended[task_id], kind) for task_id, kind in expected]

    async def preview(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> PreviewDocument:
        """Checks a task as `submit` does, and says where and when it would start. Nothing is stored or uploaded."""
        [spec], uploads = await in_thread(planned_uploads, [{"command": command, **work}])
        return await self.perform(waiting_calls.preview(spec, uploads))

    # --- reading

    def handle(self, task_id: int) -> AsyncTaskHandle:
        """A handle on a task submitted earlier. No request is made."""
        return AsyncTaskHandle(self, task_id)

    def handles(self, task_ids: Iterable[int]) -> Sequence[AsyncTaskHandle]:
        """Handles on tasks submitted earlier, whose results come many at once. No request is made."""
        ids = tuple(task_ids)
        batch = AsyncBatch(self, ids)
        return [AsyncTaskHandle(self, one, batch=batch, position=place) for place, one in enumerate(ids)]

    async def get(self, task_id: int) -> TaskDocument:
        """The task as it is now."""
        return await self.perform(task_calls.task(task_id))

    async def list(self, **filters: Unpack[TaskFilter]) -> TaskPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the page after it.

        `since` and `until` select by the time of submission: `10m` ago, or a time with its offset.
        """
        return await self.perform(task_calls.tasks(**filters))

    async def why(self, task_id: int) -> TaskExplanation:
        """Why a task waits, its position in the queue, and when it will probably start."""
        return await self.perform(waiting_calls.why(task_id))

    async def attempts(self, task_id: int) -> Sequence[AttemptDocument]:
        """The attempts of a task, with their nodes, times and outcomes; of an array or a graph, those of each task."""
        return await self.converse(conversations.attempts(task_id))

    async def log(self, task_id: int, **options: Unpack[LogOptions]) -> bytes:
        """The output so far, as bytes; see `follow` for output as it comes. Of long output the middle is left out.

        `stream` is stdout or stderr, None means both; `since` is `10m` or a time with its offset; `tail` is a number of
        lines from the end.
        """
        return await self.perform(task_calls.log(task_id, **options))

    def follow(self, task_id: int, *, progress: bool = False, **options: Unpack[LogOptions]) -> AsyncIterator[LogItem]:
        """The output as it comes, until the task has ended; the last item is a LogEnd.

        The id of an array or a graph gives the output of all its tasks; each item names its task.
        """
        return self.read_log(LogReader(task_id, progress=progress, **options))

    def read_log(self, reader: LogReader) -> AsyncIterator[LogItem]:
        """As `follow`, with a reader of your own: it keeps the last chunk, and the cursor of the next page."""
        return self._transport.stream(reader)

    def events(self, **options: Unpack[EventOptions]) -> AsyncIterator[EventDocument]:
        """The events of your tasks and schedules as they come; without `follow`, only those until now.

        `after` is the id of the last event seen; `since` is `10m` or a time with its offset.
        """
        return self.listen(EventReader(**options))

    def listen(self, reader: EventReader) -> AsyncIterator[EventDocument]:
        """As `events`, with a reader of your own: it keeps the id of the last event."""
        return self._transport.stream(reader)

    def audit_lines(self, reader: AuditReader) -> AsyncIterator[str]:
        """The lines of an export of the audit log, oldest row first."""
        return self._transport.stream(reader)

    async def me(self) -> Me:
        """The tenant, user and role of the token."""
        return await self.perform(cluster_calls.me())

    async def nodes(self) -> Sequence[NodeDocument]:
        """The nodes, with their resources and states."""
        return (await self.perform(cluster_calls.nodes())).nodes

    # --- changing

    async def cancel(self, task_ids: int | Iterable[int], reason: str = "") -> CancelManyAnswer:
        """Cancels tasks; running ones are stopped."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return await self.perform(task_calls.cancel_many(ids, reason))

    async def retry(self, task_id: int, reason: str = "") -> AsyncTaskHandle:
        """Submits the same work as a new task; the old one stays as it ended."""
        return await self.handle(task_id).retry(reason)

    async def edit(self, task_id: int, *, version: int | None = None, **changes: Unpack[EditOptions]) -> TaskDocument:
        """Changes a waiting task: priority, lane, cap, tolerance, pool, and its start time (at, delay).

        With `version` (of the document that you read), only if the task has not changed since.
        """
        return await self.converse(conversations.edited(task_id, changes, version))

    async def hold(self, task_ids: int | Iterable[int], reason: str = "") -> HoldAnswer:
        """Holds waiting tasks until they are released; the answer lists running ones as refused."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return await self.perform(task_calls.hold_many(ids, reason))

    async def release(self, task_ids: int | Iterable[int], reason: str = "") -> HoldAnswer:
        """Releases held tasks."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return await self.perform(task_calls.release_many(ids, reason))

    def once(
        self,
        key: str,
        function: Callable[[], Any] | None = None,
        *,
        lease: Duration = 60,
        timeout: float | None = None,
    ) -> Any:
        """An effect that must not happen twice: calls the function, or returns the result recorded the first time.

        Without a function, a context with `first`, `done(result)` and `result`. The claim expires after `lease`.
        A function of the async client may be async.
        """
        once = AsyncOnce(self, key, lease=lease, timeout=timeout)
        return once if function is None else once.run(function)

    async def dead(
        self, *, limit: int | None = None, cursor: str | None = None, **filters: Unpack[DeadFilter]
    ) -> DeadLetterPage:
        """One page of dead letters, newest first: all, or filtered, as by `name="etl", over="memory", since="1d"`."""
        return await self.perform(dead_letter_calls.dead(filters, limit=limit, cursor=cursor))

    async def dead_letter(self, task_id: int) -> DeadLetterDocument:
        """A dead letter with its whole history: every attempt, and all runs of the same work."""
        return await self.perform(dead_letter_calls.letter(task_id))

    async def requeue_dead(self, task_ids: Iterable[int]) -> RequeueAnswer:
        """Runs dead letters again, as new tasks; up to 1,000 a call. By filter: `operations.start("requeue", …)`."""
        return await self.perform(dead_letter_calls.requeue([*task_ids]))

    async def discard_dead(self, task_ids: Iterable[int]) -> DiscardAnswer:
        """Removes dead letters from the list; up to 1,000 a call. By filter: `operations.start("discard", …)`."""
        return await self.perform(dead_letter_calls.discard([*task_ids]))

    async def concurrency_keys(self) -> Sequence[ConcurrencyKeyDocument]:
        """The concurrency keys that have live tasks or a cool-down."""
        return (await self.perform(waiting_calls.concurrency_keys())).keys

    async def cool_key(self, name: str, seconds: float | str) -> CooledKey:
        """Starts no task with this concurrency key for so many seconds, in any pool; 0 ends the cool-down."""
        return await self.perform(waiting_calls.cool_key(name, seconds))

    # --- sending

    async def perform(self, call: Call[Answer]) -> Answer:
        """Sends any call and reads its answer."""
        return await self._transport.perform(call)

    async def exchange(self, call: Call[Any]) -> bytes:
        """Sends any call; its answer exactly as the server wrote it."""
        return await self._transport.exchange(call)

    async def converse(self, conversation: Conversation[Value]) -> Value:
        """Sends each call of a conversation, until it has its value."""
        try:
            call = next(conversation)
            while True:
                call = conversation.send(await self.perform(call))
        except StopIteration as end:
            value: Value = end.value
            return value

    def _fresh_key(self) -> str | None:
        return uuid.uuid4().hex if self._transport.repeats else None
