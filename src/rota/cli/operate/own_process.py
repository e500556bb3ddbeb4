"""The set-up of long-running processes: logging, readiness, no core dumps, the last message."""

from __future__ import annotations

import os
import resource
import sys

import structlog


def configure_logging() -> None:
    """JSON lines on stderr; `ROTA_LOG=debug` for more."""
    level = {"debug": 10, "info": 20, "warning": 30}.get(os.environ.get("ROTA_LOG", "info"), 20)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def announce_ready() -> None:
    """Tells the parent process by one byte on the descriptor in ROTA_READY_FD."""
    text = os.environ.pop("ROTA_READY_FD", None)
    if text is not None:
        os.write(int(text), b"R")
        os.close(int(text))


def leave_no_dump() -> None:
    """Forbids core dumps, because memory holds the values of secrets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(text: str, code: int) -> int:
    sys.stderr.write(f"rota: {text}\n")
    return code
