"""What a function sees and reports while it runs: its task's id, attempt and grant, its progress, the results of the
tasks it depends on, and a request to be retried later.

    from rota import current

    ctx = current()
    ctx.progress(0.4, "epoch 4/10")
    ctx.results["prepare"]              # what the task named prepare returned
    ctx.retry(in_=60, reason="busy")    # ends this attempt now
    ctx.once("charge-42", charge)       # never twice, whatever happens
    ctx.checkpoint.save(state)          # for the next attempt; ctx.checkpoint.load() gives it back

Set by the child around each call. One call runs at a time per process, so one variable serves all its threads.
Every warm child loads it.
"""

from __future__ import annotations

import functools
import importlib
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from rota import running_task
from rota.model.attempt import Input
from rota.model.progress import Progress
from rota.model.secret import Secret, SecretMap
from rota.running_task import RunningTask

if TYPE_CHECKING:
    from rota.execute.child.checkpoint import KeptValue
    from rota.execute.child.questions import AgentQuestions
    from rota.model.once import OnceAnswer, OnceAsk

NO_SECRETS = SecretMap()
NO_DEVICES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
LONGEST_RETRY_SECONDS = 30 * 86_400


class NotInTask(RuntimeError):
    """`current()` was called in a process that is not running a Rota function."""


class RetryLater(BaseException):
    """Ends the attempt; raised by `ctx.retry`. Not an `Exception`: a function's own `except Exception` lets it pass."""

    def __init__(self, after_ms: int, reason: str) -> None:
        super().__init__(f"asked to be tried again in {after_ms / 1000:g}s" + (f": {reason}" if reason else ""))
        self.after_ms = after_ms


class Results(Mapping[str | int, object]):
    """Results of the tasks it depends on, by name and by id. Of several with one name the last submitted counts."""

    def __init__(self, inputs: tuple[Input, ...]) -> None:
        self._by_key: dict[str | int, Input] = {}
        for dependency in inputs:
            self._by_key[dependency.name] = self._by_key[dependency.task] = dependency

    def __getitem__(self, key: str | int) -> object:
        dependency = self._by_key.get(key)
        if dependency is None:
            known = ", ".join(str(name) for name in self) or "none"
            raise KeyError(
                f"no task {key!r} among those this one depends on that returned something; there are {known}"
            )
        if dependency.result is None:
            raise KeyError(
                f"the result of task {dependency.task} ({dependency.name}) is too large to be passed on; "
                f"fetch it: Client().handle({dependency.task}).result()"
            )
        return msgspec.json.decode(dependency.result)

    def __rota_json__(self) -> dict[str, object]:
        """Each result once: by its task's name, or by the id if the name is missing or stands for another one."""
        tasks = {one.task: one for one in self._by_key.values()}
        named = {id(one): name for name, one in self._by_key.items() if isinstance(name, str) and name}
        return {named.get(id(one), str(task)): self[task] for task, one in tasks.items()}

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


class TaskContext(msgspec.Struct, frozen=True):
    task_id: int
    attempt: int
    idempotency_key: str
    name: str
    ports: tuple[int, ...] = ()  # TCP ports that belong to this attempt alone
    gpus: tuple[int, ...] = ()  # GPUs it may use, whole or a part of one
    secrets: SecretMap = NO_SECRETS  # values by name, of the secrets the task named; also in the environment
    inputs: tuple[Input, ...] = ()
    call: int = 0  # its number in this process
    scheduled_for: datetime | None = None  # set in a run of a schedule: its instant
    interval_start: datetime | None = None  # the previous instant
    interval_end: datetime | None = None
    index: int | None = None  # set in an array
    devices: Mapping[str, tuple[int, ...]] = NO_DEVICES  # its own devices by kind, without GPUs
    server: str = ""  # where it may submit, as `Client()` does by itself; "": it may not
    key: Secret | None = None  # for that; `Client()` finds it

    def __rota_json__(self) -> dict[str, object]:
        """What a function that returns its context returns: what it can read there, with the results for the inputs."""
        inner = ("inputs", "call")
        known = {name: getattr(self, name) for name in self.__struct_fields__ if name not in inner}
        return {**known, "results": self.results}

    def progress(self, fraction: float, message: str = "") -> None:
        """Reports progress, from 0 to 1, with a short message. Cheap; clients see the latest."""
        _say(self.call, Progress(_checked_fraction(fraction), str(message)))

    def retry(self, in_: float | timedelta, reason: str = "") -> NoReturn:
        """Ends this attempt now; the task is retried in that many seconds, if it has attempts left."""
        raise RetryLater(_checked_ms(in_), str(reason))

    def once(self, key: str, function: Callable[[], object] | None = None) -> Any:
        """An effect that must not happen twice, over all attempts and tasks of the tenant.

        With a function: its value if this is the first time, else the value recorded then. Without: a context with
        `first`, `done(result)` and `result`.
        """
        # Few functions use it; the others need not load it.
        module = importlib.import_module("rota.execute.child.once")
        once = module.Once(key, functools.partial(_ask, self.call))
        return once if function is None else module.run(once, function)

    @property
    def checkpoint(self) -> KeptValue:
        """The value kept from attempt to attempt: `save(value)` returns when it is durable, `load()` returns it."""
        module = importlib.import_module("rota.execute.child.checkpoint")
        kept: KeptValue = module.KeptValue(functools.partial(_keep, self.call))
        return kept

    @property
    def stopping(self) -> bool:
        """Whether the attempt has been asked to stop: paused, preempted, drained, cancelled or past its cap.

        From the first read on, SIGTERM no longer ends the function: it has the grace to save and return. An async
        function that shares its process gets an `asyncio.CancelledError` instead; there this is False.
        """
        return _here.get() is None and _is_stopping()

    @property
    def results(self) -> Results:
        return Results(self.inputs)


_current: TaskContext | None = None
_here: ContextVar[TaskContext | None] = ContextVar("rota task", default=None)  # where calls share a process
_questions: Callable[[], AgentQuestions] | None = None
_listens = False  # the current call reads `stopping`
_is_asked = False
_say: Callable[[int, Progress], None] = lambda call, progress: None  # noqa: E731 - until a child says where to


def _ask(call: int, question: OnceAsk) -> OnceAnswer:
    if _questions is None:
        raise NotInTask("there is no agent to ask: this process is not running a Rota function")
    return _questions().ask(call, question)


def _keep(call: int, word: str, descriptor: int | None) -> tuple[str, int | None]:
    if _questions is None:
        raise NotInTask("there is no agent to ask: this process is not running a Rota function")
    return _questions().keep(call, word, descriptor)


def _is_stopping() -> bool:
    global _listens
    if not _listens:
        try:
            signal.signal(signal.SIGTERM, _on_term)
        except ValueError:
            raise RuntimeError("read stopping first in the main thread: Python handles signals only there") from None
        _listens = True
    return _is_asked


def _on_term(number: int, frame: object) -> None:
    global _is_asked
    _is_asked = True


def current() -> TaskContext:
    task = _here.get() or _current
    if task is None:
        raise NotInTask("there is no current task: current() works only inside a function that Rota is running")
    return task


def with_schedule(context: TaskContext, times: tuple[str, str, str]) -> TaskContext:
    instant, start, end = (datetime.fromisoformat(text) for text in times)
    return msgspec.structs.replace(context, scheduled_for=instant, interval_start=start, interval_end=end)


def learn_index(index: int) -> None:
    """For the child program only: the current call is one of an array."""
    known = msgspec.structs.replace(current(), index=index)
    if _here.get() is not None:
        enter_here(known)
    else:
        enter(known)


def enter(context: TaskContext | None) -> None:
    """For the child program only."""
    global _current, _listens, _is_asked
    _current = context
    running_task.enter(None if context is None else _running(context))
    if _listens:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _listens = _is_asked = False


def enter_here(context: TaskContext) -> None:
    """For a child that runs calls concurrently: sets the task of this execution context only."""
    _here.set(context)
    running_task.here.set(_running(context))


def _running(context: TaskContext) -> RunningTask:
    return RunningTask(context.task_id, context.server, "" if context.key is None else context.key.value)


def connect(say: Callable[[int, Progress], None], line: Callable[[], AgentQuestions]) -> None:
    """For the child program only: sets where progress and questions go."""
    global _say, _questions
    _say, _questions = say, line


def _checked_fraction(fraction: float) -> float:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not math.isfinite(fraction):
        raise ValueError(f"progress is a number from 0 to 1, not {fraction!r:.40}")
    if not -0.001 <= fraction <= 1.001:  # rounding errors are forgiven
        raise ValueError(f"progress is a number from 0 to 1, not {fraction:g}; 40 % is 0.4")
    return min(max(float(fraction), 0.0), 1.0)


def _checked_ms(in_: float | timedelta) -> int:
    seconds = in_.total_seconds() if isinstance(in_, timedelta) else in_
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_RETRY_SECONDS:
        raise ValueError(f"in_ is 0 to {LONGEST_RETRY_SECONDS} seconds, or a timedelta, not {in_!r:.40}")
    return round(seconds * 1000)
