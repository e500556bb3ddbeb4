# Generated from ../_async by scripts/unasync; edit that.
"""The client: one method for each thing a program asks of Rota.

A method names a call (`calls/`) or a conversation (`calls/conversations.py`) and sends it; it decides nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from rota.client._sync.artifacts import Artifacts
from rota.client._sync.batch import Batch
from rota.client._sync.graphs import ArrayHandle, Graphs
from rota.client._sync.handle import TaskHandle
from rota.client._sync.once import Once
from rota.client._sync.operations import Operations
from rota.client._sync.schedules import Schedules
from rota.client._sync.secrets import Secrets
from rota.client._sync.transport import Transport
from rota.client._sync.webhooks import Webhooks
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
from rota.client.transport.blocking import in_thread
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


class Client:
    """A connection to Rota. Threads may share a blocking client; an async client belongs to one event loop.

        with Client() as rota:
            task = rota.submit(["echo", "hi"], memory="128M")
            ended = task.wait()
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
        self._transport = Transport(resolve(server, token), retry_seconds)
        self.artifacts = Artifacts(self._transport)
        self.longest_wait_seconds = self._transport.longest_wait_seconds
        self.secrets = Secrets(self)
        self.schedules = Schedules(self)
        self.graphs = Graphs(self)
        self.operations = Operations(self)
        self.webhooks = Webhooks(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # --- submitting

    def submit(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> TaskHandle:
        """Submits one task. It is durable when this returns. Its local files are uploaded first."""
        spec: TaskSpec = {"command": command, **work}
        [spec] = self.with_uploads([spec])
        return TaskHandle(self, self.perform(task_calls.submit(spec, self._fresh_key())).id)

    def submit_many(self, specs: Iterable[TaskSpec]) -> Sequence[TaskHandle]:
        """Submits many tasks in one request: all are accepted, or none. `after` may name the `ref` of another."""
        ready = self.with_uploads(tuple(specs))
        ids = self.converse(conversations.submit_many(ready, self._fresh_key))
        return self.handles(ids)

    def map(
        self,
        function: Submittable | str,
        items: Iterable[Any],
        *,
        at_once: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> ArrayHandle:
        """Submits an array: one task for each item, with the item as its argument.

        `function` is a `@task` function or its name, `module:name`; at most `at_once` of the tasks run concurrently.
        """
        spec = array_spec(function, items, at_once, options)
        made = self.perform(task_calls.submit(spec, self._fresh_key()))
        return ArrayHandle(self, made.id, getattr(function, "returns", None))

    def submit_manifest(
        self, manifest: str | Path, variables: Mapping[str, str] | None = None
    ) -> Mapping[str, TaskHandle]:
        """Submits the tasks of a `rota.yaml`, all or none, and returns their handles by name.

        `manifest` is the path of the file, or its text. `ManifestError` lists all faults before anything is sent.
        """
        read = in_thread(load_manifest, manifest, variables)
        try:
            ids = self.converse(manifest_calls.submitted(read, self._fresh_key()))
        except Refused as refusal:
            raise read.located(refusal) if refusal.faults else refusal from None
        return dict(zip(ids, self.handles([*ids.values()]), strict=True))

    def schedule_manifest(self, manifest: str | Path, variables: Mapping[str, str] | None = None) -> AppliedSchedule:
        """Makes the schedule that a `rota.yaml` with `schedule:` describes, or changes it to be like the file.

        The same file again changes nothing: the answer's `result` is created, changed or unchanged.
        """
        read = in_thread(load_manifest, manifest, variables)
        try:
            return self.perform(manifest_calls.applied(read, options={}))
        except Refused as refusal:
            raise read.located(refusal, of_schedule=True) if refusal.faults else refusal from None

    def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]:
        """Uploads the local files of the specs, and returns the specs with artifact ids instead."""
        made = {}
        for source, name in local_files(specs).items():
            made[source] = self.artifacts.upload(source, name=name).id
        return [with_artifacts(spec, made) for spec in specs] if made else specs

    def gather(
        self, tasks: Iterable[HasId], timeout: float | None = None, *, return_errors: bool = False
    ) -> Sequence[Any]:
        """The results, in order. The first failure is raised, or with `return_errors` all are returned in place."""
        expected = [(task.id, getattr(task, "returns", None)) for task in tasks]
        ids = [task_id for task_id, _ in expected]
        ended = self.converse(
            conversations.wait_for_all(ids, timeout, time.monotonic, longest_seconds=self.longest_wait_seconds)
        )
        if return_errors:
            return [failure_of(ended[task_id]) or typed_result(ended[task_id], kind) for task_id, kind in expected]
        return [typed_result(ended[task_id], kind) for task_id, kind in expected]

    def preview(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> PreviewDocument:
        """Checks a task as `submit` does, and says where and when it would start. Nothing is stored or uploaded."""
        [spec], uploads = in_thread(planned_uploads, [{"command": command, **work}])
        return self.perform(waiting_calls.preview(spec, uploads))

    # --- reading

    def handle(self, task_id: int) -> TaskHandle:
        """A handle on a task submitted earlier. No request is made."""
        return TaskHandle(self, task_id)

    def handles(self, task_ids: Iterable[int]) -> Sequence[TaskHandle]:
        """Handles on tasks submitted earlier, whose results come many at once. No request is made."""
        ids = tuple(task_ids)
        batch = Batch(self, ids)
        return [TaskHandle(self, one, batch=batch, position=place) for place, one in enumerate(ids)]

    def get(self, task_id: int) -> TaskDocument:
        """The task as it is now."""
        return self.perform(task_calls.task(task_id))

    def list(self, **filters: Unpack[TaskFilter]) -> TaskPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the page after it.

        `since` and `until` select by the time of submission: `10m` ago, or a time with its offset.
        """
        return self.perform(task_calls.tasks(**filters))

    def why(self, task_id: int) -> TaskExplanation:
        """Why a task waits, its position in the queue, and when it will probably start."""
        return self.perform(waiting_calls.why(task_id))

    def attempts(self, task_id: int) -> Sequence[AttemptDocument]:
        """The attempts of a task, with their nodes, times and outcomes; of an array or a graph, those of each task."""
        return self.converse(conversations.attempts(task_id))

    def log(self, task_id: int, **options: Unpack[LogOptions]) -> bytes:
        """The output so far, as bytes; see `follow` for output as it comes. Of long output the middle is left out.

        `stream` is stdout or stderr, None means both; `since` is `10m` or a time with its offset; `tail` is a number of
        lines from the end.
        """
        return self.perform(task_calls.log(task_id, **options))

    def follow(self, task_id: int, *, progress: bool = False, **options: Unpack[LogOptions]) -> Iterator[LogItem]:
        """The output as it comes, until the task has ended; the last item is a LogEnd.

        The id of an array or a graph gives the output of all its tasks; each item names its task.
        """
        return self.read_log(LogReader(task_id, progress=progress, **options))

    def read_log(self, reader: LogReader) -> Iterator[LogItem]:
        """As `follow`, with a reader of your own: it keeps the last chunk, and the cursor of the next page."""
        return self._transport.stream(reader)

    def events(self, **options: Unpack[EventOptions]) -> Iterator[EventDocument]:
        """The events of your tasks and schedules as they come; without `follow`, only those until now.

        `after` is the id of the last event seen; `since` is `10m` or a time with its offset.
        """
        return self.listen(EventReader(**options))

    def listen(self, reader: EventReader) -> Iterator[EventDocument]:
        """As `events`, with a reader of your own: it keeps the id of the last event."""
        return self._transport.stream(reader)

    def audit_lines(self, reader: AuditReader) -> Iterator[str]:
        """The lines of an export of the audit log, oldest row first."""
        return self._transport.stream(reader)

    def me(self) -> Me:
        """The tenant, user and role of the token."""
        return self.perform(cluster_calls.me())

    def nodes(self) -> Sequence[NodeDocument]:
        """The nodes, with their resources and states."""
        return self.perform(cluster_calls.nodes()).nodes

    # --- changing

    def cancel(self, task_ids: int | Iterable[int], reason: str = "") -> CancelManyAnswer:
        """Cancels tasks; running ones are stopped."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(task_calls.cancel_many(ids, reason))

    def retry(self, task_id: int, reason: str = "") -> TaskHandle:
        """Submits the same work as a new task; the old one stays as it ended."""
        return self.handle(task_id).retry(reason)

    def edit(self, task_id: int, *, version: int | None = None, **changes: Unpack[EditOptions]) -> TaskDocument:
        """Changes a waiting task: priority, lane, cap, tolerance, pool, and its start time (at, delay).

        With `version` (of the document that you read), only if the task has not changed since.
        """
        return self.converse(conversations.edited(task_id, changes, version))

    def hold(self, task_ids: int | Iterable[int], reason: str = "") -> HoldAnswer:
        """Holds waiting tasks until they are released; the answer lists running ones as refused."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(task_calls.hold_many(ids, reason))

    def release(self, task_ids: int | Iterable[int], reason: str = "") -> HoldAnswer:
        """Releases held tasks."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(task_calls.release_many(ids, reason))

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
        once = Once(self, key, lease=lease, timeout=timeout)
        return once if function is None else once.run(function)

    def dead(
        self, *, limit: int | None = None, cursor: str | None = None, **filters: Unpack[DeadFilter]
    ) -> DeadLetterPage:
        """One page of dead letters, newest first: all, or filtered, as by `name="etl", over="memory", since="1d"`."""
        return self.perform(dead_letter_calls.dead(filters, limit=limit, cursor=cursor))

    def dead_letter(self, task_id: int) -> DeadLetterDocument:
        """A dead letter with its whole history: every attempt, and all runs of the same work."""
        return self.perform(dead_letter_calls.letter(task_id))

    def requeue_dead(self, task_ids: Iterable[int]) -> RequeueAnswer:
        """Runs dead letters again, as new tasks; up to 1,000 a call. By filter: `operations.start("requeue", …)`."""
        return self.perform(dead_letter_calls.requeue([*task_ids]))

    def discard_dead(self, task_ids: Iterable[int]) -> DiscardAnswer:
        """Removes dead letters from the list; up to 1,000 a call. By filter: `operations.start("discard", …)`."""
        return self.perform(dead_letter_calls.discard([*task_ids]))

    def concurrency_keys(self) -> Sequence[ConcurrencyKeyDocument]:
        """The concurrency keys that have live tasks or a cool-down."""
        return self.perform(waiting_calls.concurrency_keys()).keys

    def cool_key(self, name: str, seconds: float | str) -> CooledKey:
        """Starts no task with this concurrency key for so many seconds, in any pool; 0 ends the cool-down."""
        return self.perform(waiting_calls.cool_key(name, seconds))

    # --- sending

    def perform(self, call: Call[Answer]) -> Answer:
        """Sends any call and reads its answer."""
        return self._transport.perform(call)

    def exchange(self, call: Call[Any]) -> bytes:
        """Sends any call; its answer exactly as the server wrote it."""
        return self._transport.exchange(call)

    def converse(self, conversation: Conversation[Value]) -> Value:
        """Sends each call of a conversation, until it has its value."""
        try:
            call = next(conversation)
            while True:
                call = conversation.send(self.perform(call))
        except StopIteration as end:
            value: Value = end.value
            return value

    def _fresh_key(self) -> str | None:
        return uuid.uuid4().hex if self._transport.repeats else None
