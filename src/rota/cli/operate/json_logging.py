"""The log of `rota serve` and `rota worker`: every line on standard error is one JSON object, whoever writes it.

Rota's own events, messages and warnings of libraries, exceptions that nobody caught (of the process, of a thread, of a
finaliser), and text that somebody writes to `sys.stderr`. Libraries log from warnings on, because their debug output
shows headers, and so tokens. Only what the C runtime says while it dies does not pass through here.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, TextIO

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_MOST_PARTIAL = 64 * 1024  # characters of a line without an end

log = structlog.get_logger()


def configure_logging() -> None:
    """From now on; `ROTA_LOG=debug` for more of Rota's own events."""
    stream = sys.stderr
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS.get(os.environ.get("ROTA_LOG", "info"), 20)),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [LibraryHandler()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    sys.stderr = StrayText(stream)


def fail(text: str, code: int) -> int:
    """The last message of this process: a line of its log, or a sentence where a person or no log is."""
    if structlog.is_configured() and not sys.stderr.isatty():
        log.error("process.failed", reason=text, exit_code=code)
    else:
        sys.stderr.write(f"rota: {text}\n")
    return code


class LibraryHandler(logging.Handler):
    """Passes what libraries log through `logging` on to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception as error:  # noqa: BLE001 - a library's arguments do not fit its own text
            text = f"{record.msg} {record.args!r} ({type(error).__name__}: {error})"
        exception = record.exc_info if record.exc_info and record.exc_info[0] is not None else None
        stack = {"stack": record.stack_info} if record.stack_info else {}
        _write(record.levelno, text, logger=record.name, exc_info=exception, **stack)


class StrayText(io.TextIOBase):
    """Stands for `sys.stderr`: each line that somebody writes there becomes an event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._partial = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._partial = (self._partial + text).split("\n")
            if len(self._partial) > _MOST_PARTIAL:
                lines, self._partial = [*lines, self._partial], ""
        for line in lines:
            if line.strip():
                _write(logging.WARNING, line, logger="stderr")
        return len(text)

    def flush(self) -> None:
        """A part of a line waits for its end."""
        self._stream.flush()

    def close(self) -> None:
        if self._partial.strip():
            self.write("\n")

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _write(logging.CRITICAL, "process.crashed", exc_info=(kind, error, trace))


def _uncaught_in_thread(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is None or isinstance(what.exc_value, SystemExit):
        return
    name = what.thread.name if what.thread else ""
    _write(logging.ERROR, "thread.crashed", thread=name, exc_info=(what.exc_type, what.exc_value, what.exc_traceback))


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    trace = "".join(traceback.format_exception(what.exc_type, what.exc_value, what.exc_traceback)).rstrip()
    _write(logging.ERROR, what.err_msg or "an exception was ignored", where=repr(what.object), exception=trace)


def _write(level: int, event: str, **fields: Any) -> None:
    log.log(min(max(logging.DEBUG, level // 10 * 10), logging.CRITICAL), event, **fields)
