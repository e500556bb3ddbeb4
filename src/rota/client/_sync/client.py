"""The blocking face of Rota: Client, which hands out TaskHandles.

Each method names a call (`calls.py`) or a conversation (`conversations.py`) and sends it; nothing else is
decided here, so that this file and its twin `async_client.py` can only differ in `await`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from rota.client._sync.artifacts import Artifacts
from rota.client._sync.graphs import ArrayHandle, Graphs
from rota.client._sync.handle import TaskHandle
from rota.client._sync.once import Once
from rota.client._sync.transport import SyncTransport
from rota.client.calls import (
    cluster_calls,
    conversations,
    dead_calls,
    edit_calls,
    key_calls,
    manifest_calls,
    task_calls,
    waiting_calls,
)
from rota.client.calls.conversations import Conversation
from rota.client.calls.dead_calls import DeadFilter
from rota.client.calls.edit_calls import EditOptions, HoldAnswer
from rota.client.calls.outcomes import failure_of, typed_result
from rota.client.calls.schedule_calls import Schedules
from rota.client.calls.secret_calls import Secrets
from rota.client.calls.task_calls import Answer, Call
from rota.client.calls.webhook_calls import Webhooks
from rota.client.errors import Refused
from rota.client.functions import TaskFunction, array_spec
from rota.client.manifest.load import load_manifest
from rota.client.options import Duration, HasId, TaskOptions, TaskSpec, WorkOptions, local_files, with_artifacts
from rota.client.transport.event_reader import EventReader
from rota.client.transport.log_reader import LogItem, LogReader
from rota.client.transport.profile import resolve
from rota.model.answers.cluster import Me, NodeDocument
from rota.model.answers.concurrency_keys import CoolAnswer, KeyDocument
from rota.model.answers.dead_letters import DeadCount, DeadDocument, DiscardAnswer, RequeueAnswer
from rota.model.answers.events import EventDocument
from rota.model.answers.schedules import ScheduleDocument
from rota.model.answers.tasks import AttemptDocument, CancelManyAnswer, TaskDocument, TaskPage
from rota.model.answers.waiting import PreviewDocument, WhyDocument

Value = TypeVar("Value")

RETRY_SECONDS = 30.0


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
        self.artifacts = Artifacts(self._transport)
        self._retry_seconds = retry_seconds
        self.secrets = Secrets(self)
        self.schedules = Schedules(self)
        self.graphs = Graphs(self)
        self.webhooks = Webhooks(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # --- submitting

    def submit(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> TaskHandle:
        """Hand one task over. It is durable when this returns. Local files it brings along are uploaded first."""
        spec: TaskSpec = {"command": command, **work}
        [spec] = self.with_uploads([spec])
        return TaskHandle(self, (self.perform(task_calls.submit(spec, self._fresh_key()))).id)

    def submit_many(self, specs: Iterable[TaskSpec]) -> Sequence[TaskHandle]:
        """Hand many over in one request: all are accepted, or none. `after` may name another's `ref`."""
        ready = self.with_uploads(tuple(specs))
        ids = self.converse(conversations.submit_many(ready, self._fresh_key))
        return [TaskHandle(self, task_id) for task_id in ids]

    def map(
        self,
        function: TaskFunction[..., Any] | str,
        items: Iterable[Any],
        *,
        at_once: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> ArrayHandle:
        """One task an item, with the item as its argument, as one array: `client.map(resize, paths, at_once=50)`."""
        spec = array_spec(function, items, at_once, options)
        made = self.perform(task_calls.submit(spec, self._fresh_key()))
        return ArrayHandle(self, made.id, getattr(function, "returns", None))

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

    def schedule_manifest(self, manifest: str | Path, variables: Mapping[str, str] | None = None) -> ScheduleDocument:
        """Make the schedule that a `rota.yaml` with `schedule:` describes."""
        read = load_manifest(manifest, variables)
        try:
            return self.perform(manifest_calls.scheduled(read, said={}))
        except Refused as refusal:
            raise read.placed(refusal, of_schedule=True) if refusal.faults else refusal from None

    def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]:
        """The specs with artifacts in the place of files that are here, which are sent first."""
        made = {}
        for source, name in local_files(specs).items():
            made[source] = (self.artifacts.upload(source, name=name)).id
        return [with_artifacts(spec, made) for spec in specs] if made else specs

    def gather(
        self, tasks: Iterable[HasId], timeout: float | None = None, *, return_errors: bool = False
    ) -> Sequence[Any]:
        """The results, in order. The first failure is raised, or with `return_errors` stands in its place."""
        wanted = [(task.id, getattr(task, "returns", None)) for task in tasks]
        ids = [task_id for task_id, _ in wanted]
        ended = self.converse(conversations.wait_for_all(ids, timeout, time.monotonic))
        if return_errors:
            return [failure_of(ended[task_id]) or typed_result(ended[task_id], kind) for task_id, kind in wanted]
        return [typed_result(ended[task_id], kind) for task_id, kind in wanted]

    def preview(self, command: Sequence[str] | None = None, **work: Unpack[WorkOptions]) -> PreviewDocument:
        """What would become of it: refused as `submit` would be, else where and when. Nothing is stored."""
        spec: TaskSpec = {"command": command, **work}
        return self.perform(waiting_calls.preview(spec))

    # --- reading

    def handle(self, task_id: int) -> TaskHandle:
        """A handle on a task submitted earlier. No request is made."""
        return TaskHandle(self, task_id)

    def get(self, task_id: int) -> TaskDocument:
        return self.perform(task_calls.task(task_id))

    def list(
        self,
        *,
        state: str | None = None,
        status: str | None = None,
        name: str | None = None,
        tag: tuple[str, str] | None = None,
        schedule: str | None = None,
        graph: int | None = None,
        worker: str | None = None,
        user: str | None = None,
        since: str | None = None,
        until: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TaskPage:
        """One page, newest first. Pass the page's `next` as `cursor` for the one after it.

        `since` and `until` (when it was submitted) are `10m` or a time with its offset.
        """
        call = task_calls.tasks(
            state=state, status=status, name=name, tag=tag, schedule=schedule, graph=graph, worker=worker, user=user,
            since=since, until=until, tenant=tenant, limit=limit, cursor=cursor,
        )  # fmt: skip
        return self.perform(call)

    def why(self, task_id: int) -> WhyDocument:
        return self.perform(waiting_calls.why(task_id))

    def attempts(self, task_id: int) -> Sequence[AttemptDocument]:
        return (self.perform(task_calls.attempts(task_id))).attempts

    def log(
        self,
        task_id: int,
        *,
        attempt: int | None = None,
        stream: str | None = None,
        since: str | None = None,
        tail: int | None = None,
    ) -> bytes:
        return self.perform(task_calls.log(task_id, attempt=attempt, stream=stream, since=since, tail=tail))

    def follow(
        self,
        task_id: int,
        *,
        attempt: int | None = None,
        stream: str | None = None,
        since: str | None = None,
        tail: int | None = None,
        progress: bool = False,
    ) -> Iterator[LogItem]:
        """Output as it comes, until the task has ended; the last item is a LogEnd."""
        reader = LogReader(task_id, attempt=attempt, stream=stream, since=since, tail=tail, progress=progress)
        return self._transport.follow(reader)

    def events(
        self,
        *,
        types: Iterable[str] | None = None,
        task: int | None = None,
        schedule: str | None = None,
        name: str | None = None,
        tag: tuple[str, str] | None = None,
        after: str | None = None,
        since: str | None = None,
        follow: bool = True,
    ) -> Iterator[EventDocument]:
        """What happens to your tasks and schedules, as it comes; without `follow`, what happened so far.

        `after` is the id of the last event seen; `since` is `10m` or a time with its offset.
        """
        reader = EventReader(
            types=types, task=task, schedule=schedule, name=name, tag=tag, after=after, since=since, follow=follow
        )
        return self.listen(reader)

    def listen(self, reader: EventReader) -> Iterator[EventDocument]:
        """As `events`, for those who keep the reader: it knows the place."""
        return self._transport.listen(reader)

    def me(self) -> Me:
        return self.perform(cluster_calls.me())

    def nodes(self) -> Sequence[NodeDocument]:
        return (self.perform(cluster_calls.nodes())).nodes

    # --- changing

    def cancel(self, task_ids: int | Iterable[int]) -> CancelManyAnswer:
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(task_calls.cancel_many(ids))

    def retry(self, task_id: int) -> TaskHandle:
        return self.handle(task_id).retry()

    def edit(self, task_id: int, *, version: int | None = None, **changes: Unpack[EditOptions]) -> TaskDocument:
        """Changes a task that waits: priority, lane, cap, tolerance, pool.

        With `version` (of the document that was read) only if it has not changed since; else as it is now.
        """
        return self.converse(edit_calls.edited(task_id, changes, version))

    def hold(self, task_ids: int | Iterable[int], reason: str = "") -> HoldAnswer:
        """Hold waiting tasks back until they are released; those that run are refused."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(edit_calls.hold_many(ids, reason))

    def release(self, task_ids: int | Iterable[int]) -> HoldAnswer:
        """Let held tasks go on."""
        ids = [task_ids] if isinstance(task_ids, int) else [*task_ids]
        return self.perform(edit_calls.release_many(ids))

    def once(
        self,
        key: str,
        function: Callable[[], Any] | None = None,
        *,
        lease: Duration = 60,
        timeout: float | None = None,
    ) -> Any:
        """An effect that must not happen twice: with a function, its value or what was recorded the first time.

        Without one, a context with `first`, `done(result)` and `result`. The claim lapses after `lease`.
        """
        once = Once(self.perform, key, lease=lease, timeout=timeout)
        if function is None:
            return once
        with once:
            if once.first:
                once.done(function())
        return once.result

    def dead(self, *, limit: int | None = None, cursor: str | None = None, **wanted: Unpack[DeadFilter]) -> TaskPage:
        """Tasks that used up their attempts, newest first: all, or `name="etl", over="memory", since="1d"`."""
        return self.perform(dead_calls.dead(wanted, limit=limit, cursor=cursor))

    def dead_letter(self, task_id: int) -> DeadDocument:
        """One of them with its whole history: every attempt, and all runs of the same work."""
        return self.perform(dead_calls.letter(task_id))

    def count_dead(self, **wanted: Unpack[DeadFilter]) -> DeadCount:
        """How many a filter means."""
        return self.perform(dead_calls.count(wanted))

    def requeue_dead(self, task_ids: Iterable[int] | None = None, **wanted: Unpack[DeadFilter]) -> RequeueAnswer:
        """Run dead letters again, as new tasks: these, those a filter means, or all; up to 1,000 a call."""
        return self.perform(dead_calls.requeue(None if task_ids is None else [*task_ids], wanted))

    def discard_dead(self, task_ids: Iterable[int] | None = None, **wanted: Unpack[DeadFilter]) -> DiscardAnswer:
        """Take dead letters off the list: these, those a filter means, or all."""
        return self.perform(dead_calls.discard(None if task_ids is None else [*task_ids], wanted))

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
