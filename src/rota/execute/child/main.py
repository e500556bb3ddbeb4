"""A warm child: the program in which functions run, one call after the other, until it is told to exit.

A function may print, fork, exit, raise anything or return anything; the child reports it and, where it can, lives on.
Its output pipes carry output only: after each call it asks the kernel whether unread bytes are left and, only then,
waits for the agent's go-ahead, so that output is never attributed to the wrong call. Its start-up is waiting time of a
call, so it imports little.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import fcntl
import importlib
import io
import os
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING

import msgspec

from rota.execute.child import context, plain_arguments
from rota.execute.child.code_changes import Sources
from rota.execute.child.failures import MESSAGE_CHARACTERS, Failure, failure_of, printable
from rota.execute.child.leftover_files import LeftoverFiles
from rota.execute.child.usage import Usage
from rota.execute.linux import process_trees
from rota.execute.messages import calls, masking, packets, progress_board
from rota.execute.messages.spec import decode_spec, keywords, positional, schedule_environment
from rota.model import strict_json
from rota.model.attempt import Outcome
from rota.model.secret import SecretMap

if TYPE_CHECKING:
    from rota.execute.child.questions import AgentQuestions

_CALLS_PER_LIFE = 100_000
_CALLS_PER_WEIGHING = 64
_GROWTH_BYTES = 512 * 1024 * 1024
_FILE_US = 5  # a shorter call has hardly made a file, and a check would take as long
_CALLS_PER_CHECK = 16  # but every so many calls it is checked all the same
_MEASURED_US = 5_000  # the usage of shorter calls is not measured
# Libraries start a few threads at their first use and keep them. More are left behind call by call; they would go on,
# and print, inside later calls of the same tenant.
_MOST_THREADS_LEFT = 8
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROTA_GPUS", "ROTA_DEVICES_")  # the task can't set these
_WAIT_ANY = os.WEXITED | os.WNOHANG | os.WNOWAIT

Given = tuple[list[object], dict[str, object]]
encode_reply = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(calls.Call).decode


class Refusal(Exception):
    """The function can't be called here at all."""

    def __init__(self, slug: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.failure: Failure = (slug, message[:MESSAGE_CHARACTERS], trace)


class Child:
    has_own_environment = True  # one call at a time: programs that it starts find its server and key in the environment

    def __init__(self, channel: socket.socket, outputs: list[int], go_ahead: int) -> None:
        self._sources = Sources()
        self._sources.note()  # the preloaded modules
        self._channel = channel
        self._outputs = outputs
        self._go_ahead = go_ahead
        self._functions: dict[str, Callable[..., object]] = {}
        self._checks: dict[Callable[..., object], plain_arguments.Check] = {}
        self._run_coroutine: Callable[[object], object] | None = None
        self._count = 0
        self._retry_in_ms: int | None = None  # as the current call asked
        self._was_async = False  # the last function
        self._usage = Usage()
        self._unmeasured_us = 0  # run time of calls since the last measurement
        self._devices = {name: value for name, value in os.environ.items() if name.startswith(_DEVICE_VARIABLES)}
        self._leftover_files = LeftoverFiles(sorted({os.environ[name] for name in ("HOME", "TMPDIR")}))
        self._threads = _thread._count()
        self._unread = bytearray(4)
        self._cpu_ns = time.process_time_ns()

    def serve(self) -> None:
        while True:
            packet = packets.receive(self._channel)
            if packet is None or packet[0] == calls.LEAVE:
                return
            call = decode_call(packet[0])
            if self._sources.have_changed(time.monotonic_ns()):
                reply = calls.Reply(call.number, Outcome.REFUSED, 0, False, retire=True, stale=True)
            else:
                reply = self._answer(call)
            packets.send(self._channel, encode_reply(reply))
            if reply.output_pending:
                os.eventfd_read(self._go_ahead)

    def _answer(self, call: calls.Call) -> calls.Reply:
        self._count += 1
        self._retry_in_ms = None
        self._was_async = False
        context.enter(self._context_of(call))
        began = time.perf_counter_ns()
        outcome, result, failure = self._call(call)
        run_us = (time.perf_counter_ns() - began) // 1000
        # Since the end of the last call: a few microseconds too much, but one system call less.
        cpu_ns, before = time.process_time_ns(), self._cpu_ns
        self._cpu_ns = cpu_ns
        context.enter(None)
        _flush()
        end_leftovers()
        checks_files = run_us > _FILE_US or not self._count % _CALLS_PER_CHECK
        has_leftover_files = checks_files and self._has_leftover_files(outcome)
        peak, written = self._used(run_us)
        has_leftover_threads = _thread._count() > self._threads + _MOST_THREADS_LEFT
        return calls.Reply(
            call.number,
            outcome,
            run_us,
            self._output_is_pending(),
            self._is_worn(call.memory_bytes, run_us) or has_leftover_files or has_leftover_threads,
            result,
            failure,
            (cpu_ns - before) // 1000,
            peak,
            self._retry_in_ms,
            is_async=self._was_async,
            grown_bytes=self._usage.grown_bytes,
            written_bytes=written,
        )

    def _context_of(self, call: calls.Call) -> context.TaskContext:
        secrets = SecretMap(call.secrets) if call.secrets else context.NO_SECRETS
        return context.TaskContext(
            call.task,
            call.attempt,
            call.idempotency_key,
            call.name,
            call.ports,
            call.gpus,
            secrets,
            call.inputs,
            call.number,
            devices=dict(call.devices) if call.devices else context.NO_DEVICES,
            server=call.server,
            key=call.key[0] if call.key else None,
        )

    def _call(self, call: calls.Call) -> tuple[Outcome, bytes | None, Failure | None]:
        try:
            spec = decode_spec(call.spec)
            function = self._functions.get(spec.function or "") or self._resolve(spec.function or "")
            arguments, named = positional(spec), keywords(spec)
            if function in self._checks:
                arguments, named = self._checked(function, arguments, named)
        except Refusal as refusal:
            return Outcome.REFUSED, None, refusal.failure
        except msgspec.DecodeError as error:
            return Outcome.REFUSED, None, ("bad-spec", f"the task's spec can't be read: {error}", "")
        patterns = masking.patterns_of(call.masked) if call.secrets or call.key else ()
        try:
            if spec.index is not None:
                context.learn_index(spec.index)
            if spec.scheduled is not None:
                context.enter(context.with_schedule(context.current(), spec.scheduled))
            told = calls.told(call) if self.has_own_environment else {}
            if spec.env or call.secrets or spec.scheduled is not None or told:
                own = spec.env | schedule_environment(spec) | self._devices | told
                with _environment(own | {secret.name: secret.value for secret in call.secrets}):
                    value = self._run(function, arguments, named)
            else:
                value = self._run(function, arguments, named)
        except context.RetryLater as retry:
            self._retry_in_ms = retry.after_ms
            reason = printable(masking.mask_text(str(retry), patterns)[:MESSAGE_CHARACTERS])
            return Outcome.RETRY, None, ("retry", reason, "")
        except BaseException as error:  # noqa: BLE001 - whatever a function raises is its outcome, also SystemExit
            return Outcome.ERROR, None, failure_of(error, patterns)
        try:
            result = strict_json.encode(value)
        except strict_json.NotJson as error:
            why = masking.mask_text(str(error), patterns)
            return Outcome.BAD_RESULT, None, ("bad-result", why[:MESSAGE_CHARACTERS], "")
        if patterns:
            result = masking.mask_json(result, patterns)
        if len(result) > call.result_limit_bytes:
            why = f"the result has {len(result)} bytes of JSON; the limit is {call.result_limit_bytes}"
            return Outcome.BAD_RESULT, None, ("result-too-large", why, "")
        return Outcome.OK, result, None

    def _run(self, function: Callable[..., object], arguments: list[object], named: dict[str, object]) -> object:
        value = function(*arguments, **named)
        if not isinstance(value, CoroutineType):
            return value
        self._was_async = True
        return self._await(value)

    def _resolve(self, reference: str) -> Callable[..., object]:
        module_name, _, path = reference.partition(":")
        if not module_name or not path:
            raise Refusal("unknown-function", f"{reference!r} does not name a function; write package.module:name")
        try:
            target: object = importlib.import_module(module_name)
        except BaseException as error:  # noqa: BLE001 - a module may raise anything while it is imported
            if isinstance(error, ModuleNotFoundError) and module_name.startswith(error.name or "\0"):
                package = "in the task's package, nor " if calls.PACKAGE_VARIABLE in os.environ else ""
                raise Refusal("unknown-function", f"there is no module {error.name} {package}on this node") from None
            name, message, trace = failure_of(error)
            why = f"{module_name} could not be imported: {name}: {message}"
            raise Refusal("import-failed", why, trace) from None
        for part in path.split("."):
            try:
                target = getattr(target, part)
            except AttributeError:
                raise Refusal("unknown-function", f"{module_name} has no {path}") from None
        function = getattr(target, "__rota_function__", target)
        if not callable(function):
            raise Refusal("unknown-function", f"{reference} is not a function")
        self._checks[function] = plain_arguments.check_of(function)
        self._functions[reference] = function
        self._leftover_files.keep()  # files that a module makes at its import are made once
        self._threads = _thread._count()
        self._sources.note(module_name)
        return function

    def _checked(self, function: Callable[..., object], arguments: list[object], named: dict[str, object]) -> Given:
        try:
            return self._checks[function](arguments, named)
        except plain_arguments.BAD as error:
            raise Refusal("bad-argument", str(error)) from None

    def _await(self, coroutine: object) -> object:
        if self._run_coroutine is None:
            # asyncio is a quarter of a start-up; only children with an async function load it.
            self._run_coroutine = importlib.import_module("rota.execute.child.event_loop").make_runner()
        return self._run_coroutine(coroutine)

    def _output_is_pending(self) -> bool:
        unread = self._unread
        for descriptor in self._outputs:
            try:
                fcntl.ioctl(descriptor, termios.FIONREAD, unread)
            except OSError:
                return True  # the function closed it; let the agent check
            if any(unread):
                return True
        return False

    def _has_leftover_files(self, outcome: Outcome) -> bool:
        """Whether a call has left files in the folders that the next one must not find."""
        if not self._leftover_files.is_left():
            return False
        if outcome is not Outcome.OK and self._leftover_files.is_disk_low():
            return True  # the agent checks whether the disk is full before it removes them
        return not self._leftover_files.clear()

    def _is_worn(self, memory_bytes: int, run_us: int) -> bool:
        self._unmeasured_us += run_us
        if self._count % _CALLS_PER_WEIGHING and self._unmeasured_us < _MEASURED_US:
            return False
        self._unmeasured_us = 0
        self._usage.weigh()
        most = min(_GROWTH_BYTES, memory_bytes // 2) if memory_bytes else _GROWTH_BYTES
        return self._count >= _CALLS_PER_LIFE or self._usage.grown_bytes > most

    def _used(self, run_us: int) -> tuple[int, int]:
        """The call's peak memory and written bytes; 0 for a short one."""
        if self._unmeasured_us + run_us < _MEASURED_US:
            return 0, 0
        used = self._usage.measure()
        # else it is that of several calls, and the next measurement starts anew
        return used if run_us >= _MEASURED_US else (0, 0)


@contextlib.contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            continue  # the function replaced or closed it


def end_leftovers() -> None:
    """Kills processes that the call left behind. We are their subreaper: no child means no descendant."""
    try:
        os.waitid(os.P_ALL, 0, _WAIT_ANY)
    except ChildProcessError:
        return
    deadline = time.monotonic() + 2.0
    while True:
        process_trees.signal_all(process_trees.descendants(os.getpid()), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() > deadline:
            os._exit(70)  # they fork faster than we kill: the keeper ends the whole tree when we are gone
        time.sleep(0.001)


def _preload(names: list[str]) -> Failure | None:
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - a module may raise anything while it is imported
            kind, message, trace = failure_of(error)
            return "import-failed", f"{name} could not be imported: {kind}: {message}", trace
    return None


def _opener(descriptor: int) -> Callable[[], AgentQuestions]:
    """Opens the question socket to the agent at its first use: most functions ask nothing."""
    lines: list[AgentQuestions] = []

    def line() -> AgentQuestions:
        if not lines:
            module = importlib.import_module("rota.execute.child.questions")
            lines.append(module.AgentQuestions(socket.socket(fileno=descriptor)))
        return lines[0]

    return line


def main(make: type[Child] = Child) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # keeper and agent may die together: nobody else would end us
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    given = range(calls.CHANNEL_DESCRIPTOR, calls.QUESTIONS_DESCRIPTOR + 1)
    ours, go_ahead, shared, questions = map(os.dup, given)
    channel = socket.socket(fileno=ours)
    context.connect(lambda call, progress: progress_board.write(shared, call, progress), _opener(questions))
    for descriptor in given:
        os.close(descriptor)
    outputs = [os.dup(1), os.dup(2)]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # followers see each line, and a killed call loses none
    package = os.environ.get(calls.PACKAGE_VARIABLE)
    if package:  # only now: the package must not replace modules of this program
        sys.path.insert(0, package)
    failure = _preload(sys.argv[1:])
    _flush()
    outcome = Outcome.OK if failure is None else Outcome.REFUSED
    started_us = time.process_time_ns() // 1000
    packets.send(channel, encode_reply(calls.Reply(0, outcome, 0, False, False, None, failure, started_us)))
    if failure is None:
        make(channel, outputs, go_ahead).serve()


if __name__ == "__main__":
    main()
